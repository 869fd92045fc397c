"""`dragoman keys`: the host's address, made once, and never its secret."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.services.identity import Identity


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "dragoman" / "identity" / "host.key"


def keys(*flags: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["keys", *flags])
    return int(str(left.value.code))


def test_the_key_is_made_once(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys() == 0
    first = capsys.readouterr()
    assert first.out == Identity.from_seed(bytes.fromhex(key.read_text().strip())).address + "\n"
    assert str(key) in first.err
    assert keys() == 0
    assert capsys.readouterr() == (first.out, "")


def test_only_its_owner_may_read_it(key: Path) -> None:
    before = os.umask(0)
    try:
        assert keys() == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700


def test_json_and_path(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys("--path") == 0
    assert capsys.readouterr().out == f"{key}\n"
    assert keys("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"address": Identity.from_seed(bytes.fromhex(key.read_text().strip())).address, "path": str(key)}


@pytest.mark.parametrize("flags", [(), ("--json",), ("--path",)], ids=["plain", "json", "path"])
def test_the_secret_is_never_shown(key: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]) -> None:
    assert keys(*flags) == 0
    shown = "".join(capsys.readouterr())
    assert key.read_text().strip() not in shown


def test_both_flags_at_once_are_refused(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys("--json", "--path") == 2
    assert "not both" in capsys.readouterr().err
    assert not key.exists()


def test_a_key_that_others_may_read_is_refused(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys() == 0
    capsys.readouterr()
    key.chmod(0o640)
    assert keys() == 2
    out, problem = capsys.readouterr()
    assert out == ""
    assert str(key) in problem
    assert "chmod 600" in problem


def test_the_settings_say_where(key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[trust]\nkey_file = "{tmp_path}/elsewhere/mine.key"\n')
    assert keys("--config", str(settings), "--path") == 0
    assert capsys.readouterr().out == f"{tmp_path}/elsewhere/mine.key\n"
    assert not key.exists()


def test_as_a_program(key: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "keys"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    assert (done.returncode, len(done.stdout)) == (0, 67)
    assert key.read_text().strip() not in done.stdout + done.stderr


def test_codes_in_the_settings_are_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[trust]\npolicy = """---\nonboard:\n  invite_code: S3CRET\n---"""\n')
    with pytest.raises(SystemExit):
        main(["config", "--config", str(settings)])
    printed = capsys.readouterr().out
    assert json.loads(printed)["trust"]["policy"] == "***"
