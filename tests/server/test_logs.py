"""Logs for people or as JSON, without secrets (invariant 10)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from dragoman.server.logs import Scrubber, set_up


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
