"""What a link's messages leave behind: nothing, as soon as they are answered, and bounded until then."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path

import pytest

from dragoman.dialects.windie.settings import WindieSettings

from .link_rig import Client, place

LARGE = "x" * 1_000_000

UNREADABLE = {
    "malformed": json.dumps({"id": "m", "type": "query", "payload": LARGE})[:-1],
    "no object": json.dumps(LARGE),
    "unknown field": json.dumps({"id": "m", "type": "query", "payload": {"text": LARGE, "nope": 1}}),
    "unknown type": json.dumps({"id": "m", "type": "nope", "payload": LARGE}),
}


async def answered(client: Client, text: str) -> None:
    before = len(client.heard)
    client.link.receive(text)
    await client.hears(lambda _: len(client.heard) > before)


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_message_that_is_none_is_let_go_with_its_answer(text: str, tmp_path: Path) -> None:
    """Not only once cycles are looked for: large messages make few objects, and so that is seldom."""
    async with place(tmp_path) as here:
        client = await here.client()
        await answered(client, text)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(20):
                await answered(client, text)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
    assert held < 5 * len(LARGE)


async def test_what_is_worked_on_is_bounded_in_bytes(tmp_path: Path) -> None:
    async with place(tmp_path, settings=WindieSettings(tasks_bytes=2_500_000)) as here:
        client = await here.client()
        asked = [client.ask(LARGE, "conv") for _ in range(4)]
        refused = [await client.reply(name, "error", "query-accepted") for name in asked]
        too_many = [frame["type"] == "error" and "Too many" in frame["payload"]["message"] for frame in refused]
        assert too_many[-1]
        assert not all(too_many)
