"""What the native agent may run unasked."""

from __future__ import annotations

import glob
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.agents.native.permissions import Reason, Verdict, classify, danger, reading, table

from . import commands, dangerous_commands, destructive_commands, outside_commands
from .commands import lines

TABLE = {
    Reason.SAFE: [*lines(commands.SAFE), "ls "],
    Reason.DANGEROUS: [*lines(dangerous_commands.DANGEROUS), *dangerous_commands.DANGEROUS_LOOKALIKES],
    Reason.OPERATOR: [*lines(commands.OPERATOR), "ls\npwd", "ls\r", "ls\r\n", "\nls", "ls \\\n src"],
    Reason.OUTSIDE: [*lines(outside_commands.OUTSIDE), "ls \0", "ls \ud800"],
    Reason.READS_FILES: lines(commands.READS),
    Reason.REVIEW: [
        *lines(commands.REVIEW),
        *commands.REVIEW_LOOKALIKES,
        "pwd ",
        "node --version ",
        "ls \\",
        "echo \\ ",
        "ls \x1b[8m",
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a link ``out`` that leads out of it."""
    top = tmp_path_factory.mktemp("permissions")
    work = top / "work"
    for name in ("work/src", "work/docs", "elsewhere"):
        (top / name).mkdir(parents=True)
    for name in ("README.md", "src/main.py", "a file.txt"):
        (work / name).touch()
    (work / "out").symlink_to("../elsewhere")
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    return work


@pytest.mark.parametrize("reason", TABLE)
def test_each_command_of_the_table_gets_its_verdict(reason: Reason, folder: Path) -> None:
    wrong = {
        command: got.reason for command in TABLE[reason] if (got := classify(command, folder, [folder])) != (reason,)
    }
    assert wrong == {}


def test_the_table_names_each_command_once() -> None:
    every = [command for each in TABLE.values() for command in each]
    assert sorted({command for command in every if every.count(command) > 1}) == []
    assert len(every) >= 300


def test_only_safe_runs_unasked_and_only_dangerous_warns() -> None:
    assert [reason for reason in Reason if Verdict(reason).approved] == [Reason.SAFE]
    assert [reason for reason in Reason if Verdict(reason).dangerous] == [Reason.DANGEROUS]


def test_another_root_is_in_scope(folder: Path) -> None:
    command = f"ls {folder.parent}/elsewhere"
    assert classify(command, folder, [folder]).reason is Reason.OUTSIDE
    assert classify(command, folder, [folder, folder.parent / "elsewhere"]).approved
    assert classify("ls out", folder, [folder, folder.parent / "elsewhere"]).approved


def test_a_root_is_no_prefix_of_its_neighbours_name(folder: Path) -> None:
    (folder.parent / "work-2").mkdir()
    assert classify("ls ../work-2", folder, [folder]).reason is Reason.OUTSIDE


def test_a_working_folder_out_of_scope_approves_nothing(folder: Path) -> None:
    for command in lines(commands.SAFE):
        assert classify(command, folder.parent, [folder]).reason is Reason.OUTSIDE
        assert classify(command, folder, []).reason is Reason.OUTSIDE


def test_a_file_named_like_an_option_is_not_smuggled_in_by_a_pattern(tmp_path: Path) -> None:
    assert classify("ls *", tmp_path, [tmp_path]).approved
    (tmp_path / "-LR").touch()
    assert not classify("ls *", tmp_path, [tmp_path]).approved


LONG = ["x", "a/", "x ", "$'", "rm ", "git push ", "curl ", "|a=", "| sh", ":(){", "$(curl ", "-a/../", "xargs rm"]
LONG += ["* ", "[", "\\x", "${IFS", ".. ", "drop  ", "= "]


@pytest.mark.parametrize("part", LONG)
@pytest.mark.parametrize("size", [4_000, 16_000, 1_000_000])
def test_a_long_command_is_asked_about_in_no_time(part: str, size: int, folder: Path) -> None:
    started = time.process_time()
    verdict = classify("ls " + part * (size // len(part)), folder, [folder])
    assert time.process_time() - started < 0.5
    assert size == 4_000 or not verdict.approved


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".git/config", "[core]\n\tfsmonitor = touch x\n"),
        (".git/config", "[CORE]\n\tFsMonitor = touch x\n"),
        (".git/config", "[core] fsmonitor = touch x\n"),
        (".git/config", '[diff "x"]\n\ttextconv = touch x\n'),
        (".git/config", '[filter "x"]\n\tclean = touch x\n'),
        (".git/config", "[include]\n\tpath = ../evil\n"),
        (".git/config", "[core]\n\tworktree = /\n"),
        (".git/config", "[core]\n\tpager = touch x\n"),
        (".git/config", "[core]\n\thooksPath = .\n"),
        (".git/config", "[user]\n\tname = a \\\n[core]\n\tfsmonitor = x\n"),
        (".git/config", "#" * 70_000),
        (".git/hooks/post-index-change", "touch x\n"),
        (".git/commondir", "../evil\n"),
        (".git/objects/info/alternates", "/elsewhere\n"),
        (".git/HEAD", "nothing\n"),
        (".gitmodules", ""),
    ],
)
def test_git_is_not_approved_where_the_repository_runs_programs(file: str, text: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert classify("git status", tmp_path, [tmp_path]).approved
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert classify("git status", tmp_path, [tmp_path]).reason is Reason.REVIEW


def test_git_is_not_approved_in_a_repository_that_reaches_out_of_scope(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "inner").mkdir()
    assert not classify("git status", tmp_path / "inner", [tmp_path / "inner"]).approved
    (tmp_path / "inner" / ".git").write_text("gitdir: ../elsewhere\n")
    assert not classify("git status", tmp_path / "inner", [tmp_path]).approved


def test_git_is_not_approved_inside_a_bare_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path)], check=True)
    assert not classify("git log", tmp_path, [tmp_path]).approved


def test_the_strict_reading_is_the_shells_own(folder: Path) -> None:
    for command in lines(commands.SAFE):
        words = reading.strict(command)
        assert words is not None
        assert [word.text for word in words] == shlex.split(command)


@pytest.mark.parametrize(
    "command", ["=ls", "echo =ls", "ls 'a*'*", 'ls "a"?', "ls 'a", "ls a;", "ls $x", "ls é", "ls ~", "ls a:~b"]
)
def test_the_strict_reading_refuses_what_shells_read_differently(command: str) -> None:
    assert reading.strict(command) is None


@pytest.mark.parametrize("name", ["my link", "a:b", "a=b", "a,b", "a@b", "a#b", "a(b)", "[a]", "{a}", "a b=c:d"])
def test_a_link_out_of_scope_is_seen_whatever_its_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("/etc")
    for command in (f"ls '{name}'", f'ls "{name}/x"', f"git diff '{name}'", f"echo '{name}'"):
        assert classify(command, tmp_path, [tmp_path]).reason is Reason.OUTSIDE


def quoted(text: str) -> st.SearchStrategy[str]:
    """The same word for a shell, in any of its quotings."""
    styles = (str, shlex.quote, '"{}"'.format, "'{}'".format, '""{}'.format, "{}''".format, "\\{}".format)
    halves = [lambda word, cut=cut: f"\"{word[:cut]}\"'{word[cut:]}'" for cut in range(len(text))]
    coded = [lambda word: "$'" + "".join(f"\\x{ord(char):02x}" for char in word) + "'"]
    return st.sampled_from([*styles, *halves, *coded]).map(lambda style: style(text))


safe = st.sampled_from(lines(commands.SAFE))
operator = st.sampled_from([";", "&&", "||", "|", "&", ">", ">>", "<", "<<", "\n", "\r", "`", "$(", "<(", ">(", "|&"])
outside = st.sampled_from(
    [
        "/",
        "/etc",
        "/etc/passwd",
        "//etc",
        "/./etc",
        "..",
        "../x",
        "../../x",
        "src/../../x",
        "out",
        "out/x",
        "./out",
        "~/x",
    ]
).flatmap(quoted)
verbs = sorted({*danger.ANYWHERE, "rm -rf x", "git push -f", "git reset --hard", "git clean -fd", "find . -delete"})


@settings(deadline=None)
@given(command=safe, mark=operator, data=st.data())
def test_nothing_with_an_operator_is_approved(folder: Path, command: str, mark: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(command)))
    assert not classify(command[:at] + mark + command[at:], folder, [folder]).approved


@settings(deadline=None)
@given(command=safe, path=outside, lead=st.sampled_from([" ", " -- ", " --x=", " -x=", " a:", " @", "\t", ' "" ']))
def test_no_path_out_of_scope_is_approved_in_any_quoting(folder: Path, command: str, path: str, lead: str) -> None:
    assert not classify(command + lead + path, folder, [folder]).approved


@settings(deadline=None)
@given(command=safe, verb=st.sampled_from(verbs), lead=st.sampled_from([" ", "; ", " && ", " | xargs ", ' "', " $("]))
def test_a_destructive_verb_warns_wherever_it_stands(folder: Path, command: str, verb: str, lead: str) -> None:
    assert classify(command + lead + verb, folder, [folder]).dangerous


@settings(deadline=None)
@given(verb=st.sampled_from(sorted(danger.ANYWHERE)), data=st.data())
def test_a_destructive_verb_warns_in_any_quoting(folder: Path, verb: str, data: st.DataObject) -> None:
    assert classify(data.draw(quoted(verb)) + " x", folder, [folder]).dangerous


destructive = st.sampled_from([*lines(destructive_commands.DESTRUCTIVE), *lines(dangerous_commands.DANGEROUS)])


def test_no_destructive_command_runs_unasked(folder: Path) -> None:
    table = lines(destructive_commands.DESTRUCTIVE)
    assert len(set(table)) == len(table) >= 300
    assert [command for command in table if classify(command, folder, [folder]).approved] == []


@settings(deadline=None)
@given(
    verb=destructive, command=safe, joint=st.sampled_from([" ; ", "&&", " | ", " & ", "\n", " || ", " $(", " `", " <("])
)
def test_no_destructive_command_runs_unasked_beside_a_harmless_one(
    folder: Path, verb: str, command: str, joint: str
) -> None:
    for whole in (command + joint + verb, verb + joint + command):
        assert not classify(whole, folder, [folder]).approved


@settings(deadline=None)
@given(verb=destructive, data=st.data())
def test_no_destructive_command_runs_unasked_in_any_quoting(folder: Path, verb: str, data: st.DataObject) -> None:
    head, _, rest = verb.partition(" ")
    for disguised in (f"{data.draw(quoted(head))} {rest}", f"  {verb}", f"{verb} ", f"\t{verb}", f"\\\n{verb}"):
        assert not classify(disguised, folder, [folder]).approved


NOISE = st.text(alphabet="lsechogitd -=./~*?$'\"\\;&|<>(){}[]#!%\n\t\r\0é\u200b", max_size=40)


@settings(deadline=None, max_examples=500)
@given(command=st.one_of(st.text(), NOISE, NOISE.map("ls ".__add__), NOISE.map("git diff ".__add__)))
@example("")
@example("'")
@example("$'\\U7fffffff'")
def test_any_text_gets_a_verdict_and_an_approved_one_is_a_listed_command(folder: Path, command: str) -> None:
    if not classify(command, folder, [folder]).approved or command in table.EXACT:
        return
    words = shlex.split(command)
    assert words[0] in table.COMMANDS or (words[0] == "git" and words[1] in table.GIT)
    assert command.isascii()
    assert not set(command) & set("\n\r;&|<>`$\\!")


STAND_IN = """#!/bin/sh
printf '%s\\0' "${0##*/}" "$@"
"""
PIECES = st.sampled_from(
    [
        *(
            "ls",
            "git status",
            "git log",
            "git diff",
            "which",
            "echo",
            " ",
            "  ",
            "\t",
            "'",
            '"',
            "*",
            "?",
            "src",
            "a b",
        ),
        *(
            "-",
            "--",
            "-l",
            "-n",
            "--all",
            "=",
            ":",
            "~",
            "^",
            "%h",
            "{a,b}",
            "[a]",
            "#",
            "!",
            "\\",
            "$x",
            "+",
            "@",
            "/",
        ),
        *(
            "README.md",
            "src/main.py",
            "$'x'",
            "!!",
            "~+",
            "\u00e9",
            "*.md",
            "s?c",
            ".",
            "HEAD~1",
            "main..x",
            ",",
            "x=1",
        ),
    ]
)


@settings(deadline=None, max_examples=400)
@given(
    head=st.sampled_from(["ls ", "git log ", "git diff ", "which ", "git status ", ""]),
    rest=st.lists(PIECES, max_size=8),
)
@example(head="ls ", rest=["'a b'", '"src"', "*"])
def test_what_bash_passes_on_is_what_was_judged(folder: Path, stand_ins: Path, head: str, rest: list[str]) -> None:
    """Programs that say what they are given stand in for the real ones; bash itself reads the command."""
    command = head + "".join(rest)
    if not classify(command, folder, [folder]).approved or command in table.EXACT:
        return
    words = reading.strict(command)
    assert words is not None
    if words[0].text in ("echo", "type"):
        return
    expanded = [
        sorted(folder_glob(folder, word.text)) or [word.text] if word.pattern else [word.text] for word in words
    ]
    run = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", "--", command],
        cwd=folder,
        env={"PATH": str(stand_ins), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout.split("\0")[:-1], run.stderr) == ([each for words in expanded for each in words], "")


def folder_glob(folder: Path, pattern: str) -> list[str]:
    return glob.glob(pattern, root_dir=folder)  # noqa: PTH207 - names as the shell gives them


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    places = tmp_path_factory.mktemp("stand-ins")
    (places / "bash").symlink_to(shutil.which("bash") or "/bin/bash")
    for name in ("ls", "git", "which"):
        (places / name).write_text(STAND_IN)
        (places / name).chmod(0o755)
    return places
