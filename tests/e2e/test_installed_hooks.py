"""Installed hooks as the real agents see them: trusted, read without a complaint, and run."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.hooked.installation.agents import AGENTS
from dragoman.agents.hooked.installation.installer import install, uninstall
from dragoman.agents.hooked.installation.place import Place

from . import clis
from .driven import ModelServer, driven
from .homes import Home, make_home

pytestmark = pytest.mark.e2e

LIMIT = 60.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not under /tmp, which Codex does not like."""
    homes = clis.cache().parent / "homes"
    homes.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=homes))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def home_of(agent: str, folder: Path, port: int) -> Home:
    try:
        return make_home(agent, folder / "home", folder / "project", port)
    except clis.Unavailable as missing:
        pytest.skip(str(missing))


def place_of(home: Home) -> Place:
    return Place(home.path / ".config" / "dragoman" / "hooks", home.path / "it's data" / "hooks.sock", 600.0, home.env)


def listed(home: Home, **environment: str) -> dict[str, Any]:
    """What Codex itself says of its hooks."""
    process = subprocess.Popen(
        [home.command[0], "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=home.env | environment,
        cwd=home.cwd,
    )
    asked = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "t", "title": "t", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(home.cwd)]}},
    ]
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in asked))
        process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("id") == 2:
                (found,) = answer["result"]["data"]
                return dict(found)
    finally:
        process.stdin.close()
        process.stdout.close()
        process.terminate()
        process.wait(LIMIT)
    raise AssertionError("codex does not list its hooks")


@pytest.mark.parametrize("given", [False, True], ids=["usual", "CODEX_HOME"])
def test_codex_trusts_what_was_installed(folder: Path, given: bool) -> None:
    home = home_of("codex", folder, 9)
    if given:
        (folder / "elsewhere").mkdir()
        (folder / "link").symlink_to(folder / "elsewhere")
        home.env["CODEX_HOME"] = str(folder / "link")
    assert install(place_of(home), AGENTS["codex"]) is None
    found = listed(home)
    assert (found["warnings"], found["errors"]) == ([], [])
    assert {hook["trustStatus"] for hook in found["hooks"]} == {"trusted"}
    assert len(found["hooks"]) == len(AGENTS["codex"].events)
    uninstall(place_of(home), AGENTS["codex"])
    assert listed(home)["hooks"] == []


def test_codex_trusts_them_beside_those_of_the_person(folder: Path) -> None:
    home = home_of("codex", folder, 9)
    mine = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    (home.path / ".codex" / "hooks.json").write_text(json.dumps(mine))
    assert install(place_of(home), AGENTS["codex"]) is None
    trusted = {hook["command"] == "true": hook["trustStatus"] for hook in listed(home)["hooks"]}
    assert trusted == {True: "untrusted", False: "trusted"}


STARTED = {"claude": "manual mode", "codex": "Ask Codex", "gemini": "Type your message"}


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
async def test_an_agent_starts_with_them_as_without(agent: str, folder: Path, model: ModelServer) -> None:
    """No server is there: nothing is asked, complained of, or waited for."""
    home = home_of(agent, folder, model.port)
    assert install(place_of(home), AGENTS[agent]) is None
    async with driven(home) as running:
        await running.shows(STARTED[agent])
        await running.submit("[[say:As if nothing were.]]")
        await running.shows("As if nothing were.")
        await running.quiet()
        shown = running.text.lower()
    complaints = ("invalid", "failed", "error", "review") if agent == "gemini" else ("hook",)  # it names those that run
    assert [word for word in complaints if word in shown] == [], shown
