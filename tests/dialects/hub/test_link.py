"""A link without a socket: what it shares with others, when it takes no more, and that nothing a client sends hurts."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.dialects.base import Refusal, Upgrade
from dragoman.dialects.hub import HubDialect, HubDialectSettings
from dragoman.dialects.hub.link import HubLink
from dragoman.dialects.hub.messages import MESSAGES
from dragoman.hub.errors import StorageUnavailable
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL, READ_ONLY, Principal
from dragoman.hub.session import Session

from .conftest import MakeRig
from .rig import Rig, eventually

UPGRADE = Upgrade(path="/ws", query={}, bearer=None, peer="127.0.0.1", loopback=True)


class Wire:
    """Counts wakes; frames are pulled by the test."""

    def __init__(self) -> None:
        self.wakes = 0
        self.limit = 0

    def wake(self) -> None:
        self.wakes += 1

    def close(self, code: int, reason: str = "") -> None:
        raise AssertionError(f"closed with {code} {reason}")

    def set_message_limit(self, size: int) -> None:
        self.limit = size


async def open_link(dialect: HubDialect) -> HubLink:
    link = await dialect.open(UPGRADE, Wire())
    assert not isinstance(link, Refusal)
    return link


def payload(frame: bytes) -> bytes:
    """What a frame holds."""
    length = frame[1] & 127
    return frame[{126: 4, 127: 10}.get(length, 2) :]


def drain(link: HubLink) -> list[bytes]:
    frames = []
    while (frame := link.pull()) is not None:
        frames.append(frame)
    return frames


def said(link: HubLink) -> list[dict[str, Any]]:
    """Every text message that is ready."""
    return [json.loads(payload(frame)) for frame in drain(link) if frame[0] == 0x81]


async def asked(link: HubLink, op: str, **fields: Any) -> dict[str, Any]:
    """Ask, and wait for the answer; what else is ready is dropped."""
    link.receive(json.dumps({"op": op, "id": "?", **fields}))
    found: list[dict[str, Any]] = []

    def probe() -> list[dict[str, Any]]:
        found.extend(message for message in said(link) if message.get("id") == "?")
        return found

    return (await eventually(probe, f"an answer to {op}"))[0]


@pytest.fixture
async def session(rig: Rig) -> Session:
    return await rig.session()


async def test_links_at_the_same_place_are_handed_the_very_same_object(rig: Rig, session: Session) -> None:
    links = [await open_link(rig.dialect) for _ in range(5)]
    for link in links:
        await asked(link, "follow", session=session.id, after=session.shown.seq)
    await rig.play(session, "say hello to all")
    frames = [drain(link) for link in links]
    assert frames[0]
    for others in frames[1:]:
        assert len(others) == len(frames[0])
        assert all(one is other for one, other in zip(frames[0], others, strict=True))


async def test_watchers_of_the_list_are_handed_the_very_same_object(rig: Rig, session: Session) -> None:
    links = [await open_link(rig.dialect) for _ in range(3)]
    for link in links:
        await asked(link, "watch")
    await session.change_settings(LOCAL, {"title": "new"})
    first, *others = [drain(link) for link in links]
    assert len(first) == 1
    assert all(frames[0] is first[0] for frames in others)


async def test_a_link_that_does_not_read_holds_no_more_than_its_limits(make_rig: MakeRig) -> None:
    rig = await make_rig(settings=HubDialectSettings(reply_backlog=1000))
    link = await open_link(rig.dialect)
    for _ in range(200):
        if link.congested:
            break
        link.receive('{"op":"ping","id":1}')
    assert link.congested
    drain(link)
    assert not link.congested


async def test_commands_that_wait_are_bounded_and_answered_when_done(make_rig: MakeRig) -> None:
    rig = await make_rig(settings=HubDialectSettings(commands=4))
    session = await rig.session()
    await session.submit(LOCAL, "wait", via="test")
    link = await open_link(rig.dialect)
    drain(link)
    for count in range(4):
        assert not link.congested
        link.receive(
            json.dumps({"op": "submit", "id": count, "session": session.id, "text": "hi", "when_busy": "queue"})
        )
    assert link.congested
    await eventually(lambda: not link.congested, "the commands are done")
    answers = said(link)
    assert [answer["id"] for answer in answers] == [0, 1, 2, 3]
    assert {answer["disposition"] for answer in answers} == {"queued"}
    prompts = [prompt.text for prompt in session.shown.queue]
    assert prompts == ["hi"] * 4


async def test_pipelined_prompts_are_taken_in_the_order_of_arrival(rig: Rig, session: Session) -> None:
    await session.submit(LOCAL, "wait", via="test")
    link = await open_link(rig.dialect)
    for count in range(30):
        text = f"say {count}"
        link.receive(json.dumps({"op": "submit", "session": session.id, "text": text, "when_busy": "queue"}))
    await eventually(lambda: len(session.shown.queue) == 30, "all are queued")
    assert [prompt.text for prompt in session.shown.queue] == [f"say {count}" for count in range(30)]


async def test_a_command_runs_to_its_end_although_its_client_left(rig: Rig, tmp_path: Path) -> None:
    link = await open_link(rig.dialect)
    link.receive(json.dumps({"op": "create", "kind": "scripted", "cwd": str(tmp_path), "title": "left behind"}))
    link.lost()
    await eventually(lambda: rig.registry.rows(LOCAL), "it was made")
    assert [message["type"] for message in said(link)] == ["hello"]


async def test_a_lost_link_leaves_nothing_behind(rig: Rig, session: Session) -> None:
    link = await open_link(rig.dialect)
    await asked(link, "follow", session=session.id, after=0)
    await asked(link, "watch")
    link.receive(json.dumps({"op": "follow", "session": session.id, "after": 0}))
    link.lost()
    link.lost()
    await eventually(lambda: not len(rig.dialect.tasks), "no task is left")
    assert session.idle
    await rig.play(session, "say hello")


async def test_every_write_needs_its_right(rig: Rig, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Principal("reader", READ_ONLY)
    link = HubLink(rig.dialect, reader, Wire())
    refused = {
        "submit": {"text": "hi"},
        "withdraw": {"prompt": "p"},
        "answer": {"decision": "d", "answer": {"accept": True}},
        "cancel": {},
        "settings": {"settings": {"title": "x"}},
        "start": {},
        "close": {},
        "delete": {},
        "input": {"text": "x"},
        "keys": {"keys": ["Enter"]},
        "resize": {"cols": 80, "rows": 24},
        "signal": {"signal": "INT"},
        "reset_history": {},
        "merge_history": {"messages": []},
        "compact": {},
        "declare_tools": {"tools": []},
        "end_tool": {"call": "c"},
        "end_tools": {"bundle": "b", "results": []},
        "take_checkpoint": {},
        "restore_checkpoint": {},
        "delete_checkpoint": {"checkpoint": "c"},
        "run_command": {"command": "c"},
        **{f"{verb}_skill": {"skill": "s"} for verb in ("enable", "disable", "delete")},
    }
    for op, fields in refused.items():
        assert (await asked(link, op, session=session.id, **fields))["code"] == "not_permitted", op
    assert (await asked(link, "create", kind="scripted", cwd="/"))["code"] == "not_permitted"
    for op in ("snapshot", "events", "follow"):
        assert (await asked(link, op, session=session.id))["type"] == "ok", op


async def test_a_session_out_of_sight_is_unknown_to_every_message(rig: Rig, session: Session) -> None:
    """Invariant 12: its id means nothing to whoever may not see it."""
    stranger = Principal("stranger", LOCAL.rights, only=frozenset())
    link = HubLink(rig.dialect, stranger, Wire())
    needed = {
        "submit": {"text": "hi"},
        "withdraw": {"prompt": "p"},
        "answer": {"decision": "d", "answer": {"accept": True}},
        "settings": {"settings": {"title": "x"}},
        "keys": {"keys": ["Enter"]},
        "resize": {"cols": 80, "rows": 24},
        "signal": {"signal": "INT"},
        "input": {"text": "x"},
        "merge_history": {"messages": []},
        "declare_tools": {"tools": []},
        "end_tool": {"call": "c"},
        "end_tools": {"bundle": "b", "results": []},
        "delete_checkpoint": {"checkpoint": "c"},
        "run_command": {"command": "c"},
        **{f"{verb}_skill": {"skill": "s"} for verb in ("read", "enable", "disable", "delete")},
    }
    for kind in MESSAGES:
        op = kind.__struct_config__.tag
        if "session" not in kind.__struct_fields__ or op in ("unfollow", "detach"):
            continue
        answer = await asked(link, op, session=session.id, **needed.get(op, {}))
        unknown = await asked(link, op, session="never was", **needed.get(op, {}))
        assert answer["code"] == unknown["code"] == "unknown_session", op
    assert (await asked(link, "list"))["sessions"] == []
    assert (await asked(link, "newest"))["events"] == []
    await asked(link, "watch")
    await session.change_settings(LOCAL, {"title": "hidden"})
    assert said(link) == []


async def test_an_id_comes_back_even_with_what_cannot_be_read(rig: Rig) -> None:
    link = await open_link(rig.dialect)
    drain(link)
    link.receive('{"op":"no such thing","id":"a"}')
    link.receive('{"op":"follow","id":7,"session":"x","after":-1}')
    link.receive('{"op":"ping","id":8,"unknown":1}')
    link.receive("not json")
    link.receive('{"id":9')
    answers = said(link)
    assert [answer.get("id") for answer in answers] == ["a", 7, 8, None, None]
    assert {(answer["type"], answer["code"]) for answer in answers} == {("error", "invalid_request")}


async def test_what_is_quoted_from_a_client_is_cut(rig: Rig) -> None:
    link = await open_link(rig.dialect)
    drain(link)
    link.receive(json.dumps({"op": "x" * 100_000}))
    assert all(len(frame) < 1000 for frame in drain(link))


async def test_json_that_could_not_be_written_again_is_refused(rig: Rig, session: Session) -> None:
    link = await open_link(rig.dialect)
    deep = "[" * 200 + "]" * 200
    huge = "[" * 100_000
    link.receive(f'{{"op":"settings","id":1,"session":"{session.id}","settings":{{"x":{deep}}}}}')
    link.receive(f'{{"op":"settings","id":2,"session":"{session.id}","settings":{{"x":{huge}}}}}')
    link.receive(json.dumps({"op": "settings", "id": 3, "session": session.id, "settings": {"x": "y" * 300_000}}))
    found: dict[Any, str] = {}

    def answered() -> bool:
        found.update({m.get("id"): m["code"] for m in said(link) if m["type"] == "error"})
        return len(found) == 3

    await eventually(answered, "all are refused")
    assert found == {1: "invalid_request", None: "invalid_request", 3: "limit_reached"}
    assert session.shown.settings == {}


@pytest.mark.parametrize(
    ("failure", "code"), [(StorageUnavailable("disk gone"), "storage_unavailable"), (OSError("broken"), "internal")]
)
async def test_a_log_that_cannot_be_read_ends_the_stream_not_the_link(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, failure: Exception, code: str
) -> None:
    rig = await make_rig(limits=HubLimits(tail_events=5))
    session = await rig.session()
    await rig.play(session, "burst 50")
    link = await open_link(rig.dialect)

    async def failing(*_: object) -> None:
        raise failure

    with monkeypatch.context() as broken:
        broken.setattr(rig.journal, "read", failing)
        await asked(link, "follow", session=session.id, after=0)
        errors: list[dict[str, Any]] = []

        def told() -> bool:
            errors.extend(said(link))
            return bool(errors)

        await eventually(told, "the error")
    assert [(error["code"], error["session"], error["stream"]) for error in errors] == [(code, session.id, "events")]
    assert session.idle
    await asked(link, "follow", session=session.id, after=0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
OPS = st.sampled_from([kind.__struct_config__.tag for kind in MESSAGES])
FIELDS = sorted({field for kind in MESSAGES for field in kind.__struct_encode_fields__})


@given(
    messages=st.lists(
        st.one_of(
            st.text(alphabet=st.characters(), max_size=50),
            st.binary(max_size=50),
            JSON.map(json.dumps),
            st.builds(
                lambda op, fields: json.dumps({"op": op, **fields}),
                OPS,
                st.dictionaries(st.sampled_from(FIELDS), JSON | st.just("SESSION"), max_size=5),
            ),
            st.builds(lambda handle, data: struct.pack("!I", handle) + data, st.integers(0, 3), st.binary(max_size=9)),
        ),
        max_size=8,
    )
)
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_nothing_a_client_sends_raises_and_the_link_still_answers(messages: list[str | bytes], tmp_path: Path) -> None:
    """Invariant 8, with any JSON in any field and any bytes."""

    async def play() -> None:
        rig = Rig(tmp_path)
        await rig.registry.open()
        session = await rig.session()
        link = await open_link(rig.dialect)
        for message in messages:
            named = message.replace('"SESSION"', f'"{session.id}"') if isinstance(message, str) else message
            link.receive(named)
        await eventually(lambda: not len(rig.dialect.tasks), "all is answered")
        assert "internal" not in {answer.get("code") for answer in said(link)}
        assert (await asked(link, "ping"))["type"] == "ok"
        link.lost()
        await rig.dialect.close(1)
        await rig.registry.close(1)
        rig.close_port()

    asyncio.run(play())
