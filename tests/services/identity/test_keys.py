"""The file of a key: made once, by one of many, for one person."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.services.identity import Identity, IdentityProblem, load_or_create

SEED = bytes([7] * 32)


def put(file: Path, data: bytes, mode: int = 0o600) -> None:
    file.write_bytes(data)
    file.chmod(mode)


def test_it_is_made_once(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "er" / "host.key"
    made = load_or_create(file)
    assert load_or_create(file).address == made.address
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]


def test_two_are_never_the_same(tmp_path: Path) -> None:
    assert load_or_create(tmp_path / "a").address != load_or_create(tmp_path / "b").address


def test_many_at_once_get_the_same(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "host.key"
    with ThreadPoolExecutor(16) as threads:
        made = {identity.address for identity in threads.map(lambda _: load_or_create(file), range(64))}
    assert len(made) == 1
    assert list(file.parent.iterdir()) == [file]


def test_processes_at_once_get_the_same(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "host.key"
    program = (
        "import sys, pathlib; from dragoman.services.identity import load_or_create;"
        "print(load_or_create(pathlib.Path(sys.argv[1])).address)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert len({process.communicate(timeout=20)[0] for process in started}) == 1


FORMS = {
    "hexadecimal": SEED.hex().encode() + b"\n",
    "hexadecimal without an end of line": SEED.hex().upper().encode(),
    "the bytes, as ConnectOnion has them": SEED,
}


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS.keys())
def test_forms(tmp_path: Path, data: bytes) -> None:
    put(tmp_path / "key", data)
    assert load_or_create(tmp_path / "key").address == Identity.from_seed(SEED).address


DAMAGED = {
    "nothing": b"",
    "half of it": SEED.hex()[:32].encode(),
    "no hexadecimal": b"z" * 64,
    "more of it": SEED.hex().encode() + b"00",
    "something else": b"\xff" * 100,
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_one_is_kept_and_refused(tmp_path: Path, data: bytes) -> None:
    put(tmp_path / "key", data)
    with pytest.raises(IdentityProblem, match="is damaged"):
        load_or_create(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == data


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o777], ids=oct)
def test_one_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    put(tmp_path / "key", SEED.hex().encode(), mode)
    with pytest.raises(IdentityProblem, match="chmod 600") as refused:
        load_or_create(tmp_path / "key")
    assert SEED.hex() not in str(refused.value)


def test_so_is_a_folder_that_others_may_write(tmp_path: Path) -> None:
    put(tmp_path / "key", SEED.hex().encode())
    tmp_path.chmod(0o777)
    with pytest.raises(IdentityProblem, match="chmod go-w"):
        load_or_create(tmp_path / "key")


def _folder(path: Path) -> None:
    path.mkdir(mode=0o700)


def _pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize("make", [_folder, _pipe], ids=["folder", "pipe"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "key")
    with pytest.raises(IdentityProblem, match="is no file"):
        load_or_create(tmp_path / "key")


def test_where_none_can_be_made_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IdentityProblem, match="cannot be used: Not a directory"):
        load_or_create(tmp_path / "file" / "key")


def test_no_path_at_all(tmp_path: Path) -> None:
    with pytest.raises(IdentityProblem, match="cannot be used"):
        load_or_create(tmp_path / "a\0b")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_one_that_belongs_to_another_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "key", SEED.hex().encode())
    os.chown(tmp_path / "key", 65534, 65534)
    with pytest.raises(IdentityProblem, match="belongs to somebody else"):
        load_or_create(tmp_path / "key")
