"""The real agents, at the versions the tests are written for: installed once into a cache, and how each is started."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

INSTALL_LIMIT = float(os.environ.get("DRAGOMAN_E2E_INSTALL") or 600.0)
"""Seconds an installation may take; the largest package has 400 MB."""

FETCHING = ("--fetch-retries", "1", "--fetch-retry-mintimeout", "1000", "--fetch-timeout", "60000")
"""How npm deals with a registry that does not answer: it soon gives up."""

_missing: dict[str, str] = {}
"""Agents that could not be had in this run, and why: each is tried once."""


class Unavailable(Exception):
    """The agent cannot be had here; the text says why, and is the reason of a skipped test."""


@dataclass(frozen=True)
class Cli:
    """One agent: its npm package, and where in ``node_modules`` lies what is run (a pattern; a ``.js`` needs node)."""

    name: str
    package: str
    version: str
    entry: str

    @property
    def folder(self) -> Path:
        """Where it is installed, or is to be."""
        return cache() / f"{self.name}-{self.version}"


CLIS = {
    cli.name: cli
    for cli in (
        Cli("claude", "@anthropic-ai/claude-code", "2.1.332", "@anthropic-ai/claude-code-linux-*/claude"),
        Cli("codex", "@openai/codex", "0.171.0", "@openai/codex-linux-*/vendor/*/bin/codex"),
        Cli("gemini", "@google/gemini-cli", "0.61.0", "@google/gemini-cli/bundle/gemini.js"),
        Cli("qwen", "@qwen-code/qwen-code", "0.15.10", "@qwen-code/qwen-code/cli.js"),
        Cli("opencode", "opencode-ai", "1.18.33", "opencode-linux-*-baseline/bin/opencode"),
    )
}


def cache() -> Path:
    """The folder of all installations: ``DRAGOMAN_E2E_CACHE``, or ``dragoman/agents`` in the user's cache."""
    given = os.environ.get("DRAGOMAN_E2E_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman" / "agents"


def command(name: str) -> tuple[str, ...]:
    """The words that start an agent, installed first if need be. Raises ``Unavailable``."""
    if name in _missing:
        raise Unavailable(_missing[name])
    try:
        return _command(CLIS[name])
    except Unavailable as problem:
        _missing[name] = str(problem)
        raise


def _command(cli: Cli) -> tuple[str, ...]:
    entry = _entry(cli) or _install(cli)
    if entry.suffix != ".js":
        return (str(entry),)
    return (_tool("node"), str(entry))


def _entry(cli: Cli) -> Path | None:
    return next((path for path in sorted((cli.folder / "node_modules").glob(cli.entry))), None)


def _install(cli: Cli) -> Path:
    """Install into a folder beside the wanted one and rename it: what is there is complete. One process at a time."""
    npm = _tool("npm")
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f".{cli.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (entry := _entry(cli)) is not None:
            return entry
        work = Path(tempfile.mkdtemp(prefix=f".{cli.name}-", dir=cache()))
        try:
            # Their install scripts only link or fetch what the platform package has already brought.
            asked = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(work)]
            asked += ["--loglevel", "error", *FETCHING, f"{cli.package}@{cli.version}"]
            done = subprocess.run(asked, capture_output=True, text=True, timeout=INSTALL_LIMIT, check=False)
            if done.returncode != 0:
                raise Unavailable(f"npm cannot install {cli.package}@{cli.version}: {_reason(done.stderr)}")
            work.rename(cli.folder)
        except subprocess.TimeoutExpired:
            message = f"npm did not install {cli.package}@{cli.version} within {INSTALL_LIMIT:g} s"
            raise Unavailable(message) from None
        except OSError as error:
            raise Unavailable(f"{cli.folder} is in the way: {error.strerror}") from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(work)
    installed = _entry(cli)
    if installed is None:
        raise Unavailable(f"{cli.package}@{cli.version} brings nothing to run on this platform ({cli.entry})")
    return installed


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is not installed")
    return found


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " / ".join(lines[:3]) or "it said nothing"
