"""`dragoman attach` that gets nowhere leaves the terminal as it was."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios

import pytest


def attached(*words: str) -> tuple[int, str, bool]:
    """Exit code, all that was written, and whether the terminal is as it was before."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    try:
        line = [sys.executable, "-m", "dragoman", "attach", *words]
        code = subprocess.run(line, stdin=theirs, stdout=theirs, stderr=theirs, timeout=30, check=False).returncode
        unchanged = termios.tcgetattr(theirs) == before
        return code, os.read(ours, 65536).decode(), unchanged
    finally:
        os.close(theirs)
        os.close(ours)


@pytest.mark.parametrize("session", [(), ("abc",)])
def test_without_a_server_the_terminal_stays_as_it_was(session: tuple[str, ...]) -> None:
    code, said, unchanged = attached("--url", "http://127.0.0.1:1", *session)
    assert (code, unchanged) == (1, True)
    assert "no server answers" in said
    assert "\x1b" not in said
