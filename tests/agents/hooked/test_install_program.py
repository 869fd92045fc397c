"""What installed hooks run: it outlives what installed it, and is silent where it cannot do its work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.hooked.installation import program as copies
from dragoman.agents.hooked.installation.installer import install, uninstall
from dragoman.agents.hooked.installation.program import refresh_program

from .person import CLAUDE, GEMINI, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)


ODD_PLACES = ["plain", "with blanks", "it's", 'a "quoted" one', "dollar $HOME `x`", "ünï", "back\\slash"]


@pytest.mark.parametrize("name", ODD_PLACES)
def test_what_is_installed_runs_wherever_it_lies(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir()
    home = Home(path, socket=f"{name}.sock")
    install(home.place, CLAUDE)
    line = home.json(".claude/settings.json")["hooks"]["Stop"][0]["hooks"][0]["command"]
    for shell in ("/bin/sh", "/bin/bash"):
        done = subprocess.run([shell, "-c", line], input=b"{}", capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def run(home: Home, **more: Any) -> tuple[int, bytes, bytes]:
    words = [str(home.place.program), str(home.place.socket), "claude", "Stop"]
    done = subprocess.run(words, input=b"{}", capture_output=True, check=False, **more)
    return done.returncode, done.stdout, done.stderr


def test_it_outlives_the_python_that_installed_it(home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(copies, "interpreter", lambda: "/no/such/python")
    install(home.place, CLAUDE)
    assert run(home) == (0, b"", b"")
    seen = tmp_path / "seen"
    python = home.write("bin/python3", f"#!/bin/sh\necho \"$@\" > '{seen}'\n")
    python.chmod(0o755)
    assert run(home, env={"PATH": f"{python.parent}:/usr/bin:/bin"}) == (0, b"", b"")
    assert seen.read_text().split()[:3] == ["-I", "-S", str(home.place.folder / "post.py")]


def test_without_any_python_it_is_silent(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_SHELL", copies._SHELL.replace("/usr/bin/python3", "/no/python"))
    monkeypatch.setattr(copies, "interpreter", lambda: "/no/such/python")
    install(home.place, CLAUDE)
    assert run(home, env={"PATH": "/nowhere"}) == (0, b"", b"")


def test_without_its_script_it_is_silent(home: Home) -> None:
    """Python would leave with 2, which an agent takes for a refusal."""
    install(home.place, CLAUDE)
    (home.place.folder / "post.py").unlink()
    assert run(home) == (0, b"", b"")
    assert home.standing().state == "outdated"


def test_it_is_run_by_the_python_that_a_virtual_environment_was_made_of() -> None:
    python = copies.interpreter()
    assert not Path(python).is_symlink()
    assert Path(python).is_relative_to(Path(sys.base_prefix).resolve())


def test_an_updated_server_renews_what_is_run(home: Home) -> None:
    assert not refresh_program(home.place.folder)
    assert not home.place.folder.exists()
    install(home.place, CLAUDE)
    assert not refresh_program(home.place.folder)
    (home.place.folder / "post.py").write_text("older")
    assert home.standing().state == "outdated"
    assert refresh_program(home.place.folder)
    assert home.standing().state == "installed"


def test_what_is_run_goes_with_the_last_agent(home: Home) -> None:
    install(home.place, CLAUDE)
    install(home.place, GEMINI)
    uninstall(home.place, CLAUDE)
    assert home.place.program.exists()
    uninstall(home.place, GEMINI)
    assert not home.place.folder.exists()
