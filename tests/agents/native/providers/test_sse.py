"""Server-sent events come out the same however their bytes are cut, and as the standard says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.native.providers.sse import EventTooLong, SseEvent, SseParser


def parsed(stream: bytes, cuts: list[int] = []) -> list[SseEvent]:  # noqa: B006  never changed
    parser, events, at = SseParser(), [], 0
    for cut in [*sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]:
        events += parser.feed(stream[at:cut])
        at = cut
    return events


def by_the_standard(stream: bytes) -> list[SseEvent]:
    """The standard's words, followed slowly over the whole stream."""
    text = stream.decode("utf-8", "surrogateescape").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    *lines, _ = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    events, data, name = [], None, ""
    for line in lines:
        if not line:
            if data is not None:
                events.append(SseEvent(name, data.removesuffix("\n").encode("utf-8", "surrogateescape")))
            data, name = None, ""
        elif not line.startswith(":"):
            key, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if key == "data":
                data = (data or "") + value + "\n"
            elif key == "event":
                name = value
    return events


_FIELDS = ["data: a", "data:b", "data:  c", "data", "data:", "data: ü€😀", "event: e", "event:é", "event"]
_OTHERS = ["datax: n", " data: n", ": note", ":", "id: 1", "x", "", "", "", ""]
LINES = st.sampled_from([*_FIELDS, *_OTHERS])
ENDS = st.sampled_from(["\n", "\r", "\r\n"])
STREAMS = st.builds(
    lambda bom, lines, rest: (bom + "".join(line + end for line, end in lines) + rest).encode(),
    st.sampled_from(["", "\N{ZERO WIDTH NO-BREAK SPACE}"]),
    st.lists(st.tuples(LINES, ENDS), max_size=20),
    LINES,
)


@given(STREAMS, st.lists(st.integers(0, 10_000), max_size=30))
def test_any_stream_cut_anywhere_gives_what_the_standard_says(stream: bytes, cuts: list[int]) -> None:
    assert parsed(stream, cuts) == by_the_standard(stream)


@given(STREAMS)
def test_byte_by_byte_is_the_same_as_at_once(stream: bytes) -> None:
    assert parsed(stream, list(range(len(stream)))) == parsed(stream)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [("", b"a")]),
        (b"data: a\ndata: b\n\n", [("", b"a\nb")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [("x", b"a"), ("", b"b")]),
        (b"event: x\n\ndata: b\n\n", [("", b"b")]),
        (b": keep-alive\n\ndata: b\n\n", [("", b"b")]),
        (b"data: a\r\rdata: b\r\r", [("", b"a"), ("", b"b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", b"a")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [("", b"a")]),
        (b"data: unended", []),
        (b"data: unended\n", []),
        (b"data\n\n", [("", b"")]),
    ],
)
def test_events_are_read_as_the_standard_has_them(stream: bytes, events: list[tuple[str, bytes]]) -> None:
    assert [(event.name, event.data) for event in parsed(stream)] == events


def test_an_event_is_there_with_its_last_byte_even_after_a_lone_cr() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\n") == []
    assert parser.feed(b"\r") == [SseEvent("", b"a")]
    assert parser.feed(b"\ndata: b\n\n") == [SseEvent("", b"b")]


@pytest.mark.parametrize("piece", [b"data: 123456789\n", b"data: 123456789", b": 123456789", b"x"])
def test_an_event_beyond_the_limit_is_refused_before_it_is_held(piece: bytes) -> None:
    parser = SseParser(longest=100)

    def feed_on() -> None:
        for _ in range(101):
            parser.feed(piece)

    with pytest.raises(EventTooLong):
        feed_on()


def test_the_limit_is_for_one_event_however_many_come() -> None:
    parser = SseParser(longest=100)
    stream = (b"data: " + b"x" * 60 + b"\n\n") * 50
    count = sum(len(parser.feed(stream[at : at + 70])) for at in range(0, len(stream), 70))
    assert count == 50
