"""The keys of the fake agent."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.fake_agent.keys import Key, Keys

SAID = (
    b"a\xc3\xa9\xe2\x9c\xb3\r\n\x15\x7f\x1b[A\x1bOB\x1b[200~x\r\ny\x1b[A\x1b[201~\x1b]7501;?1\x1b\\\x1b[?62;22c"
    b"\x1bP>|xterm\x1b\\\x1b[I\x1b[Z1"
)
NAMES = [
    "text",
    "enter",
    "newline",
    "ctrl-u",
    "backspace",
    "up",
    "down",
    "paste",
    "status-reply",
    "attributes-reply",
    "backtab",
    "text",
]


def joined(keys: list[Key]) -> list[Key]:
    """As if text had come in one piece."""
    found: list[Key] = []
    for key in keys:
        if found and key.name == found[-1].name == "text":
            found[-1] = Key("text", found[-1].text + key.text)
        else:
            found.append(key)
    return found


@given(st.lists(st.integers(0, len(SAID)), max_size=8).map(sorted))
def test_keys_do_not_depend_on_where_the_bytes_are_cut(cuts: list[int]) -> None:
    keys, places = Keys(), [0, *cuts, len(SAID)]
    got = joined([key for a, b in pairwise(places) for key in keys.feed(SAID[a:b])])
    assert [key.name for key in got] == NAMES
    assert got[0].text == "aé✳"
    assert got[7].text == "x\ny\x1b[A"
    assert not keys.pending


def test_a_lone_escape_is_a_key_once_nothing_follows() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.pending
    assert keys.flush() == [Key("esc")]
    assert keys.feed(b"\x1bx") == [Key("esc"), Key("text", "x")]


@given(st.binary(max_size=60))
def test_any_bytes_are_taken(data: bytes) -> None:
    keys = Keys()
    keys.feed(data)
    keys.flush()
