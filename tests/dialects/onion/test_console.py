"""The console's lines (seed: Server Console Output)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.onion.console import Console, printable
from dragoman.server.logs import Scrubber, set_up

IDENTITY = "0x2f3d" + "4" * 60
SESSION = "aad5c0de-1111-4222-8333-444455556666"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Logging is the process's: put it back."""
    root, ours = logging.getLogger(), logging.getLogger("dragoman")
    before = (root.handlers[:], root.level, ours.level)
    yield
    root.handlers[:], level, own = before
    root.setLevel(level)
    ours.setLevel(own)


def written(level: str = "info", *, as_json: bool = False) -> io.StringIO:
    stream, scrubber = io.StringIO(), Scrubber()
    scrubber.add("s3rver-token")
    set_up(level, as_json=as_json, scrubber=scrubber, stream=stream)
    return stream


def console(**more: object) -> Console:
    return Console(lambda: 1, secrets=lambda: ("open-sesame", "s3rver-token"), **more)  # type: ignore[arg-type]


def test_the_seeds_lines_come_as_they_stand_there() -> None:
    stream = written()
    alive = iter((0, 1))
    lines = Console(lambda: next(alive))
    lines.opened("127.0.0.1")
    lines.connected(IDENTITY, SESSION, "new")
    lines.input(IDENTITY, SESSION, "hello world")
    lines.closed()
    lines.connected(IDENTITY, SESSION, "connected", claimed=4, server_newer=True)
    lines.connected(IDENTITY, SESSION, "running", reattached=True)
    lines.input(IDENTITY, SESSION, "analyze this", images=2, files=1)
    lines.refused("CONNECT", "forbidden")
    lines.not_connected()
    lines.agent_error("boom")
    lines.runtime_input(SESSION, "also this")
    lines.received("PONGG")
    assert stream.getvalue().splitlines() == [
        "⚡ ws+ 127.0.0.1 (0 active)",
        "✓ CONNECT identity=0x2f3d... session=aad5... status=new",
        "✓ INPUT identity=0x2f3d... session=aad5... prompt=hello world...",
        "⚡ ws- (1 active)",
        "✓ CONNECT identity=0x2f3d... session=aad5... status=connected",
        "  ↑ client session: 4 messages",
        "  ↕ merged sessions (server newer)",
        "✓ CONNECT identity=0x2f3d... session=aad5... status=running",
        "  ↻ reattaching to running agent",
        "✓ INPUT identity=0x2f3d... session=aad5... prompt=analyze this...",
        "  ↑ 2 images, 1 files",
        "✗ CONNECT auth error: forbidden",
        "✗ INPUT rejected: not authenticated (send CONNECT first)",
        "✗ agent error: boom",
        "↳ RUNTIME_INPUT session=aad5... prompt=also this...",
        "← recv: PONGG",
    ]
    assert list(lines.lines) == stream.getvalue().splitlines()


@pytest.mark.parametrize(("images", "files", "said"), [(2, 0, "2 images"), (0, 3, "3 files"), (0, 0, None)])
def test_attachments_that_are_not_there_are_not_said(images: int, files: int, said: str | None) -> None:
    lines = console()
    lines.input(IDENTITY, SESSION, "x", images=images, files=files)
    assert list(lines.lines[1:]) == ([] if said is None else [f"  ↑ {said}"])


def test_an_unsigned_caller_is_anonymous_and_is_recommended_a_signature_where_that_is_wished() -> None:
    careful, open_ = console(recommends_signature=True), console()
    for lines in (careful, open_):
        lines.connected(None, SESSION, "new")
        lines.connected(IDENTITY, SESSION, "new")
    assert "identity=anonymous session=aad5... status=new" in careful.lines[0]
    assert "signature is recommended" in careful.lines[1]
    assert len(careful.lines) == 3
    assert len(open_.lines) == 2


def test_a_prompt_is_cut_at_fifty_characters() -> None:
    lines = console()
    lines.input(IDENTITY, SESSION, "a" * 49 + "bc" + "d" * 100_000)
    assert lines.lines[0].endswith("prompt=" + "a" * 49 + "b...")


SECRETS = [
    "sk-proj-abcdefghijklmnop",
    "sk-ant-api03-abcdefghijkl",
    "AIzaSyA1234567890abcdefghijk",
    "ghp_abcdefghijklmnopqrstuvwxyz",
    "github_pat_11ABCDEFGHIJKLMNOPQRSTU",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-1234567890-abc",
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc",
    "gsk_abcdefghijklmnop",
    "open-sesame",
    "s3rver-token",
]


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
@pytest.mark.parametrize("before", [0, 40, 47])
def test_a_secret_is_shown_nowhere_not_even_its_beginning(secret: str, before: int) -> None:
    stream, lines = written(), console()
    lines.input(IDENTITY, SESSION, "." * before + secret)
    lines.refused("CONNECT", f"no {secret}")
    lines.agent_error(f"401 for {secret}")
    lines.received(secret)
    lines.opened(secret)
    text = stream.getvalue() + "\n".join(lines.lines)
    assert secret[:6] not in text
    assert len(stream.getvalue().splitlines()) == 5


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET /ws?token=abc123&x=1", "GET /ws?token=***&x=1"),
        ('{"invite_code": "friends-only"}', '{"invite_code": "***"}'),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("my password=hunter2hunter2 is", "my password=*** is"),
        ("api_key: abcdef", "api_key: ***"),
        ("invite_code or payment required", "invite_code or payment required"),
    ],
    ids=["query", "code", "bearer", "password", "key", "words"],
)
def test_what_says_that_it_is_a_secret_is_one(text: str, shown: str) -> None:
    lines = console()
    lines.agent_error(text)
    assert lines.lines[0] == f"✗ agent error: {shown}"


HOSTILE = ["\x1b[2J", "\r\n✓ CONNECT forged", "\u202etxt.exe", "\u2066x\u2069", "\x07", "\x9b0m", "\ud800", "\u2028"]


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_that_a_client_sends_reaches_the_terminal_or_makes_a_line(text: str, as_json: bool) -> None:
    stream, lines = written(as_json=as_json), console()
    lines.opened(text)
    lines.connected(text, text, "new")
    lines.input(text, text, text)
    lines.runtime_input(text, text)
    lines.refused(text, text)
    lines.received(text)
    lines.agent_error(text)
    assert len(stream.getvalue().splitlines()) == 7
    assert all(line.isprintable() for line in lines.lines)
    assert all(line.isprintable() for line in stream.getvalue().splitlines())


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_any_text_becomes_one_that_prints(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


def test_with_json_logs_a_line_is_an_object() -> None:
    stream = written(as_json=True)
    console().closed()
    entry = json.loads(stream.getvalue())
    assert (entry["level"], entry["part"], entry["message"]) == ("info", "dragoman.console", "⚡ ws- (1 active)")


def test_the_log_level_silences_it_but_the_lines_are_kept() -> None:
    stream, lines = written("warning"), console()
    lines.closed()
    assert stream.getvalue() == ""
    assert list(lines.lines) == ["⚡ ws- (1 active)"]


def test_only_the_newest_lines_are_kept() -> None:
    lines = console(kept=3)
    for number in range(5):
        lines.received(f"T{number}")
    assert list(lines.lines) == ["← recv: T2", "← recv: T3", "← recv: T4"]


def test_other_logs_keep_their_prefix() -> None:
    stream = written()
    console().closed()
    logging.getLogger("dragoman.links").info("hello")
    first, second = stream.getvalue().splitlines()
    assert first == "⚡ ws- (1 active)"
    assert second.endswith("info    links     hello")
