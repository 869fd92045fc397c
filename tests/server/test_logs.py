"""Logs for people or as JSON, without secrets (invariant 10)."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
from collections.abc import Iterator

import pytest

from dragoman.server.logs import PatientHandler, Scrubber, set_up


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Logging is the process's: put it back."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield
    root.handlers[:], level = before[0], before[1]
    root.setLevel(level)


def logged(as_json: bool) -> tuple[logging.Logger, io.StringIO]:
    stream, scrubber = io.StringIO(), Scrubber()
    scrubber.add("s3cret")
    set_up("debug", as_json=as_json, scrubber=scrubber, stream=stream)
    return logging.getLogger("dragoman.test"), stream


@pytest.mark.parametrize("as_json", [True, False])
def test_secrets_and_tokens_are_masked_everywhere(as_json: bool) -> None:
    log, stream = logged(as_json)
    log.info("GET /ws?mode=raw&token=abc123&x=1 with s3cret and Authorization: Bearer xyz.987")
    try:
        int("s3cret in a traceback, ?token=abc123")
    except ValueError:
        log.exception("failed")
    text = stream.getvalue()
    assert not [secret for secret in ("s3cret", "abc123", "xyz.987") if secret in text]
    assert "x=1" in text
    assert "ValueError" in text


def test_json_lines_are_json() -> None:
    log, stream = logged(as_json=True)
    log.warning("two\nlines")
    entry = json.loads(stream.getvalue())
    assert (entry["level"], entry["part"], entry["message"]) == ("warning", "dragoman.test", "two\\nlines")


@pytest.mark.parametrize("as_json", [True, False])
def test_nobody_can_forge_a_line_or_reach_the_terminal(as_json: bool) -> None:
    log, stream = logged(as_json)
    log.info("GET /x\n13:37:00.000 error forged \x1b[31m\x9b0m\r\x07")
    text = stream.getvalue()
    assert len(text.splitlines()) == 1
    assert all(letter.isprintable() for letter in text.rstrip("\n"))


def test_other_libraries_are_heard_only_when_something_is_wrong() -> None:
    _, stream = logged(as_json=False)
    logging.getLogger("uvicorn.error").info('"WebSocket /ws?token=abc123" [accepted]')
    assert stream.getvalue() == ""


# A reader that stops to read


class Unread:
    """A pipe that nobody reads until the test does, and a handler that writes to it."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self.handler = PatientHandler(self.writer, patience=0.02)
        self.handler.setFormatter(logging.Formatter("%(message)s"))
        self.log = logging.getLogger("tests.unread")
        self.log.setLevel(logging.INFO)
        self.log.propagate = False
        self.log.addHandler(self.handler)

    def read(self) -> str:
        """All that is in it."""
        os.set_blocking(self._reader, False)
        text = b""
        while True:
            try:
                text += os.read(self._reader, 1 << 16)
            except BlockingIOError:
                return text.decode()

    def leave(self) -> None:
        """Read no more for good."""
        os.close(self._reader)

    def close(self) -> None:
        self.log.removeHandler(self.handler)
        os.close(self.writer)


@pytest.fixture
def unread() -> Iterator[Unread]:
    pipe = Unread()
    yield pipe
    pipe.close()


def test_a_log_that_nobody_reads_holds_nobody_up(unread: Unread) -> None:
    began = time.monotonic()
    for number in range(20_000):
        unread.log.info("line %05d %s", number, "x" * 100)
    assert time.monotonic() - began < 5, "it waited for none but the first"
    kept = unread.read().splitlines()
    assert 0 < len(kept) < 20_000
    unread.log.info("more")
    note, more = unread.read().strip().splitlines()
    whole = len([line for line in kept if len(line) == len(kept[0])])
    assert (note, more) == (f"{20_000 - whole} log lines were lost: nobody read them", "more")
    unread.log.info("and more")
    assert unread.read() == "and more\n"
    unread.leave()


def test_a_long_line_is_written_whole_or_ends_where_it_was_cut(unread: Unread) -> None:
    unread.log.info("x" * 50_000)
    unread.log.info("y" * 50_000)
    first, second = unread.read().splitlines()
    assert first == "x" * 50_000
    assert set(second) == {"y"}
    unread.log.info("more")
    assert unread.read() == "\n1 log lines were lost: nobody read them\nmore\n"
    unread.leave()


def test_a_reader_that_is_gone_is_no_error(unread: Unread, capsys: pytest.CaptureFixture[str]) -> None:
    unread.leave()
    unread.log.info("line")
    unread.log.info("line")
    assert capsys.readouterr().err == ""


def test_stderr_that_is_no_file_is_written_to_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    other = io.StringIO()
    monkeypatch.setattr(sys, "stderr", other)
    set_up("info", as_json=False, scrubber=Scrubber())
    logging.getLogger("dragoman.test").info("line")
    assert other.getvalue().endswith("test      line\n")
