"""Whatever a client can send is answered and ends nothing (invariant 8): without a socket, with arbitrary input."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.agents.terminal import TerminalFactory
from dragoman.agents.terminal.settings import TerminalSettings
from dragoman.dialects.base import Upgrade
from dragoman.dialects.coop import CoopDialect
from dragoman.dialects.coop.link import CoopLink
from dragoman.dialects.coop.messages import decode
from dragoman.dialects.coop.settings import CoopSettings
from dragoman.hub.memory import MemoryJournal
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry

EVENTS = (
    *("ping", "auth", "screen:get", "state:get", "get:status", "replay", "input", "input:raw"),
    *("keys", "resize", "nudge", "respond", "signal", "shutdown"),
)
FIELDS = (
    *("token", "offset", "limit", "text", "enter", "data", "keys", "cols", "rows"),
    *("message", "accept", "option", "answers", "signal"),
)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
anything = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
near_misses = st.builds(
    lambda event, fields: {"event": event, **fields},
    st.sampled_from(EVENTS) | st.text() | anything,
    st.dictionaries(st.sampled_from(FIELDS), anything),
)
texts = st.one_of(
    st.text(),
    anything.map(json.dumps),
    near_misses.map(json.dumps),
    near_misses.map(lambda message: json.dumps(message)[:-1]),
)


@given(texts)
@settings(max_examples=500, deadline=None)
def test_decode_gives_a_message_or_one_kind_of_error(text: str) -> None:
    try:
        message = decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return
    assert json.loads(msgspec.json.encode(message))["event"] in EVENTS


@pytest.mark.parametrize("text", ["[" * 100_000, '{"event":' * 50_000, '{"event":"ping","x":' + "[" * 100_000])
def test_deep_nesting_is_no_crash(text: str) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        decode(text)


class Wire:
    """Takes what a link says to its socket."""

    def wake(self) -> None: ...
    def close(self, code: int, reason: str = "") -> None:
        raise AssertionError(f"the link closed itself: {code} {reason}")

    def set_message_limit(self, size: int) -> None: ...


class Opened:
    """A link on a terminal session whose program is not running."""

    def __init__(self, folder: Path) -> None:
        terminals = TerminalFactory(TerminalSettings(), folder=folder / "terminals", url=lambda _: "http://localhost")
        self.registry = Registry(MemoryJournal(), [terminals])
        self.shutdowns = 0
        self.dialect = CoopDialect(
            self.registry, token=None, settings=CoopSettings(), shutdown=self._shutdown, loopback=True
        )

    def _shutdown(self) -> None:
        self.shutdowns += 1

    async def link(self) -> CoopLink:
        await self.registry.open()
        await self.registry.create(LOCAL, kind="terminal", cwd="/", options={"command": ["cat"]})
        upgrade = Upgrade(path="/ws", query={}, bearer=None, peer="127.0.0.1", loopback=True)
        link = await self.dialect.open(upgrade, Wire())
        assert isinstance(link, CoopLink)
        return link


@given(messages=st.lists(texts | st.binary(), max_size=8))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_link_survives_arbitrary_messages(messages: list[str | bytes], tmp_path: Path) -> None:
    async def living() -> None:
        opened = Opened(tmp_path)
        link = await opened.link()
        for message in messages:
            link.receive(message)
        frames: list[bytes] = []
        while (frame := link.pull()) is not None:
            frames.append(frame)
        assert all(_payload(frame)["event"] for frame in frames)
        link.receive('{"event":"ping"}')
        frame = link.pull()
        assert frame is not None
        assert _payload(frame) == {"event": "pong"}
        link.lost()
        await opened.registry.close()

    asyncio.run(living())


def _payload(frame: bytes) -> dict[str, Any]:
    start = {126: 4, 127: 10}.get(frame[1], 2)
    payload: dict[str, Any] = json.loads(frame[start:])
    return payload
