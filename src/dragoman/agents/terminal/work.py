"""How much a few bytes can make the engine do, so that a flood of them can be bounded.

Most sequences cost about what they are long. A few cost what the screen is large, or a number in them says: eight
bytes can repeat a character 65,535 times, and all lines that this pushes out are kept until the chunk is drawn.
"""

from __future__ import annotations

import re

from .modes import switches_screen
from .scanner import Csi, Esc

_HEAVY = frozenset(b"JLMSTbhl")  # final bytes
_COUNTED = re.compile(rb"([0-9]*)[0-9:;]*([JLMSTb])")
_COUNT_RANGE = 1 << 16  # as the engine reads it, and 0 as 1

# Nanoseconds for each cell touched, measured at 80x24 to 1000x200 and rounded up.
_REPEAT = 10
_SCROLL_OUT = 6
_SCROLL_IN = 2
_ERASE = 1
_SWITCH = 1
_ALIGN = 6
_RESET = 8


def work(token: Csi | Esc, cols: int, rows: int) -> int:
    """About how many nanoseconds a sequence takes on a screen of that size; 0 if it is never heavy."""
    if isinstance(token, Esc):
        return cols * rows * (_RESET if token.body == b"c" else _ALIGN)
    return _control_work(token.body, cols, rows) if token.body[-1] in _HEAVY else 0


def _control_work(body: bytes, cols: int, rows: int) -> int:
    if body[-1] in b"hl":
        return cols * rows * _SWITCH if switches_screen(body) else 0
    counted = _COUNTED.fullmatch(body)
    if counted is None:
        return 0
    count = int(counted[1] or 0) % _COUNT_RANGE or 1
    match counted[2]:
        case b"b":
            return count * _REPEAT
        case b"J":
            return cols * rows * _ERASE
        case b"S" | b"M":
            return min(count, rows) * cols * _SCROLL_OUT
    return min(count, rows) * cols * _SCROLL_IN
