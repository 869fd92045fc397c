"""`dragoman hooks`: what it says, and what it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import main
from tests.agents.hooked.posting import Place, listening


class Person:
    """A home in which Claude Code has been used, and what ``dragoman hooks`` says there."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys
        self.claude = home / ".claude" / "settings.json"
        self.socket = home / ".local" / "state" / "dragoman" / "hooks.sock"

    def hooks(self, *words: str) -> tuple[int, str, str]:
        """Exit code, and what was said."""
        with pytest.raises(SystemExit) as left:
            main(["hooks", *words])
        said = self._capsys.readouterr()
        return int(str(left.value.code)), said.out, said.err

    def rows(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.hooks(*words, "--json")[1].splitlines()]

    async def rows_beside(self, *words: str) -> list[dict[str, Any]]:
        """The same while the loop goes on: by a process of its own."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dragoman", "hooks", *words, "--json"), stdout=subprocess.PIPE
        )
        said, _ = await process.communicate()
        return [json.loads(line) for line in said.splitlines()]

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[Place]:
        async with listening(self.socket) as place:
            yield place


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    for name in list(os.environ):
        if name.startswith(("DRAGOMAN_", "XDG_", "CLAUDE", "CODEX", "GEMINI")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / ".claude").mkdir()
    return Person(tmp_path, capsys)


def states(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row.get("agent", "server"): row["state"] for row in rows}


def test_without_a_word_it_says_how_they_stand(person: Person) -> None:
    code, said, _ = person.hooks()
    assert code == 0
    lines = said.splitlines()
    assert lines[0].split() == ["claude", "not", "installed", str(person.claude)]
    assert lines[1].endswith("(this agent does not seem to be here)")
    assert [line.split()[0] for line in lines] == ["claude", "codex", "gemini"]


def test_the_agents_that_are_here_get_their_hooks_and_are_rid_of_them(person: Person) -> None:
    code, said, aside = person.hooks("install")
    assert (code, said.split()) == (0, ["claude", "installed", str(person.claude)])
    assert "when they are started anew" in aside
    assert str(person.socket) in person.claude.read_text()
    assert states(person.rows("status")) == {
        "claude": "installed",
        "codex": "not installed",
        "gemini": "not installed",
    }
    assert states(person.rows("install")) == {"claude": "already installed"}
    assert states(person.rows("uninstall")) == {
        "claude": "removed",
        "codex": "not installed",
        "gemini": "not installed",
    }
    assert not person.claude.exists()
    assert [path.name for path in person.home.rglob("*") if path.is_file()] == []


def test_one_that_is_named_need_not_be_here(person: Person) -> None:
    assert states(person.rows("install", "gemini", "codex", "gemini")) == {
        "gemini": "installed",
        "codex": "installed",
    }
    assert states(person.rows("install", "all")) == {
        "claude": "installed",
        "codex": "already installed",
        "gemini": "already installed",
    }


def test_where_none_is_here_it_asks_for_a_name(person: Person) -> None:
    (person.home / ".claude").rmdir()
    code, said, aside = person.hooks("install")
    assert (code, said) == (2, "")
    assert aside == (
        "dragoman: hooks: none of the agents seems to be here; name one to install its hooks all the same: "
        "claude, codex, gemini\n"
    )


def test_an_agent_that_is_not_known(person: Person) -> None:
    code, said, aside = person.hooks("install", "cursor")
    assert (code, said, aside) == (2, "", "dragoman: hooks: 'cursor' is none of claude, codex, gemini, all\n")


def test_one_that_cannot_be_does_not_keep_the_others(person: Person) -> None:
    person.claude.write_text('{\n  // mine\n  "a": 1\n}')
    code, said, _ = person.hooks("install", "all")
    assert code == 1
    lines = said.splitlines()
    assert lines[0].split()[:2] == ["claude", "failed"]
    assert "comments" in lines[1]
    assert [line.split()[:2] for line in lines[2:]] == [["codex", "installed"], ["gemini", "installed"]]
    assert states(person.rows("status"))["claude"] == "unreadable"
    assert states(person.rows("uninstall"))["gemini"] == "removed"
    assert person.hooks("uninstall", "claude")[0] == 1


def test_it_is_meant_for_the_server_of_these_settings(person: Person) -> None:
    person.hooks("install", "claude", "--data", str(person.home / "other"))
    assert str(person.home / "other" / "hooks.sock") in person.claude.read_text()
    (row,) = person.rows("status", "claude")
    assert row["state"] == "outdated"
    config = person.home / "settings.toml"
    config.write_text(f'[hooked]\nsocket = "{person.home}/its own.sock"\nanswer_seconds = 90\n')
    person.hooks("install", "claude", "--config", str(config))
    hooks = json.loads(person.claude.read_text())["hooks"]
    assert f"'{person.home}/its own.sock'" in hooks["Stop"][0]["hooks"][0]["command"]
    assert hooks["PermissionRequest"][0]["hooks"][0]["timeout"] == 120


def test_settings_that_cannot_be_are_told_of(person: Person) -> None:
    assert person.hooks("status", "--config", str(person.home / "none.toml"))[0] == 2


# The doctor


async def test_the_doctor_tries_each_hook(person: Person) -> None:
    person.hooks("install", "all")
    async with person.served() as place:
        server, *agents = await person.rows_beside("doctor")
        assert (server["state"], server["problems"]) == ("reached", [])
        assert [(row["agent"], row["state"], row["ran"], row["problems"]) for row in agents] == [
            ("claude", "installed", 16, []),
            ("codex", "installed", 12, []),
            ("gemini", "installed", 8, []),
        ]
        assert all(0 < row["milliseconds"] < 1000 for row in agents)
        assert place.posts == []


def test_the_doctor_says_that_no_server_is_there(person: Person) -> None:
    person.hooks("install")
    code, said, _ = person.hooks("doctor")
    assert code == 1
    lines = said.splitlines()
    assert lines[0].split() == ["server", "not", "reached", str(person.socket)]
    assert "start it (dragoman serve)" in lines[1]
    assert "(16 hooks run" in lines[2]  # and each of them was silent
    assert len(lines) == 5
    person.socket.parent.mkdir(parents=True)
    person.socket.write_text("")
    assert "Connection refused" in person.hooks("doctor")[1] or "is gone" in person.hooks("doctor")[1]


async def test_the_doctor_finds_what_is_broken(person: Person) -> None:
    person.hooks("install", "claude")
    program = person.home / ".config" / "dragoman" / "hooks" / "dragoman-hook"
    whole = program.read_text()
    async with person.served():
        program.write_text("#!/bin/sh\nexit 0\n")
        _, row = await person.rows_beside("doctor", "claude")
        assert row["state"] == "outdated"
        assert "it does not reach the server" in row["problems"][1]
        program.write_text("#!/bin/sh\necho oops >&2; exit 2\n")
        _, row = await person.rows_beside("doctor", "claude")
        assert "it leaves with 2 and says 'oops'" in row["problems"][1]
        program.unlink()
        _, row = await person.rows_beside("doctor", "claude")
        assert "it leaves with 127" in row["problems"][1]
        program.write_text(whole)
        program.chmod(0o700)
        assert [row["problems"] for row in await person.rows_beside("doctor", "claude")] == [[], []]


async def test_the_doctor_is_told_of_one_who_has_none(person: Person) -> None:
    async with person.served():
        _, row = await person.rows_beside("doctor", "codex")
        assert row["problems"] == ["it has no hooks of ours (run: dragoman hooks install codex)"]
        rows = await person.rows_beside("doctor")
        assert [row["problems"] for row in rows] == [[], [], [], []]
