"""What anybody on this machine may post can say what it likes of agents elsewhere; it touches none of ours, and it
neither gives, refuses nor takes away a permission."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.errors import HubError
from dragoman.hub.events import Answer, DecisionOpened, DecisionResolved
from dragoman.hub.permissions import LOCAL
from dragoman.hub.ports import HookChannel
from tests.agents.hooked.kit import SECRET, choices, kit
from tests.agents.hooked.manual_time import timed
from tests.agents.hooked.posts import SUGGESTIONS, Life, Payload, generated, half_normalised, normalised, post
from tests.agents.hooked.test_permissions import GIVEN, asks, at_work, verdict

LIFE = Life("claude", "f0a6ed00-0000-4000-8000-000000000001")
NEXT = LIFE.in_turn("turn-2")

FORGED: dict[str, Payload] = {
    "its call went well": LIFE.after("Bash", "t1", GIVEN),
    "its call failed": LIFE.failed("Bash", "t1", given=GIVEN),
    "its calls are over": LIFE.batch(("Bash", "t1")),
    "its call was refused": LIFE.hook(
        "PermissionDenied", tool_name="Bash", tool_input=GIVEN, tool_use_id="t1", reason="no"
    ),
    "its call began": LIFE.before("Bash", "t1", GIVEN),
    "its turn is over": LIFE.stop(),
    "its turn failed": LIFE.hook("StopFailure", error="server_error"),
    "it was broken off": LIFE.interrupt(),
    "a new turn": NEXT.prompt("go on"),
    "another call": NEXT.before("Read", "t9", {"file_path": "/a"}),
    "the same is asked": LIFE.permission("Bash", GIVEN, SUGGESTIONS),
    "something harmless is asked": LIFE.permission("Bash", {"command": "ls"}),
    "nothing is asked any more": LIFE.notify("idle_prompt"),
    "a permission is noted": LIFE.notify("permission_prompt", "Claude needs your permission"),
    "it started anew": LIFE.start("resume"),
    "it was cleared": LIFE.end("clear"),
    "it has ended": LIFE.end(),
    "a sub-agent is done": LIFE.subagent_stop("a1"),
    "its context was shortened": LIFE.compact(),
}
"""What a stranger may say of the session whose hook asks."""

FORMS = {
    "raw": lambda payload: payload,
    "generated": lambda payload: generated(payload, "claude", 1_800_000_000_000),
    "half": lambda payload: (
        half_normalised(payload, "claude", 1_800_000_000_000, "evt-forged")
        if payload["hook_event_name"] in _NORMAL
        else payload
    ),
    "normalised": lambda payload: (
        normalised(payload, "claude", 1_800_000_000_000) if payload["hook_event_name"] in _NORMAL else payload
    ),
}

_NORMAL = {"PostToolUse", "PreToolUse", "Stop", "SessionStart", "SessionEnd", "UserPromptSubmit", "Notification"}


# A permission that a hook of the user's own socket asks for


@pytest.mark.parametrize("channel", ["http", "file"])
@pytest.mark.parametrize("said", FORGED)
@timed
async def test_nothing_forged_settles_what_is_asked(said: str, channel: HookChannel, tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await at_work(k, LIFE, ("Bash", "t1", GIVEN))
        asking = await asks(k, LIFE, suggestions=SUGGESTIONS)
        opened = await k.decision(LIFE.session)
        for form in FORMS.values():
            await k.take(form(FORGED[said]), channel)
        await k.advance(5)
        assert not asking.done()
        still = {one.decision: one for one in await k.open_decisions(LIFE.session)}
        assert opened.decision in still
        assert still[opened.decision] == opened, "nor is it shown as anything else"
        others = [one for one in still.values() if one.decision != opened.decision]
        assert not [one for one in others if choices(one)], "a forged one has no rows"
        await k.answer(LIFE.session, opened, "1")
        assert verdict(await k.printed(asking)) == {"behavior": "allow"}


@pytest.mark.parametrize("said", ["its call went well", "its turn is over", "it has ended"])
@timed
async def test_what_the_agent_itself_says_after_a_forged_twin_settles_it(said: str, tmp_path: Path) -> None:
    """The true post is no news any more; what it says of the permission is."""
    async with kit(tmp_path) as k:
        await at_work(k, LIFE, ("Bash", "t1", GIVEN))
        asking = await asks(k, LIFE)
        await k.take(FORGED[said], "http")
        assert not asking.done()
        await k.take(FORGED[said], "socket", agent="claude")
        assert await k.printed(asking) == ""
        assert not [one for one in await k.open_decisions(LIFE.session) if choices(one)]


@pytest.mark.parametrize("channel", ["http", "file"])
@timed
async def test_a_forged_question_before_the_true_one_gets_no_answer(channel: HookChannel, tmp_path: Path) -> None:
    """Yes to what a stranger made up is not yes to what comes after it."""
    async with kit(tmp_path) as k:
        await at_work(k, LIFE, ("Bash", "t1", GIVEN))
        await k.take(LIFE.permission("Bash", {"command": "ls"}), channel)
        assert not await k.open_decisions(LIFE.session), "whose hooks are heard is believed there only"
        asking = await asks(k, LIFE)
        (true,) = await k.open_decisions(LIFE.session)
        await k.answer(LIFE.session, true, choices(true)[-1])
        assert verdict(await k.printed(asking))["behavior"] == "deny"


@pytest.mark.parametrize("channel", ["http", "file"])
@timed
async def test_a_forged_twin_before_the_true_one_takes_nothing_away(channel: HookChannel, tmp_path: Path) -> None:
    """The same words first by HTTP: the hook that really asks can still be answered."""
    async with kit(tmp_path) as k:
        await at_work(k, LIFE, ("Bash", "t1", GIVEN))
        await k.take(LIFE.permission("Bash", GIVEN, SUGGESTIONS), channel)
        asking = k.asking(LIFE.permission("Bash", GIVEN), agent="claude")
        await k.settle()
        assert not asking.done()
        true = [one for one in await k.open_decisions(LIFE.session) if choices(one)]
        assert len(true) == 1
        assert len(choices(true[0])) == 2, "what was suggested by a stranger is offered to nobody"
        await k.answer(LIFE.session, true[0], "1")
        assert verdict(await k.printed(asking)) == {"behavior": "allow"}


@pytest.mark.parametrize("channel", ["http", "file"])
@timed
async def test_who_asks_by_another_way_is_told_nothing(channel: HookChannel, tmp_path: Path) -> None:
    """Only the user's own socket can be answered."""
    async with kit(tmp_path) as k:
        await at_work(k, LIFE, ("Bash", "t1", GIVEN))
        asking = k.asking(LIFE.permission(), channel, agent="claude")
        assert await k.printed(asking) == ""
        assert not [one for one in await k.open_decisions(LIFE.session) if choices(one)]


@pytest.mark.parametrize("channel", ["http", "file"])
@timed
async def test_what_came_by_another_way_is_shown_and_ends_by_what_follows(channel: HookChannel, tmp_path: Path) -> None:
    """Users who have only the HTTP hooks see that somebody is needed, and no longer than that."""
    async with kit(tmp_path) as k:
        await k.take_all([LIFE.start(), LIFE.prompt(), LIFE.before("Bash", "t1", GIVEN)], channel)
        await k.take(LIFE.permission(), channel)
        assert k.status(LIFE.session) == "waiting (permission)"
        (opened,) = await k.open_decisions(LIFE.session)
        session = await k.session(LIFE.session)
        for said in (Answer(accept=True), Answer(accept=False), Answer(option=1)):
            with pytest.raises(HubError):
                await k._do(session.answer(LOCAL, opened.decision, said, via="cin"))
        assert await k.open_decisions(LIFE.session) == [opened]
        await k.take(LIFE.after("Bash", "t1", GIVEN), channel)
        assert k.status(LIFE.session) == "working"
        assert not await k.open_decisions(LIFE.session)
        facts = [event.fact for event in await k.log(session.id)]
        assert [fact.answer for fact in facts if isinstance(fact, DecisionResolved)] == [None]


@timed
async def test_forged_questions_do_not_use_up_what_may_be_open(tmp_path: Path) -> None:
    """However many a stranger asks, the true one comes through."""
    async with kit(tmp_path) as k:
        await at_work(k, LIFE, ("Bash", "t1", GIVEN))
        for number in range(300):
            try:
                await k.take(LIFE.permission("Bash", {"command": f"echo {number}"}), "http")
            except HubError:
                break
        asking = k.asking(LIFE.permission(), agent="claude")
        await k.settle()
        assert not asking.done()
        (true,) = [one for one in await k.open_decisions(LIFE.session) if choices(one)]
        await k.answer(LIFE.session, true, "1")
        assert verdict(await k.printed(asking)) == {"behavior": "allow"}


# Our own sessions


def forms_of(payload: Payload) -> list[Payload]:
    return [form(payload) for form in FORMS.values()]


@pytest.mark.parametrize("channel", ["http", "file", "socket"])
@pytest.mark.parametrize("claim", ["none", "id", "id and a wrong secret"])
@timed
async def test_ours_change_by_nothing_forged(channel: HookChannel, claim: str, tmp_path: Path) -> None:
    """Its log, its row, its open decision: all as before, whatever is said of it under its agent's own name."""
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        own.open_decision(
            DecisionOpened(decision="d1", kind="permission", text="rm -rf build", tool="Bash", input=GIVEN)
        )
        await k.settle()
        before, head = own.row(), own.head
        more: dict[str, Any] = {} if claim == "none" else {"session": own.id}
        if claim == "id and a wrong secret":
            more["secret"] = SECRET[::-1]
        for payload in FORGED.values():
            for form in forms_of(payload):
                await k.take(form, channel, **more)
        await k.advance(5)
        assert (own.row(), own.head) == (before, head)
        assert list(own.shown.decisions) == ["d1"]
        assert own.hooks.ingested == []  # type: ignore[union-attr]


@pytest.mark.parametrize("channel", ["http", "file", "socket"])
@timed
async def test_ours_change_by_nothing_that_bears_their_own_id(channel: HookChannel, tmp_path: Path) -> None:
    """In every place where an id could be put."""
    async with kit(tmp_path) as k:
        own = await k.own(agent_session="another")
        own.open_decision(DecisionOpened(decision="d1", kind="permission", text="rm -rf build"))
        await k.settle()
        before, head = own.row(), own.head
        liar = Life("claude", own.id)
        for payload in (liar.start(), liar.prompt(), liar.permission(), liar.after("Bash", "t", GIVEN), liar.end()):
            beside = {"dragoman_session": own.id, "DRAGOMAN_SESSION": own.id, "bridgeSessionId": own.id}
            beside |= {"session": own.id, "secret": SECRET[::-1], "managed_by_session": own.id}
            for form in forms_of(payload):
                await k.take(form | beside, channel)
        await k.advance(3)
        assert (own.row(), own.head) == (before, head)
        assert all(row.session != own.id for row in k.rows())


@timed
async def test_a_secret_inside_a_payload_proves_nothing(tmp_path: Path) -> None:
    """It has its own place, which only the user's own socket fills; and what lies in a payload is written down."""
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        before = own.head
        stranger = Life("claude", "some-one-else")
        await k.take(stranger.prompt() | {"secret": SECRET, "session": own.id, "dragoman_secret": SECRET}, "http")
        await k.settle()
        assert own.head == before
        for row in k.rows():
            assert SECRET not in repr(await k.log(row.session))


@timed
async def test_a_forged_permission_of_ours_is_not_shown(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        for channel in ("http", "file"):
            await k.take(LIFE.permission("Bash", {"command": "ls"}), channel)
        await k.settle()
        assert not own.shown.decisions
        assert not [row for row in k.rows(None) if row.asks is not None]


# The names of files


SECRETS = ("/etc/passwd", "/etc/shadow", "/home/me/.ssh/id", "../../../etc/passwd", "/proc/self/environ", "a\0b")


@pytest.mark.parametrize("path", SECRETS)
@timed
async def test_a_log_that_a_stranger_names_is_known_as_such(path: str, tmp_path: Path) -> None:
    """Whoever reads logs is told how the name came, and can refuse it."""
    async with kit(tmp_path) as k:
        for channel in ("http", "file"):
            await k.take(LIFE.prompt() | {"transcript_path": path}, channel)
        assert {told[3] for told in k.transcripts} <= {"http", "file"}
        for row in k.rows():
            told = await k.told(row.session)
            assert "root:" not in repr(told)


@timed
async def test_the_true_name_of_a_log_comes_through_after_a_forged_one(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take(LIFE.prompt() | {"transcript_path": "/etc/passwd"}, "http")
        await k.take(LIFE.before("Bash", "t1"), "http")  # the true path, from somebody who cannot be believed
        await k.take(LIFE.after("Bash", "t1"), "socket")
        assert ("claude", LIFE.session, LIFE.transcript, "socket") in k.transcripts


@timed
async def test_each_log_is_named_once(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for payload in (LIFE.start(), LIFE.prompt(), LIFE.before("Bash", "t1"), LIFE.after("Bash", "t1"), LIFE.stop()):
            await k.take(payload, "socket")
        assert k.transcripts == [("claude", LIFE.session, LIFE.transcript, "socket")]


# Sessions of others


@timed
async def test_what_is_forged_of_one_changes_no_other(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        victim = Life("claude", "0fcf7a1e-0000-4000-8000-000000000002")
        await at_work(k, victim, ("Bash", "v1", GIVEN))
        before = k.row(victim.session)
        for payload in FORGED.values():
            for form in forms_of(payload):
                await k.take(form, "http")
                await k.take(form | {"parent_session_id": victim.session, "id": f"{before.session}:1"}, "http")
        await k.settle()
        assert k.row(victim.session) == before


@timed
async def test_a_forged_id_of_an_event_keeps_no_true_one_out(tmp_path: Path) -> None:
    """A stranger may use up ids; hooks of the user's own socket bring none of theirs, and come through."""
    async with kit(tmp_path) as k:
        await at_work(k, LIFE)
        session = k.row(LIFE.session).session
        for number in range(1, 30):
            forged = normalised(NEXT.notify(None, "x"), "claude", k.clock.now(), f"{session}:{number}")
            await k.take(forged, "http")
        await k.take(post(LIFE.before("Bash", "t1", GIVEN), "socket", agent="claude"))
        told = await k.events(LIFE.session)
        assert [event["toolUseId"] for event in told if event["type"] == "pre_tool_use"] == ["t1"]
        assert len({event["id"] for event in told}) == len(told), "and no two events have one id"
