"""A program on a PTY: what it is given, its bytes both ways, its size, its end."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.agents.common import child as child_module
from dragoman.agents.terminal.pty import Pty, PtyLimits
from dragoman.hub.errors import InputRefused, InvalidRequest, InvalidSize, LimitReached

from .pty_rig import ENV, Run, alive, open_fds, python, until

RAW = "import os, tty; tty.setraw(0); os.write(1, b'ready'); "


BOTH_LOOPS = True


# What a program is given


@pytest.mark.parametrize("elsewhere", [False, True], ids=["own folder", "other folder"])
async def test_the_program_itself_leads_a_new_session_with_a_terminal_of_the_right_size(
    elsewhere: bool, tmp_path: Path
) -> None:
    ask = "import os; print(os.getpid(), os.getsid(0), os.getpgrp(), os.tcgetpgrp(0), os.ttyname(2), os.getcwd())"
    cwd = str(tmp_path) if elsewhere else "."
    async with Run(*python(ask), cwd=cwd) as run:
        pid = run.pty.pid
        assert run.pty.pid_start
        assert await run.end() == (0, None)
        assert run.pty.pid is None
    *numbers, tty, folder = run.text.split()
    assert numbers == [str(pid)] * 4
    assert tty.startswith("/dev/pts/")
    assert folder == str(tmp_path if elsewhere else Path.cwd())


async def test_tty_and_stty_work() -> None:
    async with Run("sh", "-c", "tty; stty size; echo hi >/dev/tty", cols=133, rows=42) as run:
        assert await run.end() == (0, None)
        tty, size, hello = run.lines
    assert (tty[:9], size, hello) == ("/dev/pts/", "42 133", "hi")


@pytest.mark.parametrize("elsewhere", [False, True], ids=["own folder", "other folder"])
async def test_the_program_gets_its_words_and_environment_as_given(elsewhere: bool, tmp_path: Path) -> None:
    words = ["a b", "", "$HOME", "'", '"', "é\u4e2d", "-x", "*", "\n"]
    ask = "import os, sys; print(ascii([sys.argv[1:], dict(os.environ)]))"
    folder = str(tmp_path) if elsewhere else str(Path.cwd())
    async with Run(*python(ask), *words, cwd=folder, env={"EMPTY": "", "ODD": "a=b\n\u4e2d"}, cols=9999) as run:
        assert await run.end() == (0, None)
        argv, env = eval(run.text)
    assert argv == words
    assert env == {**ENV, "EMPTY": "", "ODD": "a=b\n\u4e2d", "PWD": folder}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["own folder", "other folder"])
async def test_no_descriptor_of_ours_reaches_the_program(elsewhere: bool, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # as if our own parent had left it to us
    try:
        async with Run("cat") as other, Run("ls", "/proc/self/fd", cwd=str(tmp_path) if elsewhere else ".") as run:
            await run.end()
            assert other.pty.running
    finally:
        os.close(reader)
        os.close(writer)
    # 3 is what ls reads the folder with.
    assert run.text.split() == ["0", "1", "2", "3"]


async def test_signals_are_at_their_defaults() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        run = Run("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    finally:
        signal.signal(signal.SIGHUP, previous)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    async with run:
        await run.end()
        blocked, ignored = (int(line.split()[1], 16) for line in run.lines)
    assert blocked == 0
    assert ignored & 0x7FFFFFFF == 0  # 32 and 33 belong to the C library


async def test_erasing_takes_whole_characters() -> None:
    async with Run("head", "-1") as run:
        run.pty.write("e\u4e2d\x7f!\n".encode())
        await run.end()
    assert run.lines[-1] == "e!"


# What cannot be started


def refused(*command: str, cwd: str = ".", env: dict[str, str] | None = None) -> str:
    before = open_fds()
    with pytest.raises(InvalidRequest) as error:
        Pty.spawn(
            command,
            cwd=cwd,
            env=ENV if env is None else env,
            cols=80,
            rows=24,
            on_data=lambda _: None,
            on_exit=lambda *_: None,
        )
    assert open_fds() == before
    return str(error.value)


async def test_a_program_that_is_not_there_is_named_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("hello")
    (tmp_path / "script").write_text("#!/no/such/interpreter -x\n")
    (tmp_path / "dos").write_text("#!/bin/sh\r\necho\r\n")
    os.mkfifo(tmp_path / "pipe")
    for name in ("script", "dos", "pipe"):
        (tmp_path / name).chmod(0o755)
    path = {"PATH": f"{tmp_path}:/no/where"}
    assert refused("no-such-program", env=path) == (
        f"no program 'no-such-program' along PATH ({tmp_path}:/no/where): install it, or give its full path"
    )
    assert f"no program '{tmp_path}/none' (No such file or directory)" in refused(f"{tmp_path}/none")
    assert f"no program '{tmp_path}/none'" in refused("./none", cwd=str(tmp_path))
    assert f"'{tmp_path}/folder' is a folder" in refused("./folder", cwd=str(tmp_path))
    assert f"'{tmp_path}/text' may not be run: make it executable" in refused("./text", cwd=str(tmp_path))
    assert f"'{tmp_path}/text' may not be run" in refused("text", env=path)
    assert "device, pipe or socket" in refused("./pipe", cwd=str(tmp_path))
    assert "wants the interpreter '/no/such/interpreter'" in refused("script", env=path)
    assert "wants the interpreter '/bin/sh\\r'" in refused("dos", env=path)


async def test_a_folder_that_cannot_be_worked_in_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refused("ls", cwd=f"{tmp_path}/none") == (
        f"the working folder '{tmp_path}/none' does not exist: create it, or choose another"
    )
    assert "is not a folder" in refused("ls", cwd=f"{tmp_path}/file")
    assert "is not a path" in refused("ls", cwd="")
    assert "is not a path" in refused("ls", cwd="/tmp\0/x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
async def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o600)
    assert "may not be entered" in refused("ls", cwd=str(tmp_path))


async def test_words_that_cannot_be_passed_are_refused() -> None:
    assert "command is empty" in refused()
    assert "command is empty" in refused("")
    assert "NUL" in refused("ls", "a\0b")
    assert "half a character" in refused("ls", "\ud800")
    assert "name of an environment variable" in refused("ls", env={"A=B": "1"})
    assert "name of an environment variable" in refused("ls", env={"": "1"})
    assert "environment variable A holds" in refused("ls", env={"A": "1\0"})
    assert "longer than the system passes on" in refused("ls", "x" * 3_000_000)


async def test_a_string_is_not_a_command() -> None:
    with pytest.raises(InvalidRequest, match="one string each"):
        Pty.spawn("ls", cwd=".", env=ENV, cols=80, rows=24, on_data=print, on_exit=print)


@pytest.mark.parametrize("size", [(0, 24), (80, 0), (-1, 24), (65536, 24)])
async def test_a_size_no_terminal_can_have_is_refused(size: tuple[int, int]) -> None:
    before = open_fds()
    with pytest.raises(InvalidSize):
        Run("cat", cols=size[0], rows=size[1])
    assert open_fds() == before


async def test_without_descriptors_left_the_limit_is_named() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    await asyncio.sleep(0)
    before = open_fds()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, before)) + 2, hard))
    try:
        taken = []
        with pytest.raises(OSError, match="Too many"):  # noqa: PT012
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        with pytest.raises(LimitReached, match="Too many open files"):
            Run("cat")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)
    assert open_fds() == before


@pytest.mark.parametrize("elsewhere", [False, True], ids=["own folder", "other folder"])
async def test_programs_are_found_as_the_child_would_find_them(elsewhere: bool, tmp_path: Path) -> None:
    cwd = tmp_path if elsewhere else Path.cwd()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "plain").write_text('echo plain "$0" "$@"\n')  # no first line: for the shell
    (tools / "--odd").write_text('#!/bin/sh\necho odd "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    relative = os.path.relpath(tools, cwd)
    for command, env, says in (
        (("plain", "1"), {"PATH": f"/no/where:{tools}:/bin"}, f"plain {tools}/plain 1"),
        (("plain", "2"), {"PATH": f"{relative}:/bin"}, "/plain 2"),
        ((f"{relative}/plain", "3"), {}, f"{relative}/plain 3"),
        (("--odd", "4"), {"PATH": f"{tools}:/bin"}, "odd 4"),
    ):
        async with Run(*command, cwd=str(cwd), env=env) as run:
            assert await run.end() == (0, None), run.text
            assert says in run.text


# Output


async def test_ten_thousand_lines_come_through() -> None:
    async with Run("seq", "10000") as run:
        assert await run.end() == (0, None)
    assert run.output == b"".join(b"%d\r\n" % n for n in range(1, 10001))


async def test_a_large_binary_file_comes_through_unchanged(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(3_000_000)
    (tmp_path / "data").write_bytes(data)
    async with Run("sh", "-c", f"stty raw; cat {tmp_path}/data") as run:
        assert await run.end() == (0, None)
    assert run.output == data


async def test_all_byte_values_go_both_ways_in_raw_mode() -> None:
    code = RAW + "n = 0\nwhile n < 512: b = os.read(0, 999); n += len(b); os.write(1, b)"
    sent = bytes(range(256)) + bytes(range(255, -1, -1))
    async with Run(*python(code)) as run:
        await run.says("ready")
        run.pty.write(sent)
        assert await run.end() == (0, None)
    assert run.output == b"ready" + sent
    assert run.pty.bytes_written == 512


async def test_an_echo_comes_back() -> None:
    async with Run("cat") as run:
        run.pty.write(b"hello\r")
        await until(lambda: run.output == b"hello\r\nhello\r\n")
        run.pty.write(b"\x04")
        assert await run.end() == (0, None)


async def test_a_hundred_quick_lines_in_and_out() -> None:
    async with Run("sh", "-c", "stty -echo; echo go; cat") as run:
        await run.says("go")
        for number in range(100):
            run.pty.write(b"line %d\n" % number)
        run.pty.write(b"\x04")
        await run.end()
    assert run.lines == ["go", *(f"line {number}" for number in range(100))]


async def test_a_chunk_is_at_most_the_read_limit() -> None:
    async with Run("sh", "-c", "stty raw; head -c 5000 /dev/zero", limits=PtyLimits(read=100)) as run:
        await run.end()
    assert len(run.output) == 5000
    assert max(map(len, run.chunks)) <= 100


async def test_while_paused_nothing_is_read_and_the_program_is_held() -> None:
    async with Run("sh", "-c", "echo one; head -c 2000000 /dev/zero; exit 3") as run:
        await run.says("one")
        run.pty.pause()
        run.pty.pause()
        seen = len(run.output)
        pid = run.pty.pid
        await until(lambda: state_of_children(pid) == {"S"})  # head sleeps in its write
        assert (len(run.output), run.exits) == (seen, [])
        run.pty.resume()
        run.pty.resume()
        assert await run.end() == (3, None)
    assert len(run.output) == 2_000_005


async def test_the_end_of_a_paused_program_waits_for_its_last_bytes() -> None:
    async with Run("sh", "-c", "read x; echo last words; exit 4") as run:
        run.pty.pause()
        run.pty.write(b"\n")
        await until(lambda: run.pty.pid is None)
        assert run.exits == []
        assert run.pty.running
        run.pty.resume()
        assert await run.end() == (4, None)
    assert "last words" in run.text


async def test_a_callback_that_fails_stops_neither_output_nor_end() -> None:
    loop = asyncio.get_running_loop()
    problems: list[object] = []
    loop.set_exception_handler(lambda _loop, context: problems.append(context.get("exception")))
    seen: list[bytes] = []

    def fails(chunk: bytes) -> None:
        seen.append(chunk)
        raise RuntimeError("broken viewer")

    ends: list[int | None] = []
    pty = Pty.spawn(
        ["sh", "-c", "echo a; sleep 0.05; echo b"],
        cwd=".",
        env=ENV,
        cols=80,
        rows=24,
        on_data=fails,
        on_exit=lambda code, _signal: ends.append(code),
    )
    async with asyncio.timeout(10):
        await pty.wait_closed()
    assert b"".join(seen) == b"a\r\nb\r\n"
    assert ends == [0]
    assert all("broken viewer" in str(problem) for problem in problems)


# Input


async def test_input_for_a_program_that_does_not_read_waits_up_to_the_limit_and_is_then_refused() -> None:
    code = RAW + "import signal; signal.pause()"
    async with Run(*python(code), limits=PtyLimits(input=100_000)) as run:
        await run.says("ready")
        with pytest.raises(InputRefused, match="input limit of 100000"):
            run.pty.write(bytes(100_001))
        assert run.pty.bytes_written == run.pty.input_waiting == 0
        run.pty.write(bytes(100_000))
        taken, waiting = run.pty.bytes_written, run.pty.input_waiting
        assert taken + waiting == 100_000
        assert 0 < taken < 100_000
        room = 100_000 - waiting
        with pytest.raises(InputRefused, match=f"{waiting} bytes wait"):
            run.pty.write(bytes(room + 1))
        assert run.pty.input_waiting == waiting
        run.pty.write(bytes(room))
        assert run.pty.input_waiting == 100_000
        drained = asyncio.ensure_future(run.pty.drained())
        await run.pty.terminate()
        assert await drained is False
        assert await run.pty.drained() is False
        assert run.pty.input_waiting == 0


async def test_waiting_for_a_reader_costs_no_cpu() -> None:
    code = RAW + "import signal; signal.pause()"
    async with Run(*python(code)) as run:
        await run.says("ready")
        run.pty.write(bytes(500_000))
        began, cpu = time.monotonic(), time.process_time()
        await until(lambda: time.monotonic() - began > 0.4)
        spent = time.process_time() - cpu
        # The wait itself polls 200 times a second.
        assert spent < 0.2, spent


async def test_blocked_input_arrives_whole_and_in_order_and_drained_says_when() -> None:
    code = (
        "import hashlib, signal; start = {signal.SIGUSR1}; signal.pthread_sigmask(signal.SIG_BLOCK, start)\n"
        f"{RAW}signal.sigwait(start)\n"
        "h = hashlib.sha256(); n = 0\n"
        "while n < 900000: b = os.read(0, 65536); n += len(b); h.update(b)\n"
        "os.write(1, h.hexdigest().encode())"
    )
    data = random.Random(2).randbytes(900_000)
    async with Run(*python(code)) as run:
        await run.says("ready")
        assert await run.pty.drained() is True
        for at in range(0, len(data), 90_000):
            run.pty.write(data[at : at + 90_000])
        assert run.pty.input_waiting > 0
        waiters = [asyncio.ensure_future(run.pty.drained()) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(waiter.done() for waiter in waiters)
        waiters[0].cancel()
        run.pty.signal(signal.SIGUSR1)
        assert await waiters[1] is True
        assert run.pty.bytes_written == 900_000
        await run.says(hashlib.sha256(data).hexdigest())


async def test_input_after_the_end_does_nothing() -> None:
    async with Run("true") as run:
        await run.end()
        run.pty.write(b"hello")
        run.pty.resize(100, 30)
        run.pty.signal(signal.SIGINT)
        run.pty.pause()
        run.pty.resume()
        assert run.pty.bytes_written == 0
        assert await run.pty.terminate() is True


# Size


async def test_after_fifty_quick_resizes_the_terminal_has_the_last_size() -> None:
    async with Run("sh", "-c", "read x; stty size", cols=80, rows=24) as run:
        for number in range(1, 51):
            run.pty.resize(80 + number, 24 + number)
        assert run.pty.size == (130, 74)
        run.pty.write(b"\n")
        await run.end()
    assert run.lines[-1] == "74 130"


async def test_a_resize_is_announced_and_the_same_size_again_is_not() -> None:
    code = (
        "import os, signal\n"
        "signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b'%dx%d;' % tuple(os.get_terminal_size(0))))\n"
        "os.write(1, b'ready;')\nwhile 1: os.write(1, os.read(0, 99))"
    )
    async with Run("env", "-", *python(code)) as run:
        await run.says("ready")
        run.pty.resize(100, 30)
        await run.says("100x30;")
        run.pty.resize(100, 30)
        run.pty.write(b"again\n")
        await until(lambda: run.text.count("again") == 2)
        with pytest.raises(InvalidSize):
            run.pty.resize(0, 30)
        assert run.pty.size == (100, 30)
    assert run.text.count("100x30") == 1


# The end


@pytest.mark.parametrize("code", [0, 1, 3, 137, 255])
async def test_an_exit_code(code: int) -> None:
    async with Run("sh", "-c", f"exit {code}") as run:
        assert await run.end() == (code, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV])
async def test_a_signal_that_kills(number: signal.Signals) -> None:
    async with Run("sh", "-c", f"kill -{int(number)} $$") as run:
        assert await run.end() == (None, int(number))


async def test_a_signal_reaches_the_whole_group() -> None:
    async with Run("sh", "-c", "sleep 100 & echo $!; sleep 101 & wait; wait") as run:
        background = int((await run.says("\n")).split()[0])
        run.pty.signal(signal.SIGUSR1)
        assert await run.end() == (None, signal.SIGUSR1)
        assert not alive(background)


async def test_a_program_that_closes_its_terminal_is_watched_to_its_end() -> None:
    async with Run("sh", "-c", "echo bye; exec <&- >&- 2>&-; exec sleep 0.4") as run:
        await run.says("bye")
        cpu = time.process_time()
        pid = run.pty.pid
        run.pty.write(b"into the void")
        assert await run.pty.drained() is True
        assert run.exits == []
        assert run.pty.running
        assert await run.end() == (0, None)
        assert time.process_time() - cpu < 0.2
        assert pid is not None


async def test_a_program_that_opens_its_terminal_again_is_heard() -> None:
    code = "exec <&- >&- 2>&-; sleep 0.1; exec >$t; echo here again; exec >&-; sleep 0.1; exit 5"
    async with Run("sh", "-c", f"t=$(tty); echo bye; {code}") as run:
        assert await run.end() == (5, None)
        assert "here again" in run.text


async def test_what_a_descendant_holds_open_ends_in_silence() -> None:
    """The program has ended, its child says one thing more, then keeps the terminal and says nothing."""
    script = "trap '' HUP; (sleep 0.1; echo late; exec sleep 50) & head -c 9000 /dev/zero; exit 3"
    async with Run("sh", "-c", script) as run:
        began = time.monotonic()
        await until(lambda: run.exits)
        assert time.monotonic() - began >= 0.25
        assert await run.end() == (3, None)
        assert run.output == bytes(9000) + b"late\r\n"


async def test_a_descendant_that_never_falls_silent_is_cut_off() -> None:
    script = "trap '' HUP; (while :; do echo noise; sleep 0.01; done) & echo first; exit 3"
    async with Run("sh", "-c", script, limits=PtyLimits(drain=0.5)) as run:
        began = time.monotonic()
        await until(lambda: run.exits)
        assert 0.4 < time.monotonic() - began < 5
        assert await run.end() == (3, None)
        assert "first" in run.text


async def test_a_loop_too_busy_to_listen_in_time_loses_no_last_bytes() -> None:
    script = "trap '' HUP; sleep 50 & head -c 9000 /dev/zero; exit 3"
    async with Run("sh", "-c", script, limits=PtyLimits(silence=0, drain=0)) as run:
        pid = run.pty.pid
        assert pid is not None
        deadline = time.monotonic() + 5
        while alive(pid) and time.monotonic() < deadline:
            time.sleep(0.01)  # on purpose: the loop gets no turn until the program is long gone
        assert run.output == b""
        assert await run.end() == (3, None)
        assert run.output == bytes(9000)


async def test_nothing_spins_after_the_end() -> None:
    async with Run("true") as run:
        await run.end()
        cpu, began = time.process_time(), time.monotonic()
        await until(lambda: time.monotonic() - began > 0.3)
        assert time.process_time() - cpu < 0.15


async def test_two_hundred_programs_leave_descriptors_and_children_as_before() -> None:
    async with Run("true") as run:
        await run.end()
    before, children = open_fds(), own_children()
    for number in range(200):
        run = Run("sh", "-c", f"exit {number}")
        assert await run.end() == (number, None)
    assert open_fds() == before
    assert own_children() == children


async def test_many_at_once_end_each_with_its_own_output() -> None:
    before = open_fds()
    runs = [Run("sh", "-c", f"seq 300; exit {number}") for number in range(40)]
    assert [await run.end() for run in runs] == [(number, None) for number in range(40)]
    assert {len(run.lines) for run in runs} == {300}
    assert open_fds() == before


async def test_where_processes_have_no_descriptors_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "open_pidfd", lambda _pid: None)
    async with Run("sh", "-c", "echo hi; exit 6") as run:
        assert await run.end() == (6, None)
    async with Run("cat") as run:
        assert await run.pty.terminate() is True
        assert await run.end() == (None, signal.SIGHUP)


async def test_a_program_that_somebody_else_reaps_ends_without_a_status() -> None:
    async with Run("sh", "-c", "read x; echo said") as run:
        pid = run.pty.pid
        assert pid is not None
        run.pty.write(b"\n")
        os.waitpid(pid, 0)  # blocks the loop on purpose: nobody of ours sees the zombie
        code, number = await run.end()
        assert (code, number) == (None, None)
        assert "said" in run.text


def state_of_children(pid: int | None) -> set[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2][0] for child in children}


def own_children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


SERVER = """
import asyncio, sys, os
from dragoman.agents.terminal.pty import Pty

async def main():
    out = []
    for number in range(2):
        pty = Pty.spawn(["sh", "-c", "echo up; while :; do read x || exit 1; done"], cwd=".", env=dict(os.environ),
                        cols=80, rows=24, on_data=out.append, on_exit=print)
        print(pty.pid, flush=True)
    while b"".join(out).count(b"up") < 2:
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


async def test_killing_the_server_hangs_up_every_terminal(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    pids = [int(server.stdout.readline()) for _ in range(2)]
    assert server.stdout.readline() == "ready\n"
    assert all(map(alive, pids))
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    await until(lambda: not any(map(alive, pids)), limit=3)
