"""The package that gives the client the name of WindieOS' documentation."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

from dragoman.client import windie as ours

PACKAGE = Path(__file__).parents[2] / "packages" / "windie"


def test_windie_is_our_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PACKAGE / "src"))
    shim = importlib.import_module("windie")
    assert Path(str(shim.__file__)).is_relative_to(PACKAGE)
    assert shim.__all__ == ours.__all__
    assert {name: getattr(shim, name) for name in ours.__all__} == {name: getattr(ours, name) for name in ours.__all__}


def test_the_package_asks_for_the_version_that_there_is() -> None:
    mine = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    whole = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["project"]
    assert mine["dependencies"] == [f"dragoman>={whole['version'].rpartition('.')[0]}"]
    assert mine["requires-python"] == whole["requires-python"]
    assert (mine["license"], (PACKAGE / "LICENSE").read_text()) == (
        whole["license"],
        (PACKAGE.parents[1] / "LICENSE").read_text(),
    )
