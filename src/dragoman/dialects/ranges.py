"""The part of a body that a ``Range`` header asks for (RFC 9110, section 14): a pure function of header and size."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNIT = re.compile(r"bytes=(.*)", re.IGNORECASE | re.DOTALL)
# No body has more digits than that: a header with longer numbers is one that may be ignored as any other.
_SPEC = re.compile(r"(?P<first>[0-9]{1,19})?-(?P<last>[0-9]{1,19})?")


@dataclass(frozen=True, slots=True)
class Whole:
    """Answer all of it (200): nothing was asked, or what was asked is none of our business."""


@dataclass(frozen=True, slots=True)
class Part:
    """Answer the bytes from ``start`` up to, not including, ``stop`` (206). It is never empty."""

    start: int
    stop: int

    def content_range(self, size: int) -> str:
        """The ``Content-Range`` that goes with it, of a body of ``size`` bytes."""
        return f"bytes {self.start}-{self.stop - 1}/{size}"


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """Nothing that was asked for is there (416)."""

    def content_range(self, size: int) -> str:
        """The ``Content-Range`` that goes with it: it tells the size, so that the client can ask better."""
        return f"bytes */{size}"


Asked = Whole | Part | Unsatisfiable
"""What a ``Range`` header comes to."""


def asked_range(header: str | None, size: int) -> Asked:
    """What to answer of a body of ``size`` bytes. Never raises.

    A malformed header, another unit and more than one range are answered whole: RFC 9110 lets a server ignore a header
    that it does not understand, and many small ranges are how a client makes a server work for nothing.
    """
    unit = _UNIT.fullmatch(header) if header is not None else None
    if unit is None:
        return Whole()
    # A list may have empty elements (RFC 9110, section 5.6.1.2).
    specs = [spec for spec in (element.strip(" \t") for element in unit[1].split(",")) if spec]
    found = _SPEC.fullmatch(specs[0]) if len(specs) == 1 else None
    if found is None:
        return Whole()
    first, last = found["first"], found["last"]
    if first is not None:
        return _from(int(first), None if last is None else int(last), size)
    return Whole() if last is None else _suffix(int(last), size)


def _from(first: int, last: int | None, size: int) -> Asked:
    if last is not None and last < first:
        return Whole()
    if first >= size:
        return Unsatisfiable()
    return Part(first, size if last is None else min(last + 1, size))


def _suffix(length: int, size: int) -> Asked:
    if not length:
        return Unsatisfiable()
    # Of nothing, the last bytes are there, and are nothing: no ``Content-Range`` can say so.
    return Part(max(0, size - length), size) if size else Whole()
