"""Named keys: the bytes coop sends, and what is refused."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.keys import KEYS, encode_keys
from dragoman.hub.errors import InvalidRequest

COOP = {
    "enter": b"\r",
    "return": b"\r",
    "tab": b"\t",
    "escape": b"\x1b",
    "esc": b"\x1b",
    "backspace": b"\x7f",
    "delete": b"\x1b[3~",
    "del": b"\x1b[3~",
    "space": b" ",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "page_up": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "page_down": b"\x1b[6~",
    "insert": b"\x1b[2~",
    "f1": b"\x1bOP",
    "f2": b"\x1bOQ",
    "f3": b"\x1bOR",
    "f4": b"\x1bOS",
    "f5": b"\x1b[15~",
    "f6": b"\x1b[17~",
    "f7": b"\x1b[18~",
    "f8": b"\x1b[19~",
    "f9": b"\x1b[20~",
    "f10": b"\x1b[21~",
    "f11": b"\x1b[23~",
    "f12": b"\x1b[24~",
    "ctrl-a": b"\x01",
    "ctrl-c": b"\x03",
    "ctrl-d": b"\x04",
    "ctrl-z": b"\x1a",
}

ADDED = {
    "ctrl-space": b"\0",
    "ctrl-@": b"\0",
    "ctrl-[": b"\x1b",
    "ctrl-\\": b"\x1c",
    "ctrl-]": b"\x1d",
    "ctrl-^": b"\x1e",
    "ctrl-_": b"\x1f",
    "ctrl-?": b"\x7f",
    "shift-tab": b"\x1b[Z",
    "backtab": b"\x1b[Z",
    "alt-x": b"\x1bx",
    "meta-x": b"\x1bx",
    "alt-1": b"\x1b1",
    "alt-enter": b"\x1b\r",
    "alt-backspace": b"\x1b\x7f",
    "shift-up": b"\x1b[1;2A",
    "alt-left": b"\x1b[1;3D",
    "ctrl-right": b"\x1b[1;5C",
    "ctrl-home": b"\x1b[1;5H",
    "ctrl-delete": b"\x1b[3;5~",
    "shift-pageup": b"\x1b[5;2~",
}


@pytest.mark.parametrize(("name", "code"), (COOP | ADDED).items())
def test_a_key_in_any_case(name: str, code: bytes) -> None:
    assert encode_keys([name]) == encode_keys([name.upper()]) == encode_keys([name.title()]) == code


def test_all_control_letters() -> None:
    assert encode_keys([f"Ctrl-{chr(97 + n)}" for n in range(26)]) == bytes(range(1, 27))


def test_several_keys_are_joined_in_order_and_none_is_nothing() -> None:
    assert encode_keys(["ctrl-c", "Enter", "UP"]) == b"\x03\r\x1b[A"
    assert encode_keys([]) == b""


@pytest.mark.parametrize(
    "name",
    [
        "ctrl-cat",
        "ctrl-",
        "ctrl-1",
        "ctrl",
        "",
        "a",
        "f0",
        "f13",
        "enter ",
        "ctrl--",
        "alt-",
        "alt-ab",
        "ctrl-\u212a",
        "é",
    ],
)
def test_an_unknown_key_is_named_as_it_was_given(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        encode_keys(["enter", name, "bogus"])
    assert str(refused.value) == f"unknown key: {name}"


def test_the_case_of_an_unknown_name_is_kept() -> None:
    with pytest.raises(InvalidRequest, match=r"^unknown key: BadKey$"):
        encode_keys(["BadKey"])


def test_the_table_is_lower_case_and_cannot_be_changed() -> None:
    assert all(name == name.lower() and name.isascii() and code for name, code in KEYS.items())
    with pytest.raises(TypeError):
        KEYS["enter"] = b"\n"  # type: ignore[index]
