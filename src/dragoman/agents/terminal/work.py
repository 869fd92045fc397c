"""How much a few bytes can make the engine do, so that a flood of them can be bounded.

Most sequences cost about what they are long. A few cost what the screen is large, or a number in them says: eight
bytes can repeat a character 65,535 times, and all lines that this pushes out are kept until the chunk is drawn.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .modes import switches_screen

HEAVY = frozenset(b"JLMSTbhl")
"""Final bytes of the control sequences that may be heavy."""

_COUNTED = re.compile(rb"([0-9]*)[0-9:;]*([JLMSTb])")
_COUNT_RANGE = 1 << 16  # as the engine reads it

# Nanoseconds for each cell touched, measured at 80x24 to 1000x200 and rounded up.
_REPEAT = 10
_SCROLL_OUT = 6
_SCROLL_IN = 2
_ERASE = 1
_SWITCH = 1
_ALIGN = 6
_RESET = 8


class Size(NamedTuple):
    """Columns and rows of the screen that is drawn on."""

    cols: int
    rows: int


def control_work(body: bytes, size: Size) -> int:
    """About how many nanoseconds a control sequence (without its ``ESC [``) takes; 0 for one that is never heavy."""
    if body[-1] not in HEAVY:
        return 0
    cells = size.cols * size.rows
    if body[-1] in b"hl":
        return cells * _SWITCH if switches_screen(body) else 0
    counted = _COUNTED.fullmatch(body)
    if counted is None:
        return 0
    # The engine takes no count beyond 16 bits, and 0 as 1.
    count = int(counted[1] or 0) % _COUNT_RANGE or 1
    match counted[2]:
        case b"b":
            return count * _REPEAT
        case b"J":
            return cells * _ERASE
        case b"S" | b"M":
            return min(count, size.rows) * size.cols * _SCROLL_OUT
    return min(count, size.rows) * size.cols * _SCROLL_IN


def escape_work(body: bytes, size: Size) -> int:
    """The same for an escape sequence (without its ``ESC``): a full reset or an alignment pattern."""
    return size.cols * size.rows * (_RESET if body == b"c" else _ALIGN)
