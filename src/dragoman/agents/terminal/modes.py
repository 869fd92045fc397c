"""The modes a program has set, as far as anyone asks: what the terminal model does not tell."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

ALT_SCREEN = frozenset((47, 1047, 1049))
MOUSE_TRACKING = frozenset((9, 1000, 1001, 1002, 1003))
MOUSE_ENCODING = frozenset((1005, 1006, 1015, 1016))
CURSOR_KEYS, ORIGIN, AUTO_WRAP, CURSOR_VISIBLE = 1, 6, 7, 25
FOCUS, BRACKETED_PASTE, SYNCHRONIZED = 1004, 2004, 2026

DEC_MODES = (
    ALT_SCREEN
    | MOUSE_TRACKING
    | MOUSE_ENCODING
    | {CURSOR_KEYS, ORIGIN, AUTO_WRAP, CURSOR_VISIBLE, FOCUS, BRACKETED_PASTE, SYNCHRONIZED, 2031}
)
"""The private modes that are kept, and so can be reported (DECRQM)."""
ANSI_MODES = frozenset((4, 20))

_INITIAL = frozenset((AUTO_WRAP, CURSOR_VISIBLE))
# Of these only one is on at a time, and resetting any of them turns the other off.
_EXCLUSIVE = {mode: group for group in (ALT_SCREEN, MOUSE_TRACKING, MOUSE_ENCODING) for mode in group}

_SET = re.compile(rb"(\??)([0-9:;]*)([hl])")
_KITTY = re.compile(rb"([<=>])([0-9]*)(?:;([0-9]*))?u")

# Both as the model reads them, so that the two never disagree about the alternate screen.
_MAX_PARAMETERS = 32
_PARAMETER_RANGE = 1 << 16

_MAX_KITTY_STACK = 16
_KITTY_FLAGS = 0b11111


class Modes:
    """Follows mode settings and resets in stream order. Costs nothing for other sequences."""

    _dec: set[int]
    _ansi: set[int]
    _kitty: dict[bool, list[int]]  # the keyboard protocol keeps one stack of flags per screen

    def __init__(self) -> None:
        self.reset()

    @property
    def alt_screen(self) -> bool:
        """Whether the alternate screen is shown."""
        return not self._dec.isdisjoint(ALT_SCREEN)

    @property
    def bracketed_paste(self) -> bool:
        """Whether pastes are to be marked."""
        return BRACKETED_PASTE in self._dec

    @property
    def cursor_visible(self) -> bool:
        """Whether the cursor is shown."""
        return CURSOR_VISIBLE in self._dec

    @property
    def application_cursor_keys(self) -> bool:
        """Whether arrow keys are to be sent as ``ESC O A`` instead of ``ESC [ A``."""
        return CURSOR_KEYS in self._dec

    @property
    def synchronized(self) -> bool:
        """Whether a synchronized update is open."""
        return SYNCHRONIZED in self._dec

    @property
    def focus_reporting(self) -> bool:
        """Whether the program wants to be told of focus changes."""
        return FOCUS in self._dec

    @property
    def mouse(self) -> int | None:
        """The mouse tracking mode that is on: 9, 1000, 1001, 1002, 1003 or None."""
        return next(iter(self._dec & MOUSE_TRACKING), None)

    @property
    def mouse_encoding(self) -> int | None:
        """The mouse report encoding that is on: 1005, 1006, 1015, 1016, or None for the oldest."""
        return next(iter(self._dec & MOUSE_ENCODING), None)

    @property
    def kitty_flags(self) -> int:
        """The kitty keyboard protocol's flags on the screen that is shown; 0 is the legacy encoding."""
        return self._kitty[self.alt_screen][-1]

    def report(self, mode: int, *, private: bool) -> int:
        """DECRQM's answer for one mode: 0 not known, 1 set, 2 reset."""
        known, on = (DEC_MODES, self._dec) if private else (ANSI_MODES, self._ansi)
        if mode not in known:
            return 0
        return 1 if mode in on else 2

    def apply(self, body: bytes) -> None:
        """Follow one control sequence, given without its ``ESC [``."""
        if (setting := _read_setting(body)) is not None:
            self._set(setting)
        elif body == b"!p":
            self._soft_reset()
        elif (keyboard := _KITTY.fullmatch(body)) is not None:
            self._keyboard(keyboard[1], int(keyboard[2] or 0), int(keyboard[3] or 0))

    def reset(self) -> None:
        """A full reset (``ESC c``)."""
        self._dec = set(_INITIAL)
        self._ansi = set()
        self._kitty = {False: [0], True: [0]}

    def end_update(self) -> None:
        """Close a synchronized update that the program did not end."""
        self._dec.discard(SYNCHRONIZED)

    def restore(self) -> str:
        """What a fresh model must be fed to be in these modes."""
        parts = ["\x1b[?1049h"] if self.alt_screen else []
        if AUTO_WRAP not in self._dec:
            parts.append("\x1b[?7l")
        parts += [f"\x1b[{mode}h" for mode in sorted(self._ansi)]
        if ORIGIN in self._dec:
            parts.append("\x1b[?6h")
        return "".join(parts)

    def _set(self, setting: _Setting) -> None:
        known, current = (DEC_MODES, self._dec) if setting.private else (ANSI_MODES, self._ansi)
        for mode in setting.modes:
            if mode not in known:
                continue
            if mode in _EXCLUSIVE:
                current -= _EXCLUSIVE[mode]
            if setting.on:
                current.add(mode)
            else:
                current.discard(mode)

    def _soft_reset(self) -> None:
        self._dec -= {CURSOR_KEYS, ORIGIN}
        self._dec |= _INITIAL
        self._ansi.discard(4)

    def _keyboard(self, action: bytes, first: int, second: int) -> None:
        stack = self._kitty[self.alt_screen]
        flags = first & _KITTY_FLAGS
        if action == b">":
            stack.append(flags)
            del stack[1 : len(stack) - _MAX_KITTY_STACK]
        elif action == b"<":
            del stack[max(1, len(stack) - (first or 1)) :]
            if len(stack) == 1:
                stack[0] = 0
        elif second == 2:
            stack[-1] |= flags
        elif second == 3:
            stack[-1] &= ~flags
        else:
            stack[-1] = flags


def update_effect(body: bytes) -> bool | None:
    """Whether a control sequence begins (True) or ends (False) a synchronized update; None if neither."""
    setting = _read_setting(body)
    if setting is None or not setting.private or SYNCHRONIZED not in setting.modes:
        return None
    return setting.on


def switches_screen(body: bytes) -> bool:
    """Whether a control sequence shows or leaves the alternate screen."""
    setting = _read_setting(body)
    return setting is not None and setting.private and not ALT_SCREEN.isdisjoint(setting.modes)


class _Setting(NamedTuple):
    private: bool
    modes: list[int]
    on: bool


@lru_cache(maxsize=256)
def _read_setting(body: bytes) -> _Setting | None:
    """Programs send the same few settings with every frame."""
    setting = _SET.fullmatch(body)
    if setting is None:
        return None
    fields = setting[2].split(b";")[:_MAX_PARAMETERS]
    modes = [int(field.partition(b":")[0] or 0) % _PARAMETER_RANGE for field in fields]
    return _Setting(setting[1] == b"?", modes, setting[3] == b"h")
