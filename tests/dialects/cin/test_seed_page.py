"""The seed's page: its types are our wire types, its examples are read and written as they stand, and each line of its
checklist is a test: of the server here, of a client in ``tests/client/test_cin_client.py``."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec
import pytest

from dragoman.dialects.cin import messages

from . import seed_page
from .recorded.bridge import MOUNTED, Bridge, Link, of
from .seed_page import Named, Word
from .stream_checker import problems

mounted = pytest.mark.skipif(not MOUNTED, reason="the dialect is not mounted")

EVENTS: dict[str, type[messages.AgentEvent]] = {str(one.__struct_config__.tag): one for one in get_args(messages.Event)}

SAME = {str: "string", int: "number", bool: "boolean"}

BEYOND = frozenset(
    {"claudeSessionId", "codexThreadId", "zonePosition", "suggestion", "autoAccept", "gitStatus", "waitingFor"}
    | {"agent_id"}
)
"""Fields that the page lacks and clients in use read (spec 2), all of them optional."""

EXAMPLES = list(seed_page.examples())


# Types


def test_the_page_has_what_it_had() -> None:
    assert len(seed_page.messages()) == 11
    assert len(EXAMPLES) == 5
    assert (len(seed_page.checklist()), len(seed_page.client_checklist())) == (9, 6)


@pytest.mark.parametrize("at", range(len(EXAMPLES)))
def test_an_example_is_one_of_the_pages_types(at: int) -> None:
    example = EXAMPLES[at]
    assert seed_page.unlike(example, seed_page.messages()[example["type"]]) == []


@pytest.mark.parametrize("at", range(len(EXAMPLES)))
def test_an_example_is_read_and_written_as_it_stands(at: int) -> None:
    told = EXAMPLES[at]["data"]
    if EXAMPLES[at]["type"] == "event":
        assert _again(told, messages.Event) == told
    else:
        for session in told.get("sessions", [told]):
            assert _again(session, messages.Session) == session


def _again(told: Any, kind: Any) -> Any:
    return json.loads(msgspec.json.encode(msgspec.convert(told, kind)))


def test_the_words_are_the_pages() -> None:
    assert get_args(messages.Status) == seed_page.words("SessionStatus")
    assert get_args(messages.EventType) == seed_page.words("EventType")
    assert get_args(get_type_hints(messages.Session)["type"]) == seed_page.words("SessionType")


def test_the_eight_events_are_the_pages() -> None:
    assert tuple(EVENTS) == tuple(seed_page.events()) == seed_page.words("EventType")


def test_a_session_has_the_pages_fields_in_its_order() -> None:
    _same_fields(messages.Session, seed_page.interface("Session"), ordered=True)


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_has_the_pages_fields(name: str) -> None:
    page = seed_page.events()[name]
    _same_fields(EVENTS[name], page)
    base = {field.name for field in seed_page.interface("BaseEvent").fields}
    own = [field.name for field in page.fields if field.name not in base]
    assert [one for one in EVENTS[name].__struct_encode_fields__ if one in own] == own


def _same_fields(kind: type[msgspec.Struct], page: seed_page.Object, *, ordered: bool = False) -> None:
    hints = get_type_hints(kind)
    fields = {one.encode_name: one for one in msgspec.structs.fields(kind)}
    wanted = [field for field in page.fields if not (field.name == "type" and isinstance(field.type, Word))]
    for field in wanted:
        assert fields[field.name].required == field.required, field
        assert _same_type(hints[fields[field.name].name], field.type), field
    beyond = [one for name, one in fields.items() if name not in {field.name for field in wanted}]
    assert {one.encode_name for one in beyond} <= BEYOND
    assert not any(one.required for one in beyond)
    if ordered:
        assert [name for name in fields if name not in BEYOND] == [field.name for field in wanted]


def _same_type(hint: Any, page: seed_page.Type) -> bool:
    """``AgentType`` is any text, whatever its two words; what may be left out is None with us."""
    parts = [one for one in get_args(hint) or (hint,) if one is not type(None)]
    if isinstance(page, Named) and page.name in ("SessionStatus", "SessionType"):
        return get_args(hint) == seed_page.words(page.name)
    if isinstance(page, Named) and page.name.startswith("Record<"):
        return str(hint).startswith("dict[str, ")
    if isinstance(page, Named) and page.name == "AgentType":
        return parts == [str]
    return isinstance(page, Named) and [SAME.get(one) for one in parts] == [page.name]


@pytest.mark.parametrize("name", EVENTS)
def test_what_is_left_out_is_left_out_and_never_null(name: str) -> None:
    filled = {one.name: _some(get_type_hints(EVENTS[name])[one.name]) for one in _required(EVENTS[name])}
    written = json.loads(msgspec.json.encode(EVENTS[name](**filled)))
    assert seed_page.event_problems(written) == []
    assert None not in written.values()
    assert set(written) == {"type"} | {one.encode_name for one in _required(EVENTS[name])}


def _required(kind: type[msgspec.Struct]) -> list[msgspec.structs.FieldInfo]:
    return [one for one in msgspec.structs.fields(kind) if one.required]


def _some(hint: Any) -> Any:
    return {str: "x", int: 1, bool: True}.get(hint, {})


@pytest.mark.parametrize("name", ["id", "status", "cwd", "createdAt"])
def test_a_session_without_a_field_that_must_be_there_is_none(name: str) -> None:
    told = EXAMPLES[0]["data"]["sessions"][0]
    short = {key: value for key, value in told.items() if key != name}
    assert seed_page.unlike(short, "Session") == [f"it has no {name}"]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(short, messages.Session)


# The checklist, server half. Each test has the line's number; the last one holds the list to be complete.


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """A server that speaks as the page says, and no more."""
    made = Bridge(tmp_path_factory.mktemp("cin"), legacy=False)
    asyncio.run(made.start())
    yield made
    made.kill()
    assert "Traceback" not in made.log.read_text(), made.log.read_text()


@pytest.fixture
def agent() -> str:
    """An agent's session that no other test knows."""
    return str(uuid.uuid4())


async def post(bridge: Bridge, agent: str, name: str, **fields: Any) -> None:
    """One hook of Claude's."""
    hook = {"session_id": agent, "cwd": str(bridge.folder), "hook_event_name": name, **fields}
    answer = await bridge.request("POST", "/event", hook)
    assert (answer.status, answer.body) == (200, {"ok": True})


async def known(bridge: Bridge, link: Link, agent: str) -> str:
    """Begin the agent's session; its id here."""
    await post(bridge, agent, "SessionStart", source="startup")
    created = await link.hear("session:created", agentSessionId=agent)
    return str(created["data"]["id"])


BASH: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_1"}


@mounted
@pytest.mark.parametrize("path", ["/", "/any/path?x=1"])
async def test_line_1_the_first_frame_is_init_whatever_the_path(bridge: Bridge, path: str) -> None:
    async with bridge.link(path) as link:
        frame = await link.hear("init")
        assert link.frames[0] is frame
        assert seed_page.unlike(frame, seed_page.messages()["init"]) == []


@mounted
async def test_line_1_init_has_the_sessions_that_there_are(bridge: Bridge, agent: str) -> None:
    async with bridge.link() as first:
        session = await known(bridge, first, agent)
        async with bridge.link() as later:
            told = (await later.hear("init"))["data"]["sessions"]
    mine = [one for one in told if one["id"] == session]
    assert [(one["agentSessionId"], one["type"], one["agent"]) for one in mine] == [(agent, "external", "claude")]


@mounted
async def test_line_2_every_event_of_an_agent_is_told_to_every_link(bridge: Bridge, agent: str) -> None:
    async with bridge.link() as one, bridge.link() as other:
        session = await known(bridge, one, agent)
        await post(bridge, agent, "UserPromptSubmit", prompt="hello")
        await post(bridge, agent, "PreToolUse", **BASH)
        await post(bridge, agent, "PostToolUse", **BASH, tool_response={"stdout": "x"})
        await post(bridge, agent, "Notification", message="look")
        await post(bridge, agent, "SubagentStop", agent_id="a1", stop_hook_active=False)
        await post(bridge, agent, "Stop", stop_hook_active=False, last_assistant_message="done")
        await post(bridge, agent, "SessionEnd", reason="logout")
        for link in (one, other):
            await link.hear("event", type="session_end", sessionId=session)
            told = [frame["data"] for frame in of(link.frames, "event") if frame["data"]["sessionId"] == session]
            assert [event["type"] for event in told] == [
                "session_start",
                "user_prompt_submit",
                "pre_tool_use",
                "post_tool_use",
                "notification",
                "subagent_stop",
                "stop",
                "session_end",
            ]
            assert told[1]["prompt"] == "hello"
            assert (told[2]["tool"], told[2]["toolInput"], told[2]["toolUseId"]) == (
                "Bash",
                {"command": "ls"},
                "toolu_1",
            )
            assert (told[3]["toolResponse"], told[3]["success"]) == ({"stdout": "x"}, True)
            assert told[3]["duration"] >= 0
            assert told[6]["response"] == "done"
            assert told[7]["reason"] == "logout"
            assert problems(link.frames, legacy=False) == []


@mounted
async def test_line_3_a_new_session_is_told_before_anything_of_it(bridge: Bridge, agent: str) -> None:
    async with bridge.link() as link:
        session = await known(bridge, link, agent)
        await link.hear("event", sessionId=session)
        assert problems(link.frames, legacy=False) == []


@mounted
async def test_line_4_a_new_name_and_a_tool_are_updates(bridge: Bridge, agent: str) -> None:
    async with bridge.link() as link:
        session = await known(bridge, link, agent)
        await post(bridge, agent, "PreToolUse", **BASH)
        await link.hear("session:updated", id=session, currentTool="Bash")
        answer = await bridge.request("PATCH", f"/sessions/{session}", {"name": "renamed"})
        assert answer.status == 200
        await link.hear("session:updated", id=session, name="renamed")


@mounted
async def test_line_5_a_session_that_was_deleted_is_told_last(bridge: Bridge, agent: str) -> None:
    async with bridge.link() as link:
        session = await known(bridge, link, agent)
        assert (await bridge.request("DELETE", f"/sessions/{session}")).status == 200
        await link.hear("session:deleted", id=session)
        assert (await bridge.request("GET", f"/sessions/{session}")).status == 404
        await link.pong()
        assert problems(link.frames, legacy=False) == []


@mounted
async def test_line_6_each_status_is_told_as_it_changes(bridge: Bridge, agent: str) -> None:
    async with bridge.link() as link:
        session = await known(bridge, link, agent)
        for name, fields in (("UserPromptSubmit", {"prompt": "go"}), ("Stop", {"stop_hook_active": False})) * 2:
            await post(bridge, agent, name, **fields)
        await post(bridge, agent, "SessionEnd", reason="logout")
        await link.hear("session:status", id=session, status="offline")
        told = [
            frame["data"]["status"] for frame in of(link.frames, "session:status") if frame["data"]["id"] == session
        ]
        assert told == ["waiting", "working", "waiting", "offline"]


@mounted
async def test_line_7_a_ping_has_its_pong(bridge: Bridge) -> None:
    async with bridge.link() as link:
        for _ in range(3):
            await link.say({"type": "ping"})
        await link.until(lambda: len(of(link.frames, "pong")) == 3, "three pongs")
        assert of(link.frames, "pong") == [{"type": "pong"}] * 3


@mounted
@pytest.mark.parametrize("key", ["data", "payload"])
async def test_line_8_history_is_what_was_told_oldest_first(
    bridge: Bridge, agent: str, key: Literal["data", "payload"]
) -> None:
    async with bridge.link() as link:
        session = await known(bridge, link, agent)
        for number in range(5):
            await post(bridge, agent, "UserPromptSubmit", prompt=f"prompt {number}")
        await link.hear("event", sessionId=session, prompt="prompt 4")
        told = [frame["data"] for frame in of(link.frames, "event") if frame["data"]["sessionId"] == session]
        await link.say({"type": "get_history", key: {"sessionId": session, "limit": 3}})
        assert (await link.hear("history"))["data"] == told[-3:]
        after = len(link.frames)
        await link.say({"type": "get_history", key: {"sessionId": session}})
        assert (await link.hear("history", after))["data"] == told
        assert problems(link.frames, legacy=False) == []


@mounted
async def test_line_9_a_subscription_filters_events_and_nothing_else(bridge: Bridge, agent: str) -> None:
    other = str(uuid.uuid4())
    async with bridge.link() as link, bridge.link() as all_of_it:
        session = await known(bridge, all_of_it, agent)
        await link.say({"type": "subscribe", "data": {"sessions": [session], "eventTypes": ["stop"]}})
        await link.pong()
        start = len(link.frames)
        elsewhere = await known(bridge, link, other)
        for one in (agent, other):
            await post(bridge, one, "UserPromptSubmit", prompt="go")
            await post(bridge, one, "Stop", stop_hook_active=False)
        await link.hear("session:status", start, id=elsewhere, status="waiting")
        await link.hear("event", start, sessionId=session, type="stop")
        await link.say({"type": "subscribe"})
        await link.pong()
        await post(bridge, other, "UserPromptSubmit", prompt="again")
        await link.hear("event", start, sessionId=elsewhere, prompt="again")
        told = [frame["data"] for frame in of(link.frames[start:], "event")]
        assert [(event["sessionId"], event["type"]) for event in told] == [
            (session, "stop"),
            (elsewhere, "user_prompt_submit"),
        ]
        assert problems(link.frames, legacy=False, filtered=True) == []


def test_every_line_of_the_checklist_is_a_test() -> None:
    """The server half here, the client half where our own client is tested."""
    client = Path(__file__).parents[2] / "client" / "test_cin_client.py"
    assert _tested("test_line_", Path(__file__)) == set(range(1, len(seed_page.checklist()) + 1))
    assert _tested("test_client_line_", client) == set(range(1, len(seed_page.client_checklist()) + 1))


def _tested(prefix: str, file: Path) -> set[int]:
    return {int(line) for line in re.findall(rf"^async def {prefix}(\d+)_", file.read_text(), re.MULTILINE)}
