"""A tmux server of a test's own, with the session that is attached to."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .pty_rig import until


class PrivateTmux:
    """Its socket lies in ``folder``. ``environment`` makes every tmux client reach it."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"
        self.environment = {"TMUX": f"{self._socket},0,0"}

    def tmux(self, *words: str) -> str:
        """One command; returns what it says."""
        line = ["tmux", "-u", "-S", str(self._socket), "-f", "/dev/null", *words]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=10)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.rstrip("\n")

    def open(self, *command: str, name: str = "work") -> None:
        """A session of 80 to 24 that runs a command."""
        self.tmux("new-session", "-d", "-s", name, "-x", "80", "-y", "24", *command)

    def ask(self, variable: str, target: str = "work:") -> str:
        """A variable of the pane."""
        return self.tmux("display-message", "-p", "-t", target, f"#{{{variable}}}")

    def lines(self) -> list[str]:
        return self.tmux("capture-pane", "-p", "-t", "work:").split("\n")

    async def shows(self, text: str) -> None:
        await until(lambda: any(text in line for line in self.lines()), lambda: "\n".join(self.lines()))

    def sessions(self) -> list[str]:
        return self.tmux("list-sessions", "-F", "#{session_name}").split()

    def clients(self) -> list[str]:
        return self.tmux("list-clients", "-F", "#{client_pid}").split()

    def close(self) -> None:
        subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, check=False, timeout=10)
