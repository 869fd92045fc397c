"""ConnectOnion's real clients, at the versions the tests are written for: installed once into the cache of the agents.

Every package is pinned with its hash (``locks``): Python's in a virtual environment of its own per release, npm's in a
folder. What is there is complete: a folder gets its name only when all of it has been installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.e2e.clis import FETCHING, INSTALL_LIMIT, Unavailable, cache

LOCKS = Path(__file__).parent / "locks"
DRIVERS = Path(__file__).parent / "drivers"
NPM = "0.1.4"
"""The release of the npm client."""

COMPLETE = "complete"
"""Stands in a folder that is."""

_missing: dict[str, str] = {}
"""Clients that could not be had in this run, and why: each is tried once."""


def python_client(release: str) -> tuple[str, ...]:
    """The words that start the driver of this release of the Python client. Raises ``Unavailable``."""
    folder = _had(f"connectonion-{release}", _install_python)
    return (str(folder / "bin" / "python"), str(DRIVERS / "python_client.py"))


def npm_client() -> tuple[str, ...]:
    """The words that start the driver of the npm client. Raises ``Unavailable``."""
    folder = _had(f"connectonion-npm-{NPM}", _install_npm)
    return (_tool("node"), str(DRIVERS / "npm_client.js"), str(folder / "node_modules"))


def _had(name: str, install: Callable[[Path], None]) -> Path:
    if name in _missing:
        raise Unavailable(_missing[name])
    try:
        with _alone(name):
            folder = cache() / name
            if not (folder / COMPLETE).exists():
                install(folder)
                (folder / COMPLETE).touch()
            return folder
    except Unavailable as problem:
        _missing[name] = str(problem)
        raise


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """One process at a time."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install_python(folder: Path) -> None:
    """A virtual environment, where it stays: its programs know the way to it."""
    shutil.rmtree(folder, ignore_errors=True)
    lock = LOCKS / f"{folder.name}.txt"
    try:
        _run("Python", (sys.executable, "-m", "venv", str(folder)), folder.parent)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--no-input", "--retries", "1", "--timeout", "20", "--require-hashes", "--only-binary", ":all:"]
        _run("pip", [*pip, "-r", str(lock)], folder.parent)
    except Unavailable:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _install_npm(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for file in (LOCKS / "npm").iterdir():
            shutil.copy(file, work)
        asked = (_tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", *FETCHING)
        _run("npm", asked, work)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(who: str, words: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=INSTALL_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{who} did not install ConnectOnion's client within {INSTALL_LIMIT:g} s") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip() and "WARNING" not in line]
        raise Unavailable(f"{who} cannot install ConnectOnion's client: {' / '.join(lines[:3]) or 'it said nothing'}")


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is not installed")
    return found


def environment(home: Path) -> dict[str, str]:
    """All that a client has of this machine: the search path, and a HOME of its own. Neither keys nor proxies."""
    home.mkdir(parents=True, exist_ok=True)
    path = os.environ.get("PATH", os.defpath)
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
