"""What went wrong in the original, and goes right here."""

from __future__ import annotations

from .rig import SVG_URI, Rig, agent, yaml


async def test_a_skill_that_is_off_is_off_in_the_list_the_commands_and_for_agents_alike(rig: Rig) -> None:
    """There the list showed the one that is off, while commands and the prompt used another one of its name."""
    rig.put(rig.built_in, "pdf", "built in")
    rig.put(rig.person, "pdf", "the person's")
    rig.put(rig.enabled, "pdf", "global")
    await rig.service.disable(rig.cwd, "pdf")
    assert await rig.names() == ["(pdf)"]
    assert await rig.in_use() == []
    assert await rig.service.load(rig.cwd, "pdf") is None
    assert await rig.own_commands() == set()
    await rig.service.enable(rig.cwd, "pdf")
    assert await rig.in_use() == ["pdf"]


async def test_a_projects_own_is_on_whatever_global_one_is_off(rig: Rig) -> None:
    rig.put(rig.project, "pdf", "the project's")
    rig.put(rig.disabled, "pdf", "global")
    assert await rig.names() == ["pdf"]
    assert await rig.in_use() == ["pdf"]
    assert await rig.own_commands() == {"pdf"}


async def test_an_edited_skill_is_seen_at_once_in_everything(rig: Rig) -> None:
    """There what was read once stayed for the life of the process, in every session."""
    for text in ("# One", "# Two", "# Six"):
        rig.put(rig.project, "deploy", text)
        content = await rig.service.load(rig.cwd, "deploy")
        assert content is not None
        assert content.content == text
        assert (await rig.skills())["deploy"].description == text[2:]
        assert (await rig.expanded("deploy"))[1] == text


async def test_after_a_skill_was_switched_off_nothing_offers_it(rig: Rig) -> None:
    """There the tool's description kept it."""
    rig.put(rig.enabled, "a")
    assert await rig.in_use() == ["a"]
    await rig.service.disable(rig.cwd, "a")
    assert await rig.in_use() == []
    assert await rig.own_commands() == set()


async def test_one_broken_skill_leaves_the_others(rig: Rig) -> None:
    """There one bad record broke the loading of all."""
    (rig.put(rig.project, "bad") / "SKILL.md").write_bytes(b"\xff")
    agent(rig.put(rig.project, "good"), "interface: [")
    assert await rig.names() == ["good"]


async def test_an_icon_reads_no_file_outside_the_skill(rig: Rig) -> None:
    """There a skill could have any file that the server may read sent to every client."""
    folder = rig.put(rig.project, "a")
    (rig.cwd / ".env").write_text("SECRET=1")
    (folder / "icon.svg").write_text("<svg/>\n")
    agent(folder, yaml("icon_small: ../../../.env", "icon_large: icon.svg"))
    interface = (await rig.skills())["a"].interface
    assert interface is not None
    assert (interface.icon_small, interface.icon_large) == (None, SVG_URI)


async def test_money_in_a_skill_is_no_placeholder(rig: Rig) -> None:
    """There ``$3`` in a skill's text was a hint, and vanished when the skill was called."""
    rig.put(rig.project, "sums", "Costs $3.")
    assert (await rig.commands())["sums"].hints == ()
    assert await rig.expanded("sums", "a b") == ("/sums a b", "Costs $3.\n\na b")


async def test_what_is_typed_is_put_in_once(rig: Rig) -> None:
    """There ``$1`` in the arguments was replaced again."""
    rig.say(say={"template": "$ARGUMENTS!"}, both={"template": "$1 $ARGUMENTS"})
    assert await rig.expanded("say", "pay $1 to $ARGUMENTS") == ("/say pay $1 to $ARGUMENTS", "pay $1 to $ARGUMENTS!")
    assert (await rig.expanded("both", "$ARGUMENTS $1"))[1] == "$ARGUMENTS $1 $ARGUMENTS $1"


async def test_an_apostrophe_is_no_quote(rig: Rig) -> None:
    """There ``don't`` lost its apostrophe and became two words."""
    rig.say(greet={"template": "[$1] [$2]"})
    assert (await rig.expanded("greet", "don't worry"))[1] == "[don't] [worry]"


async def test_lists_have_one_order_everywhere(rig: Rig) -> None:
    """There it was whatever the file system gave."""
    for name in ("c", "a", "B"):
        rig.put(rig.project, name)
    assert await rig.names() == ["a", "B", "c"]
