"""tmux's control mode without I/O: what a control client reads, taken apart, and what it draws first.

Output of a pane comes as it was written (octal escapes undone), in order with the replies to our own commands: a
picture taken by a command shows exactly the output that came before its reply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

START = b"\x1bP1000p"
"""What a control client says first: from here on its terminal is raw, so that commands may be sent."""

_OCTAL = re.compile(rb"\\([0-7]{3})")
_BYTES = {b"%03o" % number: bytes((number,)) for number in range(256)}

_OURS = b"1"
"""Flag of a reply to a command that this client sent; those of hooks have another."""

MODES = (
    ("keypad_cursor_flag", b"\x1b[?1h"),
    ("keypad_flag", b"\x1b="),
    ("insert_flag", b"\x1b[4h"),
    ("mouse_standard_flag", b"\x1b[?1000h"),
    ("mouse_button_flag", b"\x1b[?1002h"),
    ("mouse_all_flag", b"\x1b[?1003h"),
    ("mouse_utf8_flag", b"\x1b[?1005h"),
    ("mouse_sgr_flag", b"\x1b[?1006h"),
    ("bracket_paste_flag", b"\x1b[?2004h"),
)
"""What the program has switched on: the variable of tmux, and the sequence."""

FIELDS = (
    "pane_id",
    "pane_dead",
    "pane_pid",
    "pane_width",
    "pane_height",
    "window_width",
    "window_height",
    "cursor_x",
    "cursor_y",
    "cursor_flag",
    "alternate_on",
    "alternate_saved_x",
    "alternate_saved_y",
    "scroll_region_upper",
    "scroll_region_lower",
    "origin_flag",
    "wrap_flag",
    *(name for name, _ in MODES),
)

FORMAT = ",".join(f"#{{{name}}}" for name in FIELDS)
"""What is asked of a pane. A variable that this tmux does not have is empty."""

FORMAT_OF_ALL = "#{W:#{P:#{pane_id} #{pane_dead} #{pane_pid} #{pane_width} #{pane_height} }}"
"""What tmux is to tell changes of, for all panes of a session: of a single one it does not tell that it has died."""

Lines = Sequence[bytes]
Reply = Callable[[Lines | None], None]
"""Gets the lines of a command's reply; None when it failed, or when one before it on the same line did."""


def fields_of(line: bytes) -> Mapping[str, str]:
    """The answer to ``FORMAT``, by name."""
    return dict(zip(FIELDS, line.decode(errors="replace").split(","), strict=False))


class ControlReader:
    """Takes the stream of a control client apart. Calls back in stream order, from within ``feed``."""

    def __init__(
        self,
        *,
        started: Callable[[], None],
        output: Callable[[bytes, bytes], None],
        notified: Callable[[bytes, bytes], None],
    ) -> None:
        """``output(pane, data)``; ``notified(name, rest)`` for every other notification, its name without the ``%``."""
        self._started = started
        self._output = output
        self._notified = notified
        self._ready = False
        self._partial = bytearray()
        self._expected: list[list[Reply]] = []
        self._block: bytes | None = None
        self._lines: list[bytes] = []

    def expect(self, *replies: Reply) -> None:
        """A line with so many commands was sent."""
        self._expected.append(list(replies))

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        self._partial += data
        if b"\n" not in data:
            return
        *lines, rest = self._partial.split(b"\n")
        self._partial = rest
        for line in lines:
            self._take(bytes(line.rstrip(b"\r")))

    def _take(self, line: bytes) -> None:
        if not self._ready and line.startswith(START):
            self._ready = True
            line = line[len(START) :]
            self._started()
        name, _, rest = line.partition(b" ")
        if self._block is not None:
            if rest == self._block and name in (b"%end", b"%error"):
                self._close(failed=name == b"%error")
            else:
                self._lines.append(line)
        elif name == b"%output":
            pane, _, text = rest.partition(b" ")
            self._output(pane, _OCTAL.sub(lambda match: _BYTES.get(match[1], match[0]), text))
        elif name == b"%begin":
            self._block = rest
        elif name.startswith(b"%"):
            self._notified(name[1:], rest)

    def _close(self, *, failed: bool) -> None:
        block, self._block = self._block or b"", None
        lines, self._lines = self._lines, []
        if not block.endswith(b" " + _OURS) or not self._expected:
            return
        line = self._expected[0]
        if failed:  # tmux forgets the commands behind it
            self._expected.pop(0)
            for reply in line:
                reply(None)
            return
        reply = line.pop(0)
        if not line:
            self._expected.pop(0)
        reply(lines)


def picture(pane: Mapping[str, str], lines: Lines, other: Lines, pending: bytes, *, pasting: bool) -> bytes:
    """What draws a pane as it is on an empty terminal of its size, with the modes that its program has set.

    ``other`` is the screen behind an alternate one. ``pending`` is the beginning of a sequence that the program has
    not finished. ``pasting`` is what to take for the paste mode where tmux does not tell it.
    """
    drawn = bytearray()
    if pane["alternate_on"] == "1":
        drawn += _draw(other) + _move(pane["alternate_saved_x"], pane["alternate_saved_y"]) + b"\x1b[?1049h"
    drawn += _draw(lines)
    upper, lower = pane["scroll_region_upper"], pane["scroll_region_lower"]
    if (upper, lower) != ("0", str(int(pane["pane_height"]) - 1)):
        drawn += b"\x1b[%d;%dr" % (int(upper) + 1, int(lower) + 1)
    drawn += _move(pane["cursor_x"], pane["cursor_y"])
    paste = pane.get("bracket_paste_flag") or ("1" if pasting else "0")
    for name, sequence in MODES:
        if (paste if name == "bracket_paste_flag" else pane[name]) == "1":
            drawn += sequence
    if pane["cursor_flag"] == "0":
        drawn += b"\x1b[?25l"
    if pane["wrap_flag"] == "0":
        drawn += b"\x1b[?7l"
    if pane["origin_flag"] == "1":  # setting it moves the cursor, which then counts from the region's top
        drawn += b"\x1b[?6h" + _move(pane["cursor_x"], str(int(pane["cursor_y"]) - int(upper)))
    return bytes(drawn + _OCTAL.sub(lambda match: _BYTES.get(match[1], match[0]), pending))


def _draw(lines: Lines) -> bytes:
    return b"\x1b[m\x1b[H\x1b[2J" + b"\r\n".join(lines) + b"\x1b[m"


def _move(x: str, y: str) -> bytes:
    """To a place counted from 0. Behind the last column (a wrap is due) it stays on the last one."""
    return b"\x1b[%d;%dH" % (int(y) + 1, int(x) + 1)
