"""The ``bash`` tool: what is judged is what runs, where it was judged, and says what it said."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from dragoman.agents.native.permissions import Reason
from dragoman.agents.native.tools.bash import Bash, BashInput
from dragoman.agents.native.tools.tool import ToolDenied, ToolFailed
from tests.agents.pty_rig import open_fds, until

from .bash_context import BashContext, bash, nap, output, running

# What runs


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo hello", ("hello\n", "", 0)),
        ("echo oops >&2; exit 3", ("", "oops\n", 3)),
        ("", ("", "", 0)),
        ("printf '%s|' a 'b c' \"d\ne\" $((1 + 2))", ("a|b c|d\ne|3|", "", 0)),
        ("cat; echo $?", ("0\n", "", 0)),
        ("[ -t 0 ] || [ -t 1 ] || echo no terminal", ("no terminal\n", "", 0)),
        ("echo ${0##*/} ${BASH_VERSION:+bash} $-", ("bash bash hBc\n", "", 0)),
        ("shopt -q login_shell || echo plain", ("plain\n", "", 0)),
        ("kill -TERM $$", ("", "", 143)),
        ("kill -KILL $$", ("", "", 137)),
        ("kill -SEGV $$", ("", "", 139)),
        ("trap", ("", "", 0)),
    ],
)
async def test_a_command_runs_in_a_plain_bash_and_its_result_is_what_it_said(
    tmp_path: Path, command: str, expected: tuple[str, str, int]
) -> None:
    assert output(await bash(BashContext(tmp_path), command)) == expected


async def test_a_command_that_looks_like_an_option_is_a_command(tmp_path: Path) -> None:
    _, stderr, code = output(await bash(BashContext(tmp_path), "-x echo hello"))
    assert code == 127
    assert "-x: command not found" in stderr


async def test_the_person_judges_the_very_string_that_runs_where_it_runs(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    context = BashContext(tmp_path)
    assert output(await bash(context, "ls")) == ("here\n", "", 0)
    assert output(await bash(context, "pwd -P; rm -rf 'not there'"))[0] == f"{tmp_path.resolve()}\n"
    assert [(command, verdict.reason) for command, verdict in context.asked] == [
        ("ls", Reason.SAFE),
        ("pwd -P; rm -rf 'not there'", Reason.DANGEROUS),
    ]


async def test_a_refusal_goes_through_and_nothing_runs(tmp_path: Path) -> None:
    refused = {"stdout": "", "stderr": "User rejected this command.", "exitCode": 1}

    def deny() -> None:
        raise ToolDenied("User rejected this command.", refused)

    with pytest.raises(ToolDenied) as denied:
        await bash(BashContext(tmp_path, permit=deny), "touch ran")
    assert denied.value.output == refused
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800", "echo " + "x" * 300_000], ids=["nul", "half", "long"])
async def test_what_no_program_can_be_given_fails(tmp_path: Path, command: str) -> None:
    with pytest.raises(ToolFailed):
        await bash(BashContext(tmp_path), command)


async def test_a_working_directory_that_is_gone_fails(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    context = BashContext(folder)
    folder.rmdir()
    with pytest.raises(ToolFailed, match="gone"):
        await bash(context, "echo hello")
    assert context.asked == []


@pytest.mark.parametrize("other", ["a link", "nothing"])
async def test_a_working_directory_that_was_swapped_while_the_person_thought_fails(tmp_path: Path, other: str) -> None:
    folder, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()

    def swap() -> None:
        folder.rmdir()
        if other == "a link":
            folder.symlink_to(elsewhere)

    with pytest.raises(ToolFailed, match="working directory"):
        await bash(BashContext(folder, permit=swap), "touch ran")
    assert list(elsewhere.iterdir()) == []


async def test_without_bash_it_is_sh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = tmp_path / "bin"
    places.mkdir()
    (places / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    monkeypatch.setenv("PATH", str(places))
    work = tmp_path / "work"
    work.mkdir()
    assert output(await bash(BashContext(work), "echo $0")) == (f"{places}/sh\n", "", 0)


async def test_without_any_shell_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolFailed, match="no program 'bash', nor 'sh'"):
        await bash(BashContext(tmp_path), "echo hello")


async def test_a_command_has_no_descriptor_of_ours(tmp_path: Path) -> None:
    with (tmp_path / "held").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        stdout, _, _ = output(await bash(BashContext(tmp_path), "for fd in /proc/$$/fd/*; do readlink $fd; done"))
    assert "held" not in stdout
    assert "socket" not in stdout


# Output


async def test_a_long_output_keeps_beginning_and_end_and_says_what_is_missing(tmp_path: Path) -> None:
    result = await bash(BashContext(tmp_path), "seq 1 100000; seq 1 100000 >&2")
    for text, most in zip(output(result)[:2], (30_000, 10_000), strict=True):
        assert most - 10 <= len(text) <= most
        assert text.startswith("1\n2\n")
        assert text.endswith("\n99999\n100000\n")
        start, rest = text.split("\n[", 1)
        missing, end = rest.split(" characters left out]\n", 1)
        assert len(start) + len(end) + int(missing) == 588_895


async def test_bytes_that_are_no_text_are_replaced_one_by_one(tmp_path: Path) -> None:
    stdout, _, _ = output(await bash(BashContext(tmp_path), r"printf 'a\000b\377\376c\303'"))
    assert stdout == "a\u2400b\ufffd\ufffdc\ufffd"


async def test_a_character_that_comes_byte_by_byte_is_whole(tmp_path: Path) -> None:
    context = BashContext(tmp_path, command_progress=0.01)
    command = r"for byte in '\360' '\237' '\246' '\212'; do printf $byte; sleep 0.03; done"
    assert output(await bash(context, command))[0] == "\U0001f98a"
    assert "\ufffd" not in context.seen("stdout")


@pytest.mark.parametrize("handler", ["", "trap 'exit 0' INT PIPE; "])
async def test_a_flood_ends_the_command_and_the_result_says_so(tmp_path: Path, handler: str) -> None:
    mark = nap()
    context = BashContext(tmp_path, command_buffer=200_000)
    stdout, stderr, code = output(await bash(context, f"{handler}while :; do echo {mark}; done"))
    assert stdout.startswith(mark)
    assert len(stdout) <= 30_000
    assert "it gave more than 200000 bytes" in stderr
    assert code != 0
    assert running(mark) == []


async def test_as_much_output_as_is_read_is_no_flood(tmp_path: Path) -> None:
    context = BashContext(tmp_path, command_buffer=20_000)
    assert output(await bash(context, "head -c 20000 /dev/zero | tr '\\0' x")) == ("x" * 20_000, "", 0)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo hello", "hello\n"),
        ("printf hello; echo oops >&2", "hello\n[stderr]\noops\n"),
        ("printf oops >&2; exit 2", "[stderr]\noops\n[exit code 2]"),
        ("true", "[exit code 0]"),
    ],
)
async def test_the_model_reads_plain_text(tmp_path: Path, command: str, text: str) -> None:
    assert (await bash(BashContext(tmp_path), command)).text == text


async def test_output_is_shown_while_the_command_runs(tmp_path: Path) -> None:
    context = BashContext(tmp_path, command_progress=0.01)
    command = "echo one; echo two >&2; until [ -e go ]; do sleep 0.01; done; echo three"
    run = asyncio.ensure_future(bash(context, command))
    await until(lambda: context.seen("stdout") == "one\n" and context.seen("stderr") == "two\n", lambda: context.shown)
    (tmp_path / "go").touch()
    assert output(await run) == ("one\nthree\n", "two\n", 0)


async def test_what_is_shown_at_a_time_is_bounded(tmp_path: Path) -> None:
    context = BashContext(tmp_path, command_progress=0.3)
    command = "seq 1 50000; until [ -e go ]; do sleep 0.01; done"
    run = asyncio.ensure_future(bash(context, command))
    await until(lambda: context.seen("stdout").endswith("\n50000\n"))
    (tmp_path / "go").touch()
    await run
    assert all(len(shown["stdout"]) < 4_100 for shown in context.shown)
    assert "characters left out]\n" in context.shown[0]["stdout"]


# Time


async def test_a_time_out_ends_the_command_and_the_result_says_so(tmp_path: Path) -> None:
    mark = nap()
    result = await bash(BashContext(tmp_path), f"echo before; sleep {mark}; echo after", timeout=600)
    stdout, stderr, code = output(result)
    assert (stdout, code) == ("before\n", 124)
    assert stderr == "[the command was ended: it had not finished after 0.6 s]"
    assert result.text == f"before\n[stderr]\n{stderr}\n[exit code 124]"
    assert running(mark) == []


async def test_last_words_of_a_command_that_ran_too_long_are_heard(tmp_path: Path) -> None:
    command = "trap 'echo saved; exit 0' INT; echo begun; while :; do sleep 0.01; done"
    stdout, _, code = output(await bash(BashContext(tmp_path), command, timeout=600))
    assert (stdout, code) == ("begun\nsaved\n", 124)


async def test_no_command_may_take_longer_than_the_settings_say(tmp_path: Path) -> None:
    context = BashContext(tmp_path, command_longest=0.2)
    _, stderr, code = output(await bash(context, "sleep 100", timeout=600_000))
    assert (stderr, code) == ("[the command was ended: it had not finished after 0.2 s]", 124)


@pytest.mark.parametrize("timeout", [0, -1, 600_001, "5", 1.5, True])
def test_a_time_out_out_of_range_is_no_input(timeout: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"command": "true", "timeout": timeout}, BashInput)


# What is left in the background


@pytest.mark.parametrize(
    "left",
    ["sleep {}", "sleep {} >/dev/null 2>&1", "nohup sleep {} 2>/dev/null", "setsid sleep {}", "setsid -f sleep {}"],
)
async def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path: Path, left: str) -> None:
    mark = nap()
    async with asyncio.timeout(10):
        result = await bash(BashContext(tmp_path), f"{left.format(mark)} & sleep 0.1; echo done")
    stdout, stderr, code = output(result)
    assert (stdout, code) == ("done\n", 0)
    assert stderr == "[ended with the command: 1 of its processes, left in the background]"
    assert running(mark) == []


async def test_what_still_writes_when_the_shell_has_ended_is_heard(tmp_path: Path) -> None:
    context = BashContext(tmp_path, command_drain=10.0)
    assert output(await bash(context, "echo hi > >(sleep 0.1; sed s/hi/ho/)")) == ("ho\n", "", 0)


# Many


async def test_many_run_at_once_and_leave_nothing_open(tmp_path: Path) -> None:
    before = open_fds()
    tool, context = Bash(), BashContext(tmp_path)
    results = await asyncio.gather(
        *(tool.run(BashInput(command=f"echo {n}; echo {n} >&2; exit {n}"), context) for n in range(30))
    )
    assert [output(result) for result in results] == [(f"{n}\n", f"{n}\n", n) for n in range(30)]
    assert open_fds() == before


def test_the_model_sees_what_a_time_out_may_be() -> None:
    schema = msgspec.json.schema(BashInput)["$defs"]["BashInput"]
    assert schema["required"] == ["command"]
    assert {"type": "integer", "minimum": 1, "maximum": 600_000} in schema["properties"]["timeout"]["anyOf"]
