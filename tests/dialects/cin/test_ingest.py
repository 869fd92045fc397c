"""Hooks over HTTP at their limits: what they are told, and what stands in the log of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.hub.rig import until

from .recorded.bridge import Bridge


def hook(bridge: Bridge, agent: str, **fields: Any) -> dict[str, Any]:
    return {"hook_event_name": "UserPromptSubmit", "session_id": agent, "cwd": str(bridge.folder), **fields}


async def test_a_post_for_which_there_is_no_room_may_be_sent_again(tmp_path: Path) -> None:
    bridge = Bridge(tmp_path, env={"DRAGOMAN_HOOKED__SESSIONS": "1", "DRAGOMAN_HUB__HOOK_BYTES": "1000"})
    await bridge.start()
    try:
        for prompt in ("one", "two"):
            answer = await bridge.request("POST", "/event", hook(bridge, "first", prompt=prompt))
            assert (answer.status, answer.body) == (200, {"ok": True})
        full = await bridge.request("POST", "/event", hook(bridge, "second", prompt="one"))
        assert full.status == 503
        assert "hooked.sessions" in full.body["error"]
        large = await bridge.request("POST", "/event", hook(bridge, "first", prompt="x" * 2000))
        assert large.status == 413
        assert "hub.hook_bytes" in large.body["error"]
        await until(lambda: len(logged(bridge)) > 1)
        assert logged(bridge) == [["/event", "503"], ["/event", "413"]], "what was taken has no line"
    finally:
        bridge.kill()


def logged(bridge: Bridge) -> list[list[str]]:
    """Path and status of each post that has a line in the log."""
    return [line.split("POST")[1].split()[:2] for line in bridge.log.read_text().splitlines() if "POST" in line]
