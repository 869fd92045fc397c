"""Frames that several links need: made once, the same bytes for all of them."""

from __future__ import annotations

from dragoman.dialects.frames import text_frame
from dragoman.hub.ports import ScreenSnapshot, Tape

from . import projection
from .messages import encode, encode_output

_RECENT_OUTPUTS = 8
"""Output frames kept: links that keep up all ask for the same one, slower ones for one of a few."""


class SharedFrames:
    """The newest frames of one session."""

    def __init__(self) -> None:
        self._outputs: dict[tuple[int, int], tuple[int, bytes]] = {}
        self._screen: tuple[ScreenSnapshot, bytes] | None = None

    def output(self, tape: Tape, offset: int, limit: int) -> tuple[int, bytes]:
        """The frame with the bytes from ``offset`` on, and the offset after them."""
        key = (offset, tape.end)
        known = self._outputs.get(key)
        if known is not None:
            return known
        start, data = tape.read(offset, limit)
        made = (start + len(data), text_frame(encode_output(start, data)))
        if len(self._outputs) >= _RECENT_OUTPUTS:
            self._outputs.pop(next(iter(self._outputs)))
        self._outputs[key] = made
        return made

    def screen(self, picture: ScreenSnapshot) -> bytes:
        """The frame with this picture."""
        if self._screen is None or self._screen[0] is not picture:
            self._screen = (picture, text_frame(encode(projection.screen(picture))))
        return self._screen[1]
