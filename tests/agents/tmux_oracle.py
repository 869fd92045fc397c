"""tmux as an independent terminal: draw bytes on a pane of a private server, and look at it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

TMUX = shutil.which("tmux")

# Runs in the pane: draws what it is sent, and says so once the terminal has answered a query put after it.
_PAINTER = r"""
import os, socket, sys, tty
tty.setraw(0)
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
stream = link.makefile("rb")
while size := stream.read(8):
    data = stream.read(int(size, 16)) + b"\x1b[5n"
    while data:
        data = data[os.write(1, data):]
    answer = b""
    while not answer.endswith(b"\x1b[0n"):
        answer += os.read(0, 4096)
    link.sendall(b"!")
"""


class Picture(NamedTuple):
    """What tmux shows: lines without trailing blanks, and where its cursor is."""

    lines: tuple[str, ...]
    row: int
    col: int
    alt_screen: bool
    cursor_visible: bool


class TmuxOracle:
    """One tmux server with one pane. ``folder`` must be private and short: sockets live in it."""

    def __init__(self, folder: Path, cols: int, rows: int) -> None:
        self.cols, self.rows = cols, rows
        self._name = f"oracle-{os.getpid()}"
        self._env = {**os.environ, "TMUX_TMPDIR": str(folder), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        self._env.pop("TMUX", None)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "painter"))
            listener.listen()
            listener.settimeout(10)
            painter = (sys.executable, "-c", _PAINTER, str(folder / "painter"))
            self._run("new-session", "-d", "-x", str(cols), "-y", str(rows), *painter)
            self._run("set", "-g", "status", "off")
            self._link, _ = listener.accept()
        self._link.settimeout(10)
        self.resize(cols, rows)

    def paint(self, data: bytes) -> None:
        """Draw on the pane as it is; returns once tmux has read all of it. ``data`` must end outside a sequence."""
        self._link.sendall(b"%08x" % len(data) + data)
        assert self._link.recv(1) == b"!", "the painter died"

    def clear(self) -> None:
        """Make the pane as new."""
        self.paint(b"\x1b[?1049l\x1bc\x1b[2J\x1b[3J\x1b[H")

    def resize(self, cols: int, rows: int) -> None:
        """Change the size of the pane."""
        self.cols, self.rows = cols, rows
        self._run("resize-window", "-x", str(cols), "-y", str(rows))

    def picture(self) -> Picture:
        """What the pane shows now."""
        shown = self._run(
            "display",
            "-p",
            "#{cursor_y} #{cursor_x} #{alternate_on} #{cursor_flag}",
            ";",
            "capture-pane",
            "-p",
        )
        state, *lines = shown.removesuffix("\n").split("\n")
        row, col, alternate, visible = map(int, state.split())
        return Picture(
            tuple(line.rstrip(" ") for line in lines),
            row,
            min(col, self.cols - 1),
            bool(alternate),
            bool(visible),
        )

    def coloured(self) -> bytes:
        """What the pane shows, as text with SGR sequences, one line after the other."""
        return self._run("capture-pane", "-p", "-e").encode()

    def title(self) -> str:
        """The pane's title."""
        return self._run("display", "-p", "#{pane_title}").removesuffix("\n")

    def close(self) -> None:
        """End this server and nothing else."""
        self._run("kill-server")
        self._link.close()

    def _run(self, *command: str) -> str:
        assert TMUX is not None
        done = subprocess.run(
            (TMUX, "-u", "-L", self._name, "-f", "/dev/null", *command),
            env=self._env,
            capture_output=True,
            check=True,
            timeout=10,
        )
        return done.stdout.decode()
