"""Where a client cannot be had, that is said soon, and once."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.e2e import clis

from . import packages


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and registries that nobody runs."""
    monkeypatch.setenv("DRAGOMAN_E2E_CACHE", str(tmp_path / "agents"))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setattr(packages, "_missing", {})
    return tmp_path / "agents"


def test_without_a_registry_the_reason_is_told_at_once_and_nothing_is_left(nowhere: Path) -> None:
    with pytest.raises(clis.Unavailable, match=r"ECONNREFUSED|npm is not installed"):
        packages.npm_client()
    assert [path for path in nowhere.glob("*") if path.is_dir()] == []
    began = time.monotonic()
    with pytest.raises(clis.Unavailable):
        packages.npm_client()
    assert time.monotonic() - began < 0.1


@pytest.mark.parametrize("lock", sorted(packages.LOCKS.glob("*.txt")), ids=lambda path: path.stem)
def test_every_python_package_is_pinned_with_its_hash(lock: Path) -> None:
    pins = re.findall(
        r"^(\S+==\S+)((?: [^\n]*\\)?\n(?:    --hash=sha256:[0-9a-f]{64}[ \\]*\n)*)", lock.read_text(), re.MULTILINE
    )
    assert f"connectonion=={lock.stem.removeprefix('connectonion-')}" in [name for name, _ in pins]
    assert [name for name, hashes in pins if "--hash" not in hashes] == []
