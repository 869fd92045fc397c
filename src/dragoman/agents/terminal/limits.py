"""Named limits of the terminal model: sizes, strings, replies, and how long an update may be held back."""

from __future__ import annotations

from dragoman.hub.errors import InvalidSize

MAX_COLS = 1000
MAX_ROWS = 500
MAX_CELLS = 200_000
"""Largest ``cols * rows``. A failed allocation inside the model would abort the process, so this is checked before."""

MODEL_MIN_COLS = 10
MODEL_MIN_ROWS = 5
"""The model itself is never smaller (narrow grids make it panic); a smaller screen is a crop of it."""

DEFAULT_SCROLLBACK = 1000
"""Lines kept above the screen, for reflow on resize. The engine's own default is no limit at all."""

SYNC_LIMIT = 1.0
"""Seconds after which a synchronized update is shown although the program has not ended it."""

CAPTURE_INTERVAL = 0.025
"""Seconds between two captures of the last complete picture: bounds what a flood of updates costs."""

MAX_CONTROL_STRING = 64 * 1024
"""Bytes kept of one OSC string. A longer one is still skipped to its end, but not read."""

MAX_CONTROL_SEQUENCE = 1024
"""Bytes kept of one CSI sequence. A longer one is skipped to its end, but not read."""

MAX_REPLIES_PER_FEED = 512
"""Queries answered in one chunk. Above all palette queries of a program that asks for 256 colours."""

MAX_WORK_PER_FEED = 10_000_000
"""Estimated nanoseconds spent on sequences that cost much more than they are long; beyond it they are not drawn."""

MAX_CELLS_PER_CALL = 1_000_000
"""Cells that one call of the engine can push out: it keeps them all until it returns, at about 24 bytes each."""

MAX_TITLE = 1024
"""Characters kept of a window title."""

MAX_NOTE = 4096
"""Characters kept of a directory, a notification or a program status."""


def check_size(cols: int, rows: int) -> None:
    """Raise ``InvalidSize`` if a terminal of ``cols`` x ``rows`` cells cannot be served."""
    if cols < 1 or rows < 1:
        raise InvalidSize("cols and rows must be positive")
    if cols > MAX_COLS:
        raise InvalidSize(f"cols must be at most {MAX_COLS}")
    if rows > MAX_ROWS:
        raise InvalidSize(f"rows must be at most {MAX_ROWS}")
    if cols * rows > MAX_CELLS:
        raise InvalidSize(f"cols x rows must be at most {MAX_CELLS} cells")
