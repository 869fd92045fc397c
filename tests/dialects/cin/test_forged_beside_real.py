"""Hooks that anybody may post over HTTP, beside those that the person's own agents tell through the socket."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.cin.api import Api, served

FAKE = Path(__file__).parents[2] / "fake_agent" / "agent.py"


class Agent:
    """An agent of the person's, with our hooks: it is this process."""

    def __init__(self, api: Api, folder: Path, session: str) -> None:
        self.api, self.session = api, session
        self.socket = str(folder / "data" / "hooks.sock")
        self.cwd = str(folder)
        stat = Path("/proc/self/stat").read_text()
        self.parents = [[os.getpid(), int(stat[stat.rindex(")") + 2 :].split()[19])]]

    def payload(self, event: str, **fields: Any) -> dict[str, Any]:
        return {"hook_event_name": event, "session_id": self.session, "cwd": self.cwd, **fields}

    def hook(self, event: str, **fields: Any) -> socket.socket:
        """A hook that runs."""
        head = {"agent": "claude", "event": event, "at": time.time_ns() // 1_000_000, "session": "", "secret": ""}
        line = {**head, "pid": os.getpid(), "parents": self.parents, "data": self.payload(event, **fields)}
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(5)
        link.connect(self.socket)
        link.sendall(json.dumps(line).encode() + b"\n")
        return link

    def tells(self, event: str, **fields: Any) -> None:
        """A hook, until the server has taken it."""
        with self.hook(event, **fields) as link:
            while link.recv(4096):
                pass

    def is_told_of(self, event: str, **fields: Any) -> None:
        """Somebody posts over HTTP in its name."""
        self.api.good("POST", "/event", self.payload(event, **fields))

    def shown(self) -> dict[str, Any]:
        sessions = self.api.good("GET", "/sessions")["sessions"]
        (found,) = [session for session in sessions if session.get("agentSessionId") == self.session]
        return dict(found)

    def becomes(self, status: str) -> None:
        end = time.monotonic() + 2
        while (shown := self.shown())["status"] != status:
            assert time.monotonic() < end, (status, shown)
            time.sleep(0.05)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with served(tmp_path) as api:
        yield api


@pytest.fixture
def agent(api: Api, tmp_path: Path) -> Agent:
    agent = Agent(api, tmp_path, "5f0c8a52-0000-4000-8000-000000000001")
    agent.tells("SessionStart", source="startup")
    return agent


def test_what_was_posted_before_swallows_no_real_stop(agent: Agent) -> None:
    for _ in range(3):
        agent.is_told_of("Stop", stop_hook_active=False, last_assistant_message="done")
    agent.tells("UserPromptSubmit", prompt="go")
    agent.becomes("working")
    agent.tells("Stop", stop_hook_active=False, last_assistant_message="done")
    agent.becomes("waiting")


def test_what_was_posted_before_swallows_no_real_prompt(agent: Agent) -> None:
    agent.is_told_of("UserPromptSubmit", prompt="continue")
    agent.is_told_of("Stop", stop_hook_active=False, last_assistant_message="done")
    agent.tells("UserPromptSubmit", prompt="continue")
    agent.becomes("working")


def test_a_posted_permission_hides_none_that_a_hook_waits_for(agent: Agent) -> None:
    agent.tells("UserPromptSubmit", prompt="go")
    agent.is_told_of("PermissionRequest", tool_name="Bash", tool_input={"command": "echo harmless"})
    with agent.hook("PermissionRequest", tool_name="Bash", tool_input={"command": "rm x"}) as hook:
        agent.becomes("waiting")
        path, end = f"/sessions/{agent.shown()['id']}/permission", time.monotonic() + 10
        while (reply := agent.api.ask("POST", path, {"response": "1"})).status != 200:
            assert time.monotonic() < end, reply
            time.sleep(0.05)
        said = b""
        while part := hook.recv(4096):
            said += part
    assert b'"allow"' in said


def test_a_posted_session_takes_no_name_of_ours(api: Api, tmp_path: Path) -> None:
    program = f'#!/bin/sh\nexec {sys.executable} {FAKE} --record {tmp_path}/record "$@"\n'
    (tmp_path / "bin" / "claude").write_text(program)
    own = api.session(tmp_path, agent="claude")
    end = time.monotonic() + 10
    while "agentSessionId" not in (own := api.good("GET", f"/sessions/{own['id']}")["session"]):
        assert time.monotonic() < end, own
        time.sleep(0.1)
    name = own["agentSessionId"]
    api.good("POST", "/event", {"hook_event_name": "Stop", "session_id": name, "agent": "codex", "cwd": "/tmp"})
    assert api.good("GET", f"/sessions/{name}")["session"]["id"] == own["id"]


def test_sessions_that_ended_keep_no_new_one_out(tmp_path: Path) -> None:
    with served(tmp_path, env={"DRAGOMAN_HOOKED__SESSIONS": "10"}) as api:
        for number in range(10):
            about = {"session_id": f"s{number}", "cwd": "/tmp", "prompt": "p", "reason": "exit"}
            api.good("POST", "/event", {"hook_event_name": "UserPromptSubmit", **about})
            api.good("POST", "/event", {"hook_event_name": "SessionEnd", **about})
        agent = Agent(api, tmp_path, "5f0c8a52-0000-4000-8000-000000000002")
        agent.tells("UserPromptSubmit", prompt="go")
        agent.becomes("working")


def test_sessions_that_only_http_tells_of_keep_the_persons_own_not_out(tmp_path: Path) -> None:
    with served(tmp_path, env={"DRAGOMAN_HOOKED__SESSIONS": "10"}) as api:
        for number in range(10):
            about = {"session_id": f"s{number}", "cwd": "/tmp", "prompt": "p"}
            api.good("POST", "/event", {"hook_event_name": "UserPromptSubmit", **about})
        agent = Agent(api, tmp_path, "5f0c8a52-0000-4000-8000-000000000002")
        agent.tells("UserPromptSubmit", prompt="go")
        agent.becomes("working")
        assert len(api.good("GET", "/sessions")["sessions"]) == 10
