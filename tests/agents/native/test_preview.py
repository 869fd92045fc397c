"""What is shown beforehand is what a turn gives its model, whatever the session's settings and folder say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.clock import SystemClock
from dragoman.hub.errors import Unsupported
from dragoman.hub.events import ContextReported, HistoryMessage, ToolEnded
from dragoman.hub.permissions import LOCAL
from dragoman.hub.previews import Previewed, PreviewWanted
from dragoman.hub.tool_offers import ToolOffer
from tests.hub.workspaces import KnownConfigs, KnownSkills

from .native_rig import Given, NativeHub, OneModel, Recording, native_hub, of, script

NOTE = ToolOffer(
    name="save_note",
    description="Save a note.",
    parameters={"type": "object", "properties": {"text": {"type": "string"}}},
)


class Searching(Recording):
    searches = True


@pytest.fixture
def skills() -> KnownSkills:
    known = KnownSkills()
    known.add("pdf", description="For PDF files")
    return known


@pytest.fixture(params=[Recording, Searching], ids=["our search", "the provider's search"])
def model(request: pytest.FixtureRequest) -> Recording:
    made = request.param()
    assert isinstance(made, Recording)
    return made


@pytest.fixture
async def hub(tmp_path: Path, model: Recording, skills: KnownSkills) -> AsyncIterator[NativeHub]:
    async with native_hub(tmp_path, provider=model, skills=skills, configs=KnownConfigs()) as opened:
        yield opened


async def preview(hub: NativeHub, prompt: str, cwd: str, settings: dict[str, Any], **more: Any) -> Previewed:
    factory = hub.registry._factory("native")
    previews = factory.previews(SystemClock())  # type: ignore[attr-defined]
    shown = await previews.preview(PreviewWanted(cwd=cwd, settings=settings, prompt=prompt, **more))
    assert isinstance(shown, Previewed)
    return shown


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"system_prompt": "You are somebody else."},
        {"system_prompt": " \n"},
        {"system_prompt": "Else.", "instructions": "And be brief."},
        {"instructions": "Be brief."},
        {"mode": "plan"},
        {"enabled_tools": ["webSearch"]},
        {"enabled_tools": []},
        {"enabled_tools": ["bash", "skill", "save_note"], "disabled_tools": ["bash"]},
        {"disabled_tools": ["webSearch"]},
    ],
    ids=lambda settings: ",".join(f"{key}={value}" for key, value in settings.items()) or "none",
)
async def test_a_preview_equals_what_is_sent(hub: NativeHub, model: Recording, settings: dict[str, Any]) -> None:
    session = await hub.session(**settings)
    await session.declare_tools(LOCAL, "link", [NOTE])
    facts = await hub.turn(session, script("say hi"))
    sent = model.requests[0]
    shown = await preview(hub, script("say hi"), session.state.cwd, settings, tools=(NOTE,))
    assert shown.system == sent.system
    assert shown.web_search == sent.web_search
    assert [tool["name"] for tool in shown.offered] == [tool.name for tool in sent.tools]
    reported = {fact.part: fact.content for fact in of(facts, ContextReported)}
    assert shown.offered == reported["tool_schemas"]
    assert shown.system == reported["system_prompt"]
    assert shown.messages[-1].content == reported["user_message"]
    assert (shown.provider, shown.model) == (model.name, sent.model)


async def test_a_replaced_prompt_is_the_whole_of_it(hub: NativeHub, model: Recording) -> None:
    await hub.turn(await hub.session(system_prompt="SP"), script("say hi"))
    assert model.requests[0].system == "SP"


async def test_tools_that_are_not_enabled_are_not_offered_and_not_run(hub: NativeHub, model: Recording) -> None:
    session = await hub.session(enabled_tools=["glob"])
    facts = await hub.turn(session, script("call bash {}", "say done"))
    assert [tool.name for tool in model.requests[0].tools] == ["glob"]
    assert [fact.status for fact in of(facts, ToolEnded)] == ["error"]
    assert not model.requests[0].web_search


async def test_a_client_may_offer_a_tool_by_the_name_of_one_that_is_not_enabled(hub: NativeHub) -> None:
    session = await hub.session(enabled_tools=["webSearch"])
    declared = await session.declare_tools(LOCAL, "link", [ToolOffer(name="bash"), ToolOffer(name="webSearch")])
    assert declared.accepted == ("bash",)


async def test_enabling_a_tool_later_hides_a_clients_of_its_name(hub: NativeHub, model: Recording) -> None:
    session = await hub.session(enabled_tools=[])
    await session.declare_tools(LOCAL, "link", [ToolOffer(name="glob", description="theirs")])
    await session.change_settings(LOCAL, {"enabled_tools": ["glob"]})
    await hub.turn(session, script("say hi"))
    (tool,) = model.requests[0].tools
    assert tool.description != "theirs"


async def test_the_history_comes_first_and_its_last_prompts_are_joined(hub: NativeHub, tmp_path: Path) -> None:
    history = (
        HistoryMessage("user", "one"),
        HistoryMessage("assistant", "two"),
        HistoryMessage("user", "three"),
        HistoryMessage("tool", "an orphan", call="c"),
    )
    shown = await preview(hub, "four", str(tmp_path), {}, history=history)
    assert [(each.role, each.content) for each in shown.messages] == [
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three\n\nfour"),
    ]


async def test_nothing_is_asked_and_nothing_is_made(hub: NativeHub, model: Recording, tmp_path: Path) -> None:
    shown = await preview(hub, "hi", str(tmp_path), {})
    assert shown.tokens
    assert model.requests == []
    assert hub.registry.rows(LOCAL) == []


async def test_what_is_known_does_not_hang_on_settings(hub: NativeHub, tmp_path: Path) -> None:
    shown = await preview(hub, "hi", str(tmp_path), {"enabled_tools": []})
    assert shown.offered == []
    names = {tool["name"] for tool in shown.known}
    assert {"bash", "webSearch", "presentPlan", "spawnAgent"} <= names


async def test_a_program_that_runs_turns_by_itself_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program(self: OneModel, provider: str | None, model: str | None) -> Given:
        return Given("claude-code", "m", lambda: self.provider, delegate=lambda: None)  # type: ignore[arg-type,return-value]

    monkeypatch.setattr(OneModel, "choose", program)
    async with native_hub(tmp_path, settings=NativeSettings()) as hub:
        with pytest.raises(Unsupported, match="claude-code"):
            await preview(hub, "hi", str(tmp_path), {})


async def test_the_prompts_text_is_the_last_message(hub: NativeHub, model: Recording, tmp_path: Path) -> None:
    shown = await preview(hub, "hello there", str(tmp_path), {})
    assert shown.messages[-1] == HistoryMessage("user", "hello there")
    assert model.requests == []
