"""Programs that the tests put on the terminal. Run as ``python -I -S programs.py NAME``; standard library only.

``puppet``   obeys lines: what to write, how, when to end. No echo, output bytes exactly as written.
``hexer``    raw terminal; says each byte it reads as ``<xx>``.
``signals``  says each signal it gets as ``<N>``, and for a window change the new size.
``leaver``   ends with 7 at an escape byte, 8 at SIGHUP, 9 at SIGTERM.
``sink``     raw terminal; reads nothing until SIGUSR1, then says the hash of the bytes it was to read.
"""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import sys
import termios
import time
import tty
from pathlib import Path

LINE = 64
READY = b"ready\r\n"


def command(name: str, *args: str) -> list[str]:
    """The command line that runs a program of this file."""
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), name, *args]


def pattern(size: int, start: int = 0) -> bytes:
    """``size`` bytes of a stream whose every line of 64 bytes names its own position."""
    first, last = start // LINE, (start + size) // LINE + 1
    filler = b"the quick brown fox jumps over the lazy dog 0123456789"[: LINE - 11]
    text = b"".join(b"%08d %s\r\n" % (number, filler) for number in range(first, last))
    return text[start - first * LINE :][:size]


def order(verb: str, argument: bytes | int | None = None) -> str:
    """One line for the puppet, to be sent with Enter."""
    if argument is None:
        return verb
    return f"{verb} {argument if isinstance(argument, int) else base64.b64encode(argument).decode()}"


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _exact_output(*, echo: bool = False) -> None:
    flags = termios.tcgetattr(0)
    flags[1] &= ~termios.OPOST
    if not echo:
        flags[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, flags)


def _puppet(*args: str) -> None:
    _exact_output()
    if "quiet" not in args:
        _write(READY)
    for line in sys.stdin.buffer:
        verb, _, argument = line.decode().strip().partition(" ")
        if verb == "write":
            _write(base64.b64decode(argument))
        elif verb == "drip":
            for byte in base64.b64decode(argument):
                os.write(1, bytes([byte]))
                time.sleep(0.001)  # so that most bytes are read alone
        elif verb == "flood":
            size = int(argument)
            for start in range(0, size, 1 << 16):
                _write(pattern(min(1 << 16, size - start), start))
        elif verb == "size":
            cols, rows = os.get_terminal_size(0)
            _write(b"size %d %d\r\n" % (cols, rows))
        elif verb == "exit":
            os._exit(int(argument))
        elif verb == "die":
            os.kill(os.getpid(), int(argument))


def _hexer(*_: str) -> None:
    tty.setraw(0)
    _write(READY)
    while data := os.read(0, 4096):
        _write(b"".join(b"<%02x>" % byte for byte in data))


def _signals(*_: str) -> None:
    _exact_output()

    def told(number: int, _frame: object) -> None:
        if number == signal.SIGWINCH:
            cols, rows = os.get_terminal_size(0)
            _write(b"<28:%dx%d>" % (cols, rows))
        else:
            _write(b"<%d>" % number)

    for name in ("HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "CONT", "TSTP", "WINCH"):
        signal.signal(getattr(signal, f"SIG{name}"), told)
    _write(READY)
    while True:
        signal.pause()


def _leaver(*_: str) -> None:
    signal.signal(signal.SIGHUP, lambda *_: os._exit(8))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
    tty.setraw(0)
    _write(READY)
    while data := os.read(0, 64):
        if b"\x1b" in data:
            os._exit(7)


def _sink(size: str) -> None:
    tty.setraw(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    _write(READY)
    signal.sigwait({signal.SIGUSR1})
    digest, missing = hashlib.sha256(), int(size)
    while missing and (data := os.read(0, min(missing, 65536))):
        digest.update(data)
        missing -= len(data)
    _write(b"sum %s\r\n" % digest.hexdigest().encode())
    signal.pause()


if __name__ == "__main__":
    {"puppet": _puppet, "hexer": _hexer, "signals": _signals, "leaver": _leaver, "sink": _sink}[sys.argv[1]](
        *sys.argv[2:]
    )
