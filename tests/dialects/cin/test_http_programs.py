"""Sessions over HTTP whose agents are real programs on real terminals (spec §3.2; §11: 17, 21)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.dialects.cin.api import PROGRAMS, Api, served
from tests.faults.process import LIMIT, marked

T = TypeVar("T")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with served(tmp_path_factory.mktemp("programs")) as api:
        yield api


def until(probe: Callable[[], T], what: str) -> T:
    """Ask again until the answer is true."""
    deadline = time.monotonic() + LIMIT
    while not (answer := probe()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return answer


def screen(api: Api) -> str:
    return str(api.good("GET", "/tmux-output")["output"])


@pytest.mark.parametrize("agent", PROGRAMS)
def test_a_session_is_a_program_on_a_terminal_and_ends_with_it(api: Api, agent: str) -> None:
    made = api.session(api.work, agent=agent)

    assert made["agent"] == agent
    assert made["status"] != "offline"
    until(lambda: f"stand-in: {agent}" in screen(api), "its screen")
    assert api.good("GET", "/tmux-output")["session"] == made["id"]
    assert until(lambda: marked(made["id"]), "its process")

    api.good("DELETE", f"/sessions/{made['id']}")
    until(lambda: not marked(made["id"]), "its end")


def test_permissions_are_skipped_only_when_asked_and_a_restart_remembers_it(api: Api) -> None:
    """The program says itself with which words it was started."""
    made = api.session(api.work, agent="claude", flags={"skipPermissions": True})
    words = "stand-in: claude --permission-mode bypassPermissions --dangerously-skip-permissions"
    until(lambda: words in screen(api).replace("\n", ""), "its words")
    for pid in marked(made["id"]):
        with contextlib.suppress(ProcessLookupError):  # its child, which went with it
            os.kill(pid, signal.SIGKILL)
    path = f"/sessions/{made['id']}"
    until(lambda: api.good("GET", path)["session"]["status"] == "offline", "offline once it is dead")

    again = api.good("POST", f"{path}/restart")["session"]
    assert again["status"] != "offline"
    until(lambda: words in screen(api).replace("\n", ""), "its words again")
    api.ask("POST", f"{path}/restart").failed(409)
    api.good("DELETE", path)

    api.session(api.work, agent="claude", flags={"skipPermissions": False})
    until(lambda: "stand-in: claude" in screen(api), "its screen")
    assert "skip-permissions" not in screen(api)
    assert "bypass" not in screen(api)


def test_a_program_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with served(tmp_path / "server", env={"PATH": str(empty)}) as api:
        reply = api.ask("POST", "/sessions", {"agent": "claude"})
        assert 400 <= reply.status < 500, reply
        reply.failed(reply.status, "claude")
        assert api.good("GET", "/sessions")["sessions"] == []


def test_sessions_projects_and_names_outlive_the_server(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        made = api.session(api.work, name="mine", zonePosition={"q": 1, "r": 2})
        api.close()
        api.bridge.kill()
        asyncio.run(api.bridge.start())
        api.connected()

        (found,) = api.good("GET", "/sessions")["sessions"]
        assert {name: found[name] for name in ("id", "name", "zonePosition", "cwd", "status")} == {
            "id": made["id"],
            "name": "mine",
            "zonePosition": {"q": 1, "r": 2},
            "cwd": str(api.work),
            "status": "offline",
        }
        assert api.good("POST", f"/sessions/{made['id']}/restart")["session"]["status"] != "offline"
