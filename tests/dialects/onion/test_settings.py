"""Settings of the dialect that cannot be meant, and those that only look like it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from dragoman.dialects.onion.settings import OnionSettings

from .conftest import MakeServer
from .rig import ALICE, script


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("ping_seconds", "idle_seconds", "stuck_seconds") for value in (0, -1.5)),
        ("input_seconds", 0),
        ("result_seconds", 0),
        ("trace_entries", -1),
        ("kept_views", -1),
        ("commands", 0),
        ("reply_backlog", 0),
        ("message_limit", 0),
    ],
)
def test_a_setting_that_would_serve_nobody_or_never_rest_is_refused_by_its_name(name: str, value: float) -> None:
    with pytest.raises(msgspec.ValidationError, match=rf"dialects\.onion\.{name}: "):
        msgspec.convert({name: value}, OnionSettings)


def test_no_time_is_not_a_number() -> None:
    with pytest.raises(ValueError, match="ping_seconds"):
        OnionSettings(ping_seconds=float("nan"))


def test_a_tolerance_that_there_is_not_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"tolerate\[1\]"):
        msgspec.convert({"tolerate": ["assistant", "asistant_delta"]}, OnionSettings)


async def test_the_shortest_times_keep_no_processor_busy(make_server: MakeServer) -> None:
    served = await make_server(config="\n[dialects.onion]\nidle_seconds = 0.0001\nstuck_seconds = 1000\n")
    async with served.client(key=ALICE) as talk:
        await talk.turn(script("say hello"))
        before = _processor_seconds(served.pid)
        await asyncio.sleep(1)
        assert _processor_seconds(served.pid) - before < 0.3


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
