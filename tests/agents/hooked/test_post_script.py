"""The script that agents run as an installed hook: whatever becomes of it, it is never the agent's trouble."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.common.processes import pid_start
from dragoman.agents.hooked import post_script
from tests.hub.rig import until

from .posting import LIMIT, PERMISSION, line, listening, ran, script

SOON = post_script.WITHIN + 8.0
"""Seconds in which it must have left where nobody answers: an interpreter's start on a busy machine is in it."""

QUIET = (0, b"")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hooks.sock"


@contextlib.contextmanager
def listener(path: Path, backlog: int = 10) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(backlog)
        yield server


async def timed(path: Path, payload: bytes = b"{}", event: str = "PreToolUse") -> float:
    """Seconds that it took, and it went well."""
    began = time.monotonic()
    assert await ran(await script(path, "claude", event), payload) == QUIET
    return time.monotonic() - began


# What it hands over


async def test_it_hands_over_what_the_agent_says_and_prints_nothing(path: Path) -> None:
    payload = b'{\n "hook_event_name": "Stop",\r\n "text": "\xc3\xbc \\n"\n}\n'
    async with listening(path) as place:
        before = time.time_ns() // 1_000_000
        assert await ran(await place.run("codex", "Stop"), payload) == QUIET
        (post,) = place.posts
    assert (post.agent, post.event, post.payload) == ("codex", "Stop", {"hook_event_name": "Stop", "text": "ü \n"})
    assert post.at is not None
    assert before <= post.at <= time.time_ns() // 1_000_000
    assert (post.session, post.secret) == (None, None)


async def test_it_says_which_session_of_ours_it_runs_in(path: Path) -> None:
    env = {"DRAGOMAN_SESSION": "5e55/0abc", "DRAGOMAN_HOOK_SECRET": "of-it_"}
    async with listening(path) as place:
        await ran(await place.run("claude", "Stop", env=env), b"{}")
        assert [(post.session, post.secret) for post in place.posts] == [("5e55", "of-it_")]


async def test_names_that_would_be_no_json_are_bent(path: Path) -> None:
    env = {"DRAGOMAN_SESSION": 'a"b\\c\nü', "DRAGOMAN_HOOK_SECRET": "x" * 5000}
    async with listening(path) as place:
        await ran(await place.run('cl"aude', "St\\op", env=env), b"{}")
        (post,) = place.posts
    assert (post.agent, post.event, post.session, post.secret) == ("claude", "Stop", "abc", "x" * 200)


async def test_it_names_the_processes_above_it(path: Path) -> None:
    """An agent runs its hooks by a shell; we are above that one."""
    command = (sys.executable, "-I", "-S", post_script.__file__, str(path), "claude", "Stop")
    async with listening(path) as place:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", '"$@"; true', "sh", *command), stdin=subprocess.DEVNULL
        )
        shell = (process.pid, pid_start(process.pid))
        assert await process.wait() == 0
        await ran(await place.run("claude", "Stop"), b"{}")
        (post,) = place.posts
    assert post.parents[0] != shell  # nobody heard of what said nothing; this is the second one
    assert post.parents[0] == (os.getpid(), pid_start(os.getpid()))


async def test_the_shell_that_runs_it_is_above_it(path: Path) -> None:
    async with listening(path) as place:
        command = (sys.executable, "-I", "-S", post_script.__file__, str(path), "claude", "Stop")
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", 'echo "{}" | "$@"; true', "sh", *command), stdin=subprocess.DEVNULL
        )
        shell = (process.pid, pid_start(process.pid))
        assert await process.wait() == 0
        (post,) = place.posts
    assert shell in post.parents
    assert post.parents.index(shell) < post.parents.index((os.getpid(), pid_start(os.getpid()) or 0))


ODD = {
    "a mark at its beginning": b'\xef\xbb\xbf{"a": 1}',
    "blanks around it": b' \n\t{"a": 1}\n\n ',
    "no UTF-8 in it": b'{"a": 1, "b": "\xff\xfe"}',
    "half a character in it": b'{"a": 1, "b": "\\ud83d"}',
    "a cut character in it": b'{"a": 1, "b": "\xf0\x9f"}',
}


@pytest.mark.parametrize("payload", ODD.values(), ids=ODD.keys())
async def test_what_is_nearly_json_is_heard(path: Path, payload: bytes) -> None:
    async with listening(path) as place:
        assert await ran(await place.run("claude", "Stop"), payload) == QUIET
        (post,) = place.posts
    assert post.payload["a"] == 1


GARBAGE = {
    "nothing": b"",
    "blanks": b"\n \n",
    "no JSON": b"\x00\x01garbage\n}{",
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a number": b"5",
    "a list": b"[1]",
    "too deep": b'{"a":' + b"[" * 100_000,
    "an end of its own": b'{}}\n{"agent":"x","data":{}}\n',
}


@pytest.mark.parametrize("event", ["Stop", "PermissionRequest"])
@pytest.mark.parametrize("payload", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_is_nobodys_trouble(path: Path, payload: bytes, event: str) -> None:
    async with listening(path) as place:
        assert await ran(await place.run("claude", event), payload) == QUIET
        assert (place.posts, place.taken.asked) == ([], [])
        assert await place.posted(line({})) == b"\n"


async def test_megabytes_are_heard(path: Path) -> None:
    async with listening(path) as place:
        assert await ran(await place.run("claude", "Stop"), b'{"a": "%s"}' % (b"x" * 3_000_000)) == QUIET
        assert [len(str(post.payload["a"])) for post in place.posts] == [3_000_000]


async def test_of_more_the_long_texts_are_cut(path: Path) -> None:
    """A tool has read a picture: that it has is worth more than the picture."""
    picture = {"tool_response": [{"type": "image", "data": "x" * 9_000_000}, {"text": "ü" * 1000}], "tool_use_id": "7"}
    async with listening(path) as place:
        assert await ran(await place.run("claude", "PostToolUse"), json.dumps(picture).encode()) == QUIET
        (post,) = place.posts
        assert post.payload["tool_use_id"] == "7"
        image, text = post.payload["tool_response"]
        assert image == {"type": "image", "data": "x" * post_script.KEPT + "…"}
        assert text == {"text": "ü" * 1000}


@pytest.mark.parametrize("payload", [b"[" * 5_000_000, b"{}" * 2_000_000, b'{"a": "%s"}' % (b"x" * 40_000_000)])
async def test_what_is_too_much_is_left_out(path: Path, payload: bytes) -> None:
    async with listening(path) as place:
        assert await ran(await place.run("claude", "Stop"), payload) == QUIET
        assert place.posts == []


# When nobody answers


async def test_without_a_server_it_leaves_at_once(path: Path) -> None:
    assert await timed(path) < SOON
    assert await timed(path, event="PermissionRequest") < SOON
    path.write_text("no socket")
    assert await timed(path) < SOON
    assert await timed(path.parent / "no" / "such" / "place") < SOON
    assert await timed(path.parent / ("x" * 5000)) < SOON


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
async def test_a_server_that_hangs_is_waited_for_a_second(path: Path, event: str) -> None:
    with listener(path):
        assert post_script.WITHIN <= await timed(path, event=event) < SOON
        assert post_script.WITHIN <= await timed(path, b'{"a": "%s"}' % (b"x" * 3_000_000), event) < SOON


async def test_a_server_without_room_is_waited_for_a_second(path: Path) -> None:
    with contextlib.ExitStack() as held:
        held.enter_context(listener(path, 0))
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = held.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(path))
        assert post_script.WITHIN <= await timed(path) < SOON


async def test_a_server_that_finds_room_is_reached(path: Path) -> None:
    async with listening(path, links=1) as place:
        place.taken.free.clear()
        first, second = await place.run("claude", "Stop"), await place.run("claude", "Stop")
        both = asyncio.gather(ran(first, b"{}"), ran(second, b"{}"))
        await until(lambda: place.posts)
        place.taken.free.set()
        assert await both == [QUIET, QUIET]
        assert len(place.posts) == 2


@pytest.mark.parametrize("what", ["closes", "says half", "says what is no answer"])
async def test_a_server_that_breaks_off(path: Path, what: str) -> None:
    with listener(path) as server:
        server.setblocking(False)
        process = await script(path, "claude", "PermissionRequest")
        hook = asyncio.create_task(ran(process, b"{}"))
        link, _ = await asyncio.get_running_loop().sock_accept(server)
        link.setblocking(True)
        if what == "says half":
            link.sendall(b'\n\n{"hookSpecificOutput": {"decision"')
        elif what == "says what is no answer":
            link.sendall(b"\n\n\n")
        link.close()
        assert await hook == QUIET


async def test_input_that_does_not_end_is_heard_for_a_second(path: Path) -> None:
    async with listening(path):
        began = time.monotonic()
        process = await script(path, "claude", "Stop")
        assert process.stdin is not None
        process.stdin.write(b"{}")
        async with asyncio.timeout(LIMIT):
            assert await process.wait() == 0
        assert post_script.WITHIN <= time.monotonic() - began < SOON


@pytest.mark.parametrize("arguments", [(), ("x",), ("x", "y")])
async def test_it_leaves_quietly_however_it_is_called(arguments: tuple[str, ...]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", post_script.__file__, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert await ran(process, b"") == QUIET


async def test_closed_streams_are_no_trouble(path: Path) -> None:
    async with listening(path) as place:
        place.taken.answers.put_nowait("said")
        command = f"'{sys.executable}' -I -S '{post_script.__file__}' '{path}' claude"
        for closed in ("Stop <&-", "Stop >&- 2>&-", "PermissionRequest >&- 2>&-", "Stop <&- >&- 2>&-"):
            process = await asyncio.create_subprocess_shell(f"echo {{}} | {command} {closed}")
            assert await process.wait() == 0


# Permissions


async def test_a_permission_is_waited_for_and_its_answer_printed(path: Path) -> None:
    async with listening(path) as place:
        hook = asyncio.create_task(ran(await place.run("claude", "PermissionRequest"), b'{"tool_name": "Bash"}'))
        await until(lambda: place.taken.asked)
        began = time.monotonic()
        await until(lambda: time.monotonic() - began > post_script.WITHIN * 1.5)
        assert not hook.done()
        place.taken.answers.put_nowait('{"hookSpecificOutput": {"decision": {"behavior": "allow"}}, "ü": 1}')
        assert await hook == (0, '{"hookSpecificOutput": {"decision": {"behavior": "allow"}}, "ü": 1}'.encode())


async def test_a_permission_without_an_answer_prints_nothing(path: Path) -> None:
    async with listening(path) as place:
        place.taken.answers.put_nowait("")
        assert await ran(await place.run("claude", "PermissionRequest"), b"{}") == QUIET
        assert len(place.taken.asked) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
async def test_a_hook_that_is_ended_is_given_up(path: Path, number: signal.Signals) -> None:
    async with listening(path) as place:
        process = await place.run("claude", "PermissionRequest")
        hook = asyncio.create_task(ran(process, b"{}"))
        await until(lambda: place.taken.asked)
        process.send_signal(number)
        assert await hook == (-9 if number == signal.SIGKILL else 0, b"")
        await until(lambda: place.taken.given_up)


async def test_a_hook_whose_shell_was_ended_is_given_up(path: Path) -> None:
    async with listening(path) as place:
        command = (sys.executable, "-I", "-S", post_script.__file__, str(path), "claude", "PermissionRequest")
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", 'echo "{}" | "$@"; true', "sh", *command), stdin=subprocess.DEVNULL
        )
        await until(lambda: place.taken.asked)
        process.kill()
        await process.wait()
        await until(lambda: place.taken.given_up)


async def test_the_servers_end_is_the_end_of_the_wait(path: Path) -> None:
    async with listening(path) as place:
        hook = asyncio.create_task(ran(await place.run("claude", "PermissionRequest"), b"{}"))
        await until(lambda: place.taken.asked)
    assert await hook == QUIET


async def test_a_server_that_hangs_while_it_is_waited_for_is_left(path: Path, tmp_path: Path) -> None:
    quick = tmp_path / "quick.py"
    text = Path(post_script.__file__).read_text()
    assert "QUIET = 15.0" in text
    quick.write_text(text.replace("QUIET = 15.0", "QUIET = 0.5"))
    with listener(path) as server:
        server.setblocking(False)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(quick), str(path), "claude", "PermissionRequest"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        hook = asyncio.create_task(ran(process, b"{}"))
        link, _ = await asyncio.get_running_loop().sock_accept(server)
        link.sendall(b"\n")
        assert await hook == QUIET
        link.close()


async def test_what_is_checked_is_printed_whatever_hook_it_is(path: Path) -> None:
    async with listening(path) as place:
        payload = b'{"hook_event_name": "DragomanCheck", "check": "n1"}'
        env: dict[str, Any] = {"DRAGOMAN_HOOK_CHECK": "1"}
        assert await ran(await place.run("gemini", "BeforeTool", env=env), payload) == (0, b"DragomanCheck n1")
        assert await ran(await place.run("gemini", "BeforeTool"), payload) == QUIET
        assert place.posts == []


# Cost


async def test_it_is_quick(path: Path) -> None:
    """The quickest of some: what the machine does beside is not the script's."""
    async with listening(path):
        taken = [await timed(path, b'{"tool_response": "%s"}' % (b"x" * 10_000)) for _ in range(10)]
    assert min(taken) < 0.25, taken


def test_it_needs_little() -> None:
    """Each module that it imports is paid for at every hook."""
    command = [sys.executable, "-I", "-S", "-X", "importtime", post_script.__file__, "/no/place", "claude", "Stop"]
    seen = subprocess.run(command, input="{}", capture_output=True, text=True, check=True).stderr
    imported = {row.rpartition("|")[2].strip() for row in seen.splitlines()}
    assert "socket" in imported
    assert not imported & {"json", "re", "subprocess", "asyncio", "pathlib", "tempfile", "typing", "dataclasses"}


def test_its_permission_is_told_apart() -> None:
    assert PERMISSION["hook_event_name"] == post_script.WAITS
