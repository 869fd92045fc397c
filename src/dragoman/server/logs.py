"""Structured logs on stderr: for people by default, one JSON object per line by choice. No secret gets through."""

from __future__ import annotations

import json
import logging
import os
import re
import select
import sys
import time
from typing import TextIO

_TOKEN_IN_QUERY = re.compile(r"([?&](?:access_)?token=)[^&\s\"']+", re.IGNORECASE)
_BEARER = re.compile(r"(Bearer\s+)[\w.~+/=-]+", re.IGNORECASE)
_MARK = "***"
CONSOLE = "dragoman.console"
"""The logger of lines that a dialect says to whoever watches, in its contract's own form: people see them bare."""

_MARKS = (*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(10), *range(11, 32), *range(127, 160))}
_CONTROLS |= {code: f"\\u{code:04x}" for code in _MARKS}
"""Control characters but the line feed, and unseen marks that turn text around, as people can read them."""


class Scrubber:
    """Takes known secrets, and whatever looks like a token, out of a text (invariant 10)."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()

    def add(self, secret: str | None) -> None:
        """Never let this string be written."""
        if secret:
            self._secrets.add(secret)

    def clean(self, text: str) -> str:
        """The text without secrets, and without characters that forge lines or reach a terminal."""
        text = text.translate(_CONTROLS)
        for secret in self._secrets:
            text = text.replace(secret, _MARK)
        return _BEARER.sub(rf"\1{_MARK}", _TOKEN_IN_QUERY.sub(rf"\1{_MARK}", text))


class HumanFormatter(logging.Formatter):
    """``12:34:56.789 info    links     coop link opened from 127.0.0.1``"""

    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__()
        self._scrubber = scrubber

    def format(self, record: logging.LogRecord) -> str:
        if record.name == CONSOLE:
            return self._scrubber.clean(_one_line(record))
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        part = record.name.rpartition(".")[2]
        text = f"{clock}.{int(record.msecs):03d} {record.levelname.lower():<7} {part:<9} {_one_line(record)}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return self._scrubber.clean(text)


def _one_line(record: logging.LogRecord) -> str:
    return record.getMessage().replace("\n", "\\n")


class JsonFormatter(logging.Formatter):
    """One object per line: at (ms since 1970), level, part, message, error."""

    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__()
        self._scrubber = scrubber

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": int(record.created * 1000),
            "level": record.levelname.lower(),
            "part": record.name,
            "message": self._scrubber.clean(_one_line(record)),
        }
        if record.exc_info:
            entry["error"] = self._scrubber.clean(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


class PatientHandler(logging.Handler):
    """Writes lines to a descriptor whose reader may have stopped to read: a server must not stand still with it.

    A line that cannot be written within ``patience`` seconds is lost, and so are those behind it while nothing is read:
    they do not wait at all. Once there is room again a line says how many they were.
    """

    def __init__(self, descriptor: int, *, patience: float = 0.05) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._patience = patience * 1000
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        self._lost = 0
        self._cut = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
            note = self.format(self._note()) if self._lost else None
        except Exception:  # noqa: BLE001  as every handler: the caller is no part of it
            self.handleError(record)
            return
        if note is not None and self._write(note):
            self._lost = 0
        if self._lost or not self._write(line):
            self._lost += 1

    def _note(self) -> logging.LogRecord:
        said = "%d log lines were lost: nobody read them"
        return logging.LogRecord("dragoman.server", logging.WARNING, __file__, 0, said, (self._lost,), None)

    def _write(self, line: str) -> bool:
        """Whether all of it went out. One that was cut ends before the next one begins."""
        begin = "\n" if self._cut else ""
        left = memoryview(f"{begin}{line}\n".encode("utf-8", "backslashreplace"))
        while left:
            if not self._room.poll(0 if self._lost else self._patience):
                return False
            try:
                # What says that it has room takes this much of it without waiting.
                left = left[os.write(self._descriptor, left[: select.PIPE_BUF]) :]
            except OSError:
                return False
            self._cut = bool(left)
        return True


def _handler(stream: TextIO | None) -> logging.Handler:
    if stream is not None:
        return logging.StreamHandler(stream)
    try:
        return PatientHandler(sys.stderr.fileno())
    except OSError:  # something else stands in its place
        return logging.StreamHandler(sys.stderr)


def set_up(level: str, *, as_json: bool, scrubber: Scrubber, stream: TextIO | None = None) -> None:
    """Send every log of the process to stderr in one form."""
    handler = _handler(stream)
    handler.setFormatter(JsonFormatter(scrubber) if as_json else HumanFormatter(scrubber))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("dragoman").setLevel(level.upper())
    # What an application raises is logged by ours; uvicorn's own errors are what clients do to it, at will.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    # So it is with the parser of forms, which names the bytes that it does not like.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    # That spans do not arrive is said once by ours; its library says it with every request.
    logging.getLogger("opentelemetry").setLevel(logging.WARNING if level == "debug" else logging.CRITICAL)
