"""`dragoman chat` without a terminal: one prompt (`--print`), or lines on standard input; and what it never loads."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from dragoman.cli.chat_plain import DENIED, NOBODY, Lines, by_rule
from dragoman.cli.chat_talk import Talk
from tests.faults.process import Message, Served, eventually

from .conftest import by_lines


async def sessions(served: Served, folder: Path) -> list[Message]:
    rows = (await served.asked("GET", "/sessions"))["sessions"]
    return [row for row in rows if row["cwd"] == str(folder)]


@pytest.mark.parametrize(
    ("prompt", "flags", "code", "out", "said"),
    [
        ("hello", (), 0, "You said: hello\n", ""),
        ("say first\nsay last", (), 0, "last\n", ""),
        ("say \x1b[31mred\x1b[0m", (), 0, "red\n", ""),
        ("fail no key", (), 1, "", "no key"),
        (
            "permit rm -rf x",
            (),
            0,
            "rm -rf x: refused\n",
            "denied, nobody is there to ask; --mode all permits: rm -rf x",
        ),
        ("permit rm -rf x", ("--mode", "all"), 0, "rm -rf x: permitted\n", ""),
        (
            "ask Which? | red | blue",
            (),
            0,
            "answer: Nobody is there to answer.",
            "not answered, nobody is there: Which?",
        ),
    ],
)
async def test_print_gives_the_answer_and_its_outcome(
    served: Served, prompt: str, flags: tuple[str, ...], code: int, out: str, said: str
) -> None:
    left, printed, problems = await by_lines(served, "--kind", "scripted", *flags, "--print", prompt)
    assert left == code
    assert printed.startswith(out)
    assert bool(printed) == bool(out)
    assert said in problems
    assert bool(problems) == bool(said), problems


async def test_a_model_is_told_that_nobody_was_there_to_refuse(served: Served, tmp_path: Path) -> None:
    settings = ("--provider", "demonstration", "--cwd", str(tmp_path))
    code, _, problems = await by_lines(served, *settings, "--print", "show a permission")
    assert code == 0
    assert "denied, nobody is there to ask; --mode all permits: date" in problems
    (row,) = (row for row in (await served.asked("GET", "/sessions"))["sessions"] if row["cwd"] == str(tmp_path))
    events = (await served.asked("GET", f"/sessions/{row['session']}/events"))["events"]
    (ended,) = (event["fact"] for event in events if event["fact"]["type"] == "tool.ended")
    assert ended["status"] == "denied"
    assert ended["output"]["stderr"] == f"User rejected this command. They said: {DENIED}"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("permission", {"accept": False, "text": DENIED}),
        ("plan", {"accept": False, "text": DENIED}),
        ("setup", {"accept": False}),
        ("form", {"accept": False}),
        ("question", {"text": NOBODY}),
    ],
)
def test_where_nobody_is_what_is_asked_is_refused_and_it_is_said_why(kind: str, answer: dict[str, object]) -> None:
    assert by_rule({"kind": kind, "text": "this?"}, allow=False)[0] == answer


async def test_print_takes_its_prompt_from_standard_input(served: Served) -> None:
    assert (await by_lines(served, "--kind", "scripted", "--print", "-", typed=b"say read\n"))[:2] == (0, "read\n")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--mode", "dance"), "--mode"),
        (("--kind", "terminal"), "--kind"),
        (("--print", "  "), "--print needs a prompt"),
        (("--cwd", "/no/such/folder"), "is no folder"),
        (("--session", "abc", "--kind", "scripted"), "leave --kind and --cwd out"),
        (("--session", "no-such-session"), "no session begins with 'no-such-session'"),
    ],
)
async def test_what_is_asked_wrongly_is_one_line(served: Served, flags: tuple[str, ...], says: str) -> None:
    code, out, problems = await by_lines(served, *flags)
    assert (code, out) == (2, "")
    assert says in problems
    assert problems.count("\n") == 1


async def test_a_server_that_is_named_and_does_not_answer_is_one_line(served: Served) -> None:
    code, _, problems = await by_lines(served, "--url", "http://127.0.0.1:1", "--print", "hello")
    assert code == 1
    assert problems.startswith("dragoman: no server answers at http://127.0.0.1:1/hub")


async def test_ctrl_c_cancels_the_turn_of_print(served: Served, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{served.ready['port']}"
    line = [sys.executable, "-m", "dragoman", "chat", "--url", url, "--kind", "scripted", "--cwd", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(
        *line, "--print", "wait", env={**os.environ, "DRAGOMAN_DATA": str(tmp_path / "own")}
    )
    session = ""
    try:

        def working() -> bool:
            nonlocal session
            rows = [row for row in served.ask("GET", "/sessions")[1]["sessions"] if row["cwd"] == str(tmp_path)]
            session = rows[0]["session"] if rows else ""
            return bool(rows) and rows[0]["status"] == "working"

        await eventually(working, "the turn runs")
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 10) == 130
    finally:
        if process.returncode is None:
            process.kill()
    assert (await served.asked("GET", f"/sessions/{session}"))["status"] == "idle"


async def test_each_line_is_a_prompt_a_command_or_an_answer(served: Served) -> None:
    typed = "say hi\n\npermit rm x\ny\nask Which? | red | blue\n7\n2\n/dance\nfail at last\n"
    code, out, problems = await by_lines(served, "--kind", "scripted", typed=typed.encode())
    said = [line for line in out.splitlines() if not line.endswith(" ms")]
    assert said == [
        "hi",
        "? permission",
        "  rm x",
        "  → yes",
        "rm x: permitted",
        "? a question",
        "  Which?",
        "  1 red",
        "  2 blue",
        "  there is no option 7: 1-2 or your own words",
        "  → 2 blue",
        "answer: blue",
        "there is no /dance: /help /model /provider /mode /clear /compact /sessions /status /cancel /exit",
        "✗ the turn failed: at last",
    ]
    assert (code, problems) == (1, ""), "the last turn's outcome is the exit code"


async def test_what_is_asked_after_the_last_line_is_denied(served: Served) -> None:
    code, out, _ = await by_lines(served, "--kind", "scripted", typed=b"permit rm x")
    assert code == 0
    assert "denied, nobody is there to ask" in out
    assert "rm x: refused" in out


async def test_a_decision_that_is_answered_elsewhere_takes_no_line(served: Served, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{served.ready['port']}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", "chat", "--url", url, "--kind", "scripted", "--cwd", str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "DRAGOMAN_DATA": str(tmp_path / "own")},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(b"permit rm x\n")
        while b"rm x" not in await asyncio.wait_for(process.stdout.readline(), 10):
            pass
        (row,) = await sessions(served, tmp_path)
        (decision,) = (await served.asked("GET", f"/sessions/{row['session']}"))["decisions"]
        path = f"/sessions/{row['session']}/decisions/{decision['decision']}"
        await served.asked("POST", path, {"answer": {"accept": True}})
        assert b"answered elsewhere: yes" in await asyncio.wait_for(process.stdout.readline(), 10)
        out, _ = await asyncio.wait_for(process.communicate(b"say next\n"), 10)
    finally:
        if process.returncode is None:
            process.kill()
    assert "rm x: permitted" in out.decode()
    assert "next" in out.decode().splitlines()


class Waking:
    """What ``Lines`` needs of a talk."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake_from_afar(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        return lambda: loop.call_soon_threadsafe(self._woken.set) and None

    async def until(self, true: Callable[[], object]) -> None:
        while not true():
            self._woken.clear()
            await self._woken.wait()


async def test_a_line_that_comes_as_its_question_ends_is_the_next_one() -> None:
    read, write = os.pipe()
    try:
        os.write(write, b"for whoever is next\n")
        lines = Lines(read, cast("Talk", Waking()))
        over = False

        def question_is_over() -> bool:
            nonlocal over
            before, over = over, bool(lines._pieces)  # the line is there, and in the same moment the question is over
            return before or over

        assert await lines.next(question_is_over) is None
        assert await lines.next(lambda: False) == "for whoever is next"
    finally:
        os.close(read)
        os.close(write)


async def test_a_session_is_taken_up_and_gets_the_settings(served: Served, tmp_path: Path) -> None:
    await by_lines(served, "--kind", "scripted", "--cwd", str(tmp_path), "--print", "say one")
    (row,) = await sessions(served, tmp_path)
    flags = ("--session", row["session"][:8], "--model", "m-1", "--provider", "p-1", "--mode", "plan")
    assert (await by_lines(served, *flags, "--print", "say two"))[:2] == (0, "two\n")
    snapshot = await served.asked("GET", f"/sessions/{row['session']}")
    assert snapshot["settings"] == {"model": "m-1", "provider": "p-1", "mode": "plan"}


async def test_a_lost_server_ends_a_talk_by_lines(mortal: Served) -> None:
    url = f"http://127.0.0.1:{mortal.ready['port']}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", "chat", "--url", url, "--kind", "scripted"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "DRAGOMAN_DATA": str(mortal.folder / "own")},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(b"say here\nwait\n")
        while b"here" not in await asyncio.wait_for(process.stdout.readline(), 10):
            pass
        mortal.kill()
        while b"the server is away" not in await asyncio.wait_for(process.stdout.readline(), 10):
            pass
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 128 + signal.SIGTERM
    finally:
        if process.returncode is None:
            process.kill()


async def test_a_second_chat_uses_the_server_of_the_first_which_waits_for_it(tmp_path: Path) -> None:
    env = {**os.environ, "DRAGOMAN_DATA": str(tmp_path / "own"), "DRAGOMAN_PORT": "0"}
    line = [sys.executable, "-m", "dragoman", "chat", "--kind", "scripted", "--cwd", str(tmp_path)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    first = await asyncio.create_subprocess_exec(*line, **pipes, env=env)
    started = [first]
    try:
        assert first.stdin is not None
        assert first.stderr is not None
        assert b"no server runs" in await asyncio.wait_for(first.stderr.readline(), 10)
        second = await asyncio.create_subprocess_exec(*line, **pipes, env=env)
        started.append(second)
        assert second.stdin is not None
        assert second.stdout is not None
        assert second.stderr is not None
        assert b"using http://127.0.0.1:" in await asyncio.wait_for(second.stderr.readline(), 10)
        second.stdin.write(b"say here\n")
        assert await asyncio.wait_for(second.stdout.readline(), 10) == b"here\n"
        first.stdin.close()
        assert b"other clients use this server" in await asyncio.wait_for(first.stderr.readline(), 10)
        out, _ = await asyncio.wait_for(second.communicate(b"say still here\n"), 10)
        assert b"still here\n" in out
        assert (await asyncio.wait_for(first.wait(), 10), second.returncode) == (0, 0)
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()


async def test_a_terminal_that_closes_ends_the_chat_and_its_server(tmp_path: Path) -> None:
    env = {**os.environ, "DRAGOMAN_DATA": str(tmp_path / "own"), "DRAGOMAN_PORT": "0"}
    pipes = dict.fromkeys(("stdin", "stderr"), asyncio.subprocess.PIPE)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", "chat", "--kind", "scripted"), **pipes, env=env
    )
    try:
        assert process.stderr is not None
        assert b"no server runs" in await asyncio.wait_for(process.stderr.readline(), 10)
        process.send_signal(signal.SIGHUP)
        assert await asyncio.wait_for(process.wait(), 10) == 128 + signal.SIGHUP
    finally:
        if process.returncode is None:
            process.kill()
    assert (tmp_path / "own" / "lock").read_text() == "", "the data folder is given up"


def test_a_start_does_not_load_what_draws_prompts() -> None:
    code = (
        "import sys; from dragoman.cli import main, serve, chat; main.build_parser();"
        "sys.exit(any(name.startswith('prompt_toolkit') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def started(served: Served, *flags: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    """``dragoman chat`` with streams of the caller's choice."""
    url = f"http://127.0.0.1:{served.ready['port']}"
    env = {**os.environ, "DRAGOMAN_DATA": str(served.folder / "own")}
    line: list[str | bytes] = [sys.executable, "-m", "dragoman", "chat", "--url", url, *flags]
    return subprocess.run(line, env=env, timeout=20, check=False, **more)  # type: ignore[call-overload, no-any-return]


async def test_an_answer_that_cannot_be_written_is_a_failure(served: Served) -> None:
    with Path("/dev/full").open("wb") as full:
        flags = ("--kind", "scripted", "--print", "hello")
        done = await asyncio.to_thread(started, served, *flags, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == b"dragoman: it could not be written: No space left on device"
    assert b"Traceback" not in done.stderr


async def test_closed_streams_are_as_good_as_empty_ones(served: Served) -> None:
    def close() -> None:
        os.close(0)

    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = await asyncio.to_thread(started, served, "--kind", "scripted", preexec_fn=close, **piped)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Traceback" not in done.stderr


async def test_bytes_that_are_no_text_are_sent_as_signs_for_them(served: Served) -> None:
    prompt = os.fsdecode(b"\xff hi")
    flags = ("--kind", "scripted", "--print", prompt)
    done = await asyncio.to_thread(started, served, *flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (done.returncode, done.stdout.decode()) == (0, "You said: \ufffd hi\n")


def test_ctrl_c_while_the_program_is_being_imported_says_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


_INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # as at a terminal, also where we run in the background
from dragoman.__main__ import run

class Pressing:
    def find_spec(self, name, path=None, target=None):
        if name == "dragoman.server.settings":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Pressing())
sys.argv = ["dragoman", "chat"]
run()
"""
