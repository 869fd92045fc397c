"""What a ``Content-Type`` header says, and whether the tools read such a body at all."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TYPE = re.compile(r"\s*([a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+)\s*(?:;|$)", re.ASCII)
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([a-z0-9_.:+-]+)", re.ASCII)
_TEXTS = frozenset(
    [
        *("application/json", "application/xml", "application/javascript", "application/x-javascript"),
        *("application/ecmascript",),
    ]
)
_PAGES = frozenset(["text/html", "application/xhtml+xml"])


@dataclass(frozen=True)
class ContentType:
    """``media``: ``text/html``, lower case, empty where the server said nothing usable. ``charset``: as given."""

    media: str = ""
    charset: str = ""

    @classmethod
    def parse(cls, header: str) -> ContentType:
        """Never raises: what cannot be read is the empty type, which nothing reads."""
        lower = header.lower()
        media = _TYPE.match(lower)
        charset = _CHARSET.search(lower)
        return cls(media[1] if media else "", charset[1] if charset else "")

    @property
    def is_text(self) -> bool:
        """Text, JSON, XML or JavaScript."""
        return self.media.startswith("text/") or self.media in _TEXTS or self.media.endswith(("+json", "+xml"))

    @property
    def is_page(self) -> bool:
        """HTML in either of its spellings."""
        return self.media in _PAGES

    @property
    def is_xml(self) -> bool:
        """One that may open with an XML declaration."""
        return self.media.endswith(("/xml", "+xml"))
