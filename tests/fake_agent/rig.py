"""The fake agent on a PTY of its own, with no server between, and a screen to look at."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import avt

from tests.fake_agent import record
from tests.fake_agent.session_log import place

AGENT = Path(__file__).with_name("agent.py")
LIMIT = 10.0
"""Seconds any single condition may take to come true."""

VT: Any = vars(avt)["Vt"]
T = TypeVar("T")
Json = dict[str, Any]


def command(*flags: str) -> list[str]:
    """The command line of the fake agent; without the site module, so that it starts fast."""
    return [sys.executable, "-S", str(AGENT), *flags]


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Played:
    """One process of the fake agent. ``answers`` are sent when it asks for them; no 7501 answer with ``plain``."""

    def __init__(self, folder: Path, *flags: str, hooks: Sequence[str] = (), plain: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.plain = folder, plain
        self.recorded, self.heard = folder / "record", folder / "hooks"
        self.session = "11111111-2222-4333-8444-555555555555"
        self.log_path = place(str(folder), str(folder), self.session)
        settings = folder / "settings.json"
        settings.write_text(json.dumps({"hooks": {event: self._listener(event) for event in hooks}}))
        self.output = b""
        self._vt = VT(100, 40)
        self._answered = False
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        given = ["--record", str(self.recorded), "--settings", str(settings), "--session-id", self.session]
        self.process = subprocess.Popen(
            command(*flags, *given),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={"HOME": str(folder), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
            preexec_fn=_own_terminal,  # noqa: PLW1509 - this process has one thread
        )
        os.close(slave)

    def _listener(self, event: str) -> list[Json]:
        """A hook that appends its payload to a file, and prints what stands in a file named after the event."""
        heard, says = shlex.quote(str(self.heard)), shlex.quote(str(self.folder / f"says-{event}"))
        line = f'said=$(cat); printf "%s\\n" "$said" >> {heard}; if [ -f {says} ]; then cat {says}; rm {says}; fi'
        return [{"hooks": [{"type": "command", "command": line}]}]

    def look(self, seconds: float = 0.02) -> None:
        """Take in what was drawn, and answer the queries of the start."""
        while select.select([self._master], [], [], seconds)[0]:
            try:
                chunk = os.read(self._master, 65536)
            except OSError:
                return
            self.output += chunk
            self._vt.feed_str(chunk.decode(errors="replace"))
            if not self._answered and b"\x1b[c" in self.output:
                self._answered = True
                self.send(("" if self.plain else "\x1b]7501;?1\x1b\\") + "\x1b[?62;22c")

    def send(self, data: str | bytes) -> None:
        """Write to the terminal in one piece."""
        os.write(self._master, data.encode() if isinstance(data, str) else data)

    def until(self, probe: Callable[[], T], what: str = "", limit: float = LIMIT) -> T:
        """Look until the answer is true; return it."""
        deadline = time.monotonic() + limit
        while not (answer := probe()):
            assert time.monotonic() < deadline, f"not within {limit} s: {what}\n{self.screen}\n{self.records}"
            self.look()
        return answer

    @property
    def screen(self) -> str:
        """The text on the screen now."""
        return "\n".join(line.text.rstrip() for line in self._vt.view()).rstrip()

    def shows(self, text: str) -> str:
        """Wait until the screen holds the text."""
        return self.until(lambda: self.screen if text in self.screen else "", f"{text!r} on the screen")

    @property
    def records(self) -> list[Json]:
        """The record so far."""
        return record.read(self.recorded)

    @property
    def states(self) -> list[str]:
        """The states so far."""
        return [entry["state"] for entry in self.records if "state" in entry]

    @property
    def effects(self) -> list[Json]:
        """The effects so far."""
        return [entry for entry in self.records if "effect" in entry]

    def effect(self, name: str) -> Json:
        """Wait for the newest effect of that name."""
        return self.until(lambda: next((e for e in reversed(self.effects) if e["effect"] == name), None) or {}, name)

    def reaches(self, *states: str) -> None:
        """Wait until these are all the states there were."""
        self.until(lambda: self.states == list(states), f"{states}, not {self.states}")

    def becomes(self, state: str) -> None:
        """Wait until this is the state."""
        self.until(lambda: self.states[-1:] == [state], state)

    @property
    def hooks(self) -> list[Json]:
        """All payloads that hooks were given."""
        text = self.heard.read_text() if self.heard.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    @property
    def events(self) -> list[str]:
        """The names of the hooks that ran."""
        return [hook["hook_event_name"] for hook in self.hooks]

    @property
    def log(self) -> list[Json]:
        """The session log."""
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    @property
    def status(self) -> list[str]:
        """All that it said of its status, without the messages."""
        said = re.findall(rb"\x1b\]7501;(app=[^\x1b]*)\x1b", self.output)
        return [re.sub(r"app=claude-code:state=|kind=|:msg=.*", "", text.decode()) for text in said]

    @property
    def titles(self) -> list[str]:
        """All window titles."""
        return [text.decode() for text in re.findall(rb"\x1b\]0;([^\x07]*)\x07", self.output)]

    def resize(self, cols: int, rows: int) -> None:
        """Give the terminal another size."""
        self._vt.resize(cols, rows)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.process.pid, number)

    def end(self) -> int:
        """Wait for its end; the exit code."""
        self.until(lambda: self.process.poll() is not None, "its end")
        return self.process.returncode

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._master)
