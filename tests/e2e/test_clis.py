"""Where an agent cannot be had, that is said soon, and once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from . import clis


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a registry that nobody runs."""
    monkeypatch.setenv("DRAGOMAN_E2E_CACHE", str(tmp_path / "agents"))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setattr(clis, "_missing", {})
    return tmp_path / "agents"


def test_without_a_registry_the_reason_is_told_at_once_and_nothing_is_left(nowhere: Path) -> None:
    with pytest.raises(clis.Unavailable, match=r"ECONNREFUSED|npm is not installed"):
        clis.command("codex")
    assert [path for path in nowhere.glob("*") if path.is_dir()] == []
    began = time.monotonic()
    with pytest.raises(clis.Unavailable):
        clis.command("codex")
    assert time.monotonic() - began < 0.1


def test_without_npm_that_is_the_reason(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(nowhere))
    with pytest.raises(clis.Unavailable, match="npm is not installed"):
        clis.command("claude")


@pytest.mark.parametrize("cli", clis.CLIS.values(), ids=clis.CLIS)
def test_what_is_installed_is_not_installed_again(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, cli: clis.Cli
) -> None:
    monkeypatch.setenv("PATH", str(nowhere))
    entry = cli.folder / "node_modules" / cli.entry.replace("*", "x")
    entry.parent.mkdir(parents=True)
    entry.touch()
    if entry.suffix == ".js":
        with pytest.raises(clis.Unavailable, match="node is not installed"):
            clis.command(cli.name)
    else:
        assert clis.command(cli.name) == (str(entry),)
