"""Takes out of an answer what must not go on: the key, halves of characters, JSON deeper than a log can hold.

The vendors' packages read bytes themselves and hand on whatever a server put into them.
"""

from __future__ import annotations

import msgspec

from dragoman.agents.native.providers.error_answers import DEEPEST, nests_deeper
from dragoman.agents.native.providers.port import PartGrew, StreamEvent
from dragoman.agents.native.providers.secret import Secret
from dragoman.hub.events import Json


class Cleaner:
    """Cleans what comes back for who was sent ``secret``."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    def event(self, event: StreamEvent) -> StreamEvent:
        """The event, itself if nothing was wrong with it."""
        if isinstance(event, PartGrew):
            text = self.text(event.text)
            return event if text is event.text else PartGrew(self.text(event.part), text)
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        changed = {name: clean for name, given in fields.items() if (clean := self.json(given)) is not given}
        return msgspec.structs.replace(event, **changed) if changed else event

    def text(self, text: str) -> str:
        """The text without halves of characters, and without the key."""
        if not text.isascii():
            text = whole_characters(text)
        return str(self._secret.hide(text)) if self._secret.within(text.encode()) else text

    def json(self, value: Json) -> Json:
        """The value, its texts cleaned; None for one that nests too deep."""
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list):
            return value
        return None if nests_deeper(value, DEEPEST) else self._inside(value)

    def _inside(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._inside(entry) for entry in value]
        if isinstance(value, dict):
            return {self.text(name): self._inside(entry) for name, entry in value.items()}
        return value


def whole_characters(text: str) -> str:
    """The text itself, unless it holds halves of characters: they become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
