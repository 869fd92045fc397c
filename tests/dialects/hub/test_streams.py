"""Terminal streams in detail, with a terminal made by hand: order, sharing, gaps, ends."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from dragoman.agents.terminal.tape import RingTape
from dragoman.dialects.hub import HubDialectSettings
from dragoman.dialects.hub.link import HubLink
from dragoman.hub.errors import HubError, InputRefused, InvalidSize
from dragoman.hub.events import AgentExited, AgentStarted, Answer, DecisionResolved, PromptSubmitted
from dragoman.hub.permissions import LOCAL, widening
from dragoman.hub.ports import Screen, TerminalWatcher
from dragoman.hub.session import Session
from dragoman.hub.standing import Executor

from .conftest import MakeRig
from .rig import Rig, eventually
from .test_link import asked, drain, open_link, payload


class HandTerminal:
    """Does what the test says."""

    def __init__(self) -> None:
        self.tape = RingTape(1000)
        self.screen: Screen | None = None
        self.cols, self.rows = 80, 24
        self.pid = 1
        self.running = True
        self.typed = b""
        self.full = False
        self.watchers: list[TerminalWatcher] = []

    @property
    def bytes_written(self) -> int:
        return len(self.typed)

    def write(self, data: bytes) -> None:
        if self.full:
            raise InputRefused("the program does not read")
        self.typed += data

    def press(self, keys: Sequence[str]) -> int:
        self.write("+".join(keys).encode())
        return len(keys)

    def resize(self, cols: int, rows: int, by: str | None = None) -> None:
        if cols < 1:
            raise InvalidSize("cols must be positive")
        self.cols, self.rows = cols, rows
        for watcher in self.watchers:
            watcher.resized()

    def signal(self, name: str) -> None:
        self.write(f"<{name}>".encode())

    def watch(self, watcher: TerminalWatcher) -> Callable[[], None]:
        self.watchers.append(watcher)
        return lambda: self.watchers.remove(watcher)

    def say(self, data: bytes) -> None:
        self.tape.append(data)
        for watcher in tuple(self.watchers):
            watcher.tape_grew()


class HandAgent:
    holds = False

    def __init__(self, session: Session) -> None:
        self.session = session
        self.terminal = HandTerminal()
        self.runs = 0

    async def start(self) -> None:
        self.runs += 1
        self.terminal.running = True
        self.session.record(AgentStarted(run=self.runs, tape_offset=self.terminal.tape.end, cols=80, rows=24))

    def exit(self, code: int = 0) -> None:
        self.terminal.running = False
        self.session.record(AgentExited(cause="exit", code=code, tape_offset=self.terminal.tape.end), settling=True)

    def check(self, prompt: PromptSubmitted) -> None: ...

    async def run_turn(self, turn: object) -> str | None:
        return None

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None: ...

    async def close(self, budget: float) -> None:
        if self.terminal.running:
            self.exit()


class HandFactory:
    kind = "hand"
    elsewhere = False

    def validate(self, agent: str, cwd: str, options: dict[str, object]) -> dict[str, object]:
        return options

    def check_settings(self, changes: dict[str, object]) -> None:
        """Any will do."""

    def widens(self, before: dict[str, object], changes: dict[str, object]) -> bool:
        return widening(changes)

    def adopt(self, session: str, options: dict[str, object]) -> None: ...

    def make(self, session: Session) -> HandAgent:
        return HandAgent(session)

    async def sweep(self, kept: Collection[str]) -> Collection[str]:
        return ()

    async def recover(self, session: Session, lost: Executor | None) -> None: ...

    def dropped(self, session: str) -> None: ...


class Hand:
    """One hand-made session and its links."""

    def __init__(self, rig: Rig, session: Session) -> None:
        self.rig = rig
        self.session = session
        agent = session.ensure_agent()
        assert isinstance(agent, HandAgent)
        self.agent = agent
        self.terminal = agent.terminal

    async def attached(self, **more: Any) -> tuple[HubLink, dict[str, Any]]:
        link = await open_link(self.rig.dialect)
        return link, await self.attach(link, **more)

    async def attach(self, link: HubLink, **more: Any) -> dict[str, Any]:
        link.receive(json.dumps({"op": "attach", "id": "!", "session": self.session.id, **more}))
        answer: list[dict[str, Any]] = []

        def probe() -> bool:
            while not answer and (frame := link.pull()) is not None:
                if frame[0] == 0x81 and json.loads(payload(frame)).get("id") == "!":
                    answer.append(json.loads(payload(frame)))
            return bool(answer)

        await eventually(probe, "attached")
        return answer[0]

    async def exited(self, code: int = 0) -> None:
        self.agent.exit(code)
        await eventually(lambda: self.session.shown.exit, "the exit is durable")


@pytest.fixture
async def hand(make_rig: MakeRig) -> Hand:
    rig = await make_rig(factories=(HandFactory(),), settings=HubDialectSettings(terminal_frame=100, marks=4))
    return Hand(rig, await rig.session("hand"))


def shown(link: HubLink) -> list[Any]:
    """What is ready, readable: ``(offset, bytes)`` for output, the type for the rest."""
    return [_readable(frame) for frame in drain(link)]


def _readable(frame: bytes) -> Any:
    data = payload(frame)
    if frame[0] == 0x82:
        return struct.unpack_from("!Q", data, 4)[0], data[12:]
    message = json.loads(data)
    return message["type"]


async def test_output_comes_from_where_it_was_asked_with_exact_offsets(hand: Hand) -> None:
    hand.terminal.say(b"before ")
    whole, reply = await hand.attached(offset=0)
    assert (reply["offset"], reply["start"], reply["end"], reply["run"], reply["running"]) == (0, 0, 7, 1, True)
    now, reply = await hand.attached()
    assert reply["offset"] == 7
    hand.terminal.say(b"after")
    assert shown(whole) == [(0, b"before after")]
    assert shown(now) == [(7, b"after")]
    assert shown(now) == []


async def test_links_at_the_same_offset_share_one_frame(hand: Hand) -> None:
    links = [(await hand.attached())[0] for _ in range(10)]
    hand.terminal.say(b"hello")
    hand.terminal.say(b" all")
    frames = [drain(link) for link in links]
    assert [_readable(frame) for frame in frames[0]] == [(0, b"hello all")]
    assert all(one[0] is frames[0][0] for one in frames)


async def test_a_handle_stands_for_a_session_on_every_link(hand: Hand) -> None:
    other = Hand(hand.rig, await hand.rig.session("hand"))
    one, first = await hand.attached()
    _, second = await hand.attached()
    third = await other.attach(one)
    assert first["handle"] == second["handle"] != third["handle"]
    hand.terminal.say(b"x")
    other.terminal.say(b"y")
    handles = [struct.unpack_from("!I", payload(frame))[0] for frame in drain(one)]
    assert sorted(handles) == [first["handle"], third["handle"]]


async def test_a_frame_is_no_larger_than_its_limit(hand: Hand) -> None:
    link, _ = await hand.attached()
    hand.terminal.say(b"z" * 250)
    assert [(offset, len(data)) for offset, data in shown(link)] == [(0, 100), (100, 100), (200, 50)]


async def test_two_floods_take_turns(hand: Hand) -> None:
    other = Hand(hand.rig, await hand.rig.session("hand"))
    link, _ = await hand.attached()
    await other.attach(link)
    hand.terminal.say(b"a" * 300)
    other.terminal.say(b"b" * 300)
    assert b"".join(data[:1] for _, data in shown(link)) in (b"ababab", b"bababa")


async def test_a_reader_that_fell_behind_the_tape_is_told_what_it_missed(hand: Hand) -> None:
    link, _ = await hand.attached()
    hand.terminal.say(b"a" * 500)
    hand.terminal.say(b"b" * 800)
    frames = drain(link)
    skipped = json.loads(payload(frames[0]))
    assert skipped == {"type": "skipped", "session": hand.session.id, "from": 0, "to": 300}
    data = [_readable(frame) for frame in frames[1:]]
    assert data[0][0] == 300
    assert b"".join(piece for _, piece in data) == b"a" * 200 + b"b" * 800


async def test_a_resize_is_told_behind_the_bytes_before_it(hand: Hand) -> None:
    link, _ = await hand.attached()
    hand.terminal.say(b"narrow")
    hand.terminal.resize(100, 30)
    hand.terminal.say(b"wide")
    frames = drain(link)
    assert [_readable(frame) for frame in frames] == [(0, b"narrow"), "resized", (6, b"wide")]
    told = json.loads(payload(frames[1]))
    assert told == {"type": "resized", "session": hand.session.id, "cols": 100, "rows": 30, "offset": 6}


async def test_of_very_many_resizes_that_wait_only_the_newest_are_told(hand: Hand) -> None:
    link, _ = await hand.attached()
    for cols in range(50, 70):
        hand.terminal.resize(cols, 24)
    sizes = [json.loads(payload(frame))["cols"] for frame in drain(link)]
    assert sizes == [66, 67, 68, 69]


async def test_the_end_comes_after_the_last_byte_and_once(hand: Hand) -> None:
    link, _ = await hand.attached()
    hand.terminal.say(b"last words" * 30)
    await hand.exited(3)
    frames = drain(link)
    assert b"".join(data for _, data in map(_readable, frames[:-1])) == b"last words" * 30
    assert json.loads(payload(frames[-1])) == {
        "type": "ended",
        "session": hand.session.id,
        "run": 1,
        "code": 3,
        "signal": None,
        "cause": "exit",
        "offset": 300,
    }
    assert drain(link) == []


async def test_whoever_attaches_after_the_end_gets_the_rest_and_the_end(hand: Hand) -> None:
    hand.terminal.say(b"that was it")
    await hand.exited()
    link, reply = await hand.attached(offset=5)
    assert reply["running"] is False
    assert shown(link) == [(5, b"was it"), "ended"]


async def test_a_new_run_goes_on_on_the_same_stream(hand: Hand) -> None:
    link, _ = await hand.attached()
    hand.terminal.say(b"one")
    await hand.exited()
    await hand.session.start(LOCAL)
    hand.terminal.say(b"two")
    assert shown(link) == [(0, b"one"), "ended", "started", (3, b"two")]
    late, reply = await hand.attached()
    assert reply["run"] == 2
    assert shown(late) == []


async def test_raw_input_goes_to_the_program_in_order_with_typed_text(hand: Hand) -> None:
    link, reply = await hand.attached()
    handle = struct.pack("!I", reply["handle"])
    link.receive(handle + b"a")
    link.receive(json.dumps({"op": "input", "session": hand.session.id, "text": "b", "enter": True}))
    link.receive(handle + b"\x00\xff")
    link.receive(json.dumps({"op": "keys", "session": hand.session.id, "keys": ["Up", "Enter"]}))
    link.receive(handle)
    assert hand.terminal.typed == b"ab\r\x00\xffUp+Enter"
    assert [json.loads(payload(frame)) for frame in drain(link)] == [
        {"type": "ok", "bytes": 2},
        {"type": "ok", "bytes": 2},
    ]


async def test_raw_input_that_is_refused_says_so(hand: Hand) -> None:
    link, reply = await hand.attached()
    handle = struct.pack("!I", reply["handle"])
    hand.terminal.full = True
    link.receive(handle + b"x")
    hand.terminal.full = False
    await hand.exited()
    drained = drain(link)
    link.receive(handle + b"x")
    link.receive(struct.pack("!I", 77) + b"x")
    link.receive(b"xx")
    errors = [json.loads(payload(frame)) for frame in drained[:1] + drain(link)]
    assert [(error["code"], error.get("session")) for error in errors] == [
        ("input_refused", hand.session.id),
        ("not_running", hand.session.id),
        ("invalid_request", None),
        ("invalid_request", None),
    ]


async def test_detaching_ends_it_and_its_handle(hand: Hand) -> None:
    link, reply = await hand.attached()
    hand.terminal.say(b"x")
    assert (await asked(link, "detach", session=hand.session.id))["type"] == "ok"
    hand.terminal.say(b"y")
    assert drain(link) == []
    assert hand.terminal.watchers == []
    link.receive(struct.pack("!I", reply["handle"]) + b"x")
    assert shown(link) == ["error"]


async def test_attaching_again_goes_on_at_the_new_offset(hand: Hand) -> None:
    link, _ = await hand.attached()
    hand.terminal.say(b"hello")
    await hand.attach(link, offset=0)
    assert shown(link) == [(0, b"hello")]


async def test_a_deleted_session_says_goodbye(hand: Hand) -> None:
    link, _ = await hand.attached()
    hand.terminal.say(b"bye")
    await hand.rig.registry.delete(LOCAL, hand.session.id)
    frames = drain(link)
    assert [_readable(frame) for frame in frames] == [(0, b"bye"), "ended", "gone"]
    assert json.loads(payload(frames[-1]))["stream"] == "output"
    assert hand.terminal.watchers == []


async def test_a_tape_that_cannot_be_read_ends_the_stream_not_the_link(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(RingTape):
        def read(self, offset: int, limit: int | None = None) -> tuple[int, bytes]:
            raise HubError("the tape is damaged")

    hand.terminal.tape = Broken(1000)
    link, _ = await hand.attached()
    hand.terminal.say(b"x")
    (frame,) = drain(link)
    error = json.loads(payload(frame))
    assert (error["type"], error["stream"], error["session"]) == ("error", "output", hand.session.id)
    assert (await asked(link, "ping"))["type"] == "ok"


async def test_what_cannot_be_attached(hand: Hand) -> None:
    link = await open_link(hand.rig.dialect)
    scripted = await hand.rig.session()
    ask = {"session": hand.session.id}
    assert (await asked(link, "attach", **ask, offset=1))["code"] == "invalid_request"
    assert (await asked(link, "attach", **ask, screen=True))["code"] == "unsupported"
    assert (await asked(link, "attach", session=scripted.id))["code"] == "not_running"
    assert (await asked(link, "resize", **ask, cols=0, rows=1))["code"] == "invalid_size"
    assert (await asked(link, "input", **ask))["code"] == "invalid_request"
    assert (await asked(link, "input", **ask, keys=["Up"], text="x"))["code"] == "invalid_request"
