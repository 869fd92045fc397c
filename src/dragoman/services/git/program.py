"""Running git: one command at a time, with a limit on its time and on what is read of it. Blocks; for a thread."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from .settings import GitSettings

_PIECE = 64 * 1024

_ALWAYS = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_PAGER": "cat",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}
"""Git looks, asks nobody, changes nothing and fetches nothing."""

_NO_OTHER = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull}
"""No configuration counts but the one in the folder that git is given."""

_KEPT = ("HOME", "XDG_CONFIG_HOME", "PATH", "TMPDIR", "LD_LIBRARY_PATH")


class GitFailed(Exception):
    """A command did not do it. ``str()`` says which and why."""


class TookTooLong(GitFailed):
    """It was not done in time."""


class Git:
    """Git on this machine. ``environment`` is the server's; of it git gets what it needs to be found and run."""

    def __init__(self, settings: GitSettings, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._environment = {name: environment[name] for name in _KEPT if name in environment} | _ALWAYS
        self._program = shutil.which(settings.program, path=environment.get("PATH"))
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def there(self) -> bool:
        """Whether there is a git to run."""
        return self._program is not None

    def run(self, *words: str, cwd: Path, git: Path, top: Path | None, feed: Callable[[bytes], None]) -> None:
        """One command on the repository folder ``git`` with the working tree ``top``. What it says is fed as it comes.

        Raises ``GitFailed``, and whatever ``feed`` raises.
        """
        environment = self._environment | _NO_OTHER | {"GIT_DIR": str(git)}
        if top is not None:
            environment["GIT_WORK_TREE"] = str(top)
        self._run(words, cwd, environment, feed)

    def user_settings(self, place: Path) -> bytes:
        """``git config --list -z`` of the user and the machine. Raises ``GitFailed``."""
        said: list[bytes] = []
        self._run(("config", "--list", "-z"), place, {**self._environment, "GIT_DIR": str(place / "none")}, said.append)
        return b"".join(said)

    def close(self) -> None:
        """End what runs, and run nothing more."""
        with self._lock:
            self._closed = True
            if self._running is not None:
                _kill(self._running)

    def _run(
        self, words: tuple[str, ...], cwd: Path, environment: Mapping[str, str], feed: Callable[[bytes], None]
    ) -> None:
        process = self._started(words, cwd, environment)
        try:
            whole = self._read(process, words[0], feed)
        finally:
            _kill(process)  # of one that ended by itself nothing is left to be ended
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
            with self._lock:
                self._running = None
        if whole and process.returncode != 0:
            raise GitFailed(f"git {words[0]} ended with {process.returncode}")

    def _started(self, words: tuple[str, ...], cwd: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed or self._program is None:
                raise GitFailed("no git is run here")
            try:
                self._running = subprocess.Popen(
                    (self._program, *words),
                    cwd=cwd,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:  # ValueError: a NUL in the path
                raise GitFailed(f"git {words[0]} cannot be started: {error}") from error
            return self._running

    def _read(self, process: subprocess.Popen[bytes], command: str, feed: Callable[[bytes], None]) -> bool:
        """Whether that was all it had to say."""
        assert process.stdout is not None
        end, left = time.monotonic() + self._settings.patience, self._settings.output_bytes
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN | select.POLLHUP)
        while left > 0:
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                raise TookTooLong(f"git {command} took more than {self._settings.patience:g} s")
            data = os.read(process.stdout.fileno(), _PIECE)
            if not data:
                break
            feed(data[:left])
            left -= len(data)
        else:
            return False
        try:
            process.wait(max(0.05, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise TookTooLong(f"git {command} does not end") from None
        return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End it and all that it started, unless it has ended: its number may be somebody else's by then."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
