"""What the tests of the path guard do with folders."""

from pathlib import Path

from dragoman.agents.native.path_guard import PathGuard


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def read(guard: PathGuard, path: str) -> bytes:
    with guard.open_file("read", path) as file:
        return file.read()
