"""A folder to guard, and what lies around it."""

from pathlib import Path

import pytest

from dragoman.agents.native.path_guard import PathGuard


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """`root` with a file, a folder and every kind of link; `outside` with what nobody may read."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (tmp_path / "root-two").mkdir()
    (root / "file").write_text("inside")
    (root / "sub" / "file").write_text("inside")
    (outside / "secret").write_text("secret")
    (tmp_path / "root-two" / "secret").write_text("secret")
    for name, target in {
        "to_file": "sub/file",
        "to_file_absolute": root / "file",
        "to_sub": "sub",
        "out_file": outside / "secret",
        "out_folder": "../outside",
        "out_twice": "out_folder",
        "dangling_out": outside / "absent",
        "dangling_in": "sub/absent",
        "loop": "loop",
        "to_slash": "/",
        "to_proc_root": f"/proc/self/root{outside}",
        "to_proc_cwd": "/proc/self/cwd",
    }.items():
        (root / name).symlink_to(target)
    return tmp_path


@pytest.fixture
def guard(place: Path) -> PathGuard:
    return PathGuard(place / "root", [place / "root"])
