"""Pictures that came with prompts and results of tools, as a model is shown them.

The conversation is folded from the log, which names pictures by their artifacts; here they become what they hold, once
a step. One that cannot be shown is said in words, so that a model knows what it does not see.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Iterable, Sequence

import msgspec

from dragoman.hub.artifacts import ArtifactGone, ArtifactProblem, is_artifact
from dragoman.hub.errors import Unsupported
from dragoman.hub.events import PromptSubmitted
from dragoman.hub.log import SessionLog

from .providers.conversation import AssistantMessage, Image, Message, Picture, ToolMessage, UserMessage
from .providers.port import ProviderFailed
from .settings import ContextLimits

SHOWABLE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What every provider of models with eyes takes."""

_PIECE = 3 * 64 * 1024

log = logging.getLogger("dragoman.native")


class Gallery:
    """The pictures of one turn. What one step has read is there for the next."""

    def __init__(self, session: SessionLog, limits: ContextLimits) -> None:
        self._session = session
        self._limits = limits
        self._read: dict[str, Image | str] = {}
        self._closed = False
        self.showing = False
        """Whether the last conversation had a picture to show."""

    def close(self) -> None:
        """Show none from now on: the model takes none."""
        self._closed = True
        self._read.clear()

    async def shown(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The same conversation with its pictures: the newest that the limits hold, and words for all others."""
        self.showing = False
        if not any(map(_pictures, messages)):
            return tuple(messages)
        places = self._placed(messages)
        self._read = {name: found for name, found in self._read.items() if name in places}
        return tuple([await self._message(at, message, places) for at, message in enumerate(messages)])

    def _placed(self, messages: Sequence[Message]) -> dict[str, int]:
        """The artifacts that are shown, each with the newest message that has it."""
        places: dict[str, int] = {}
        room = 0 if self._closed else self._limits.picture_bytes
        for at in range(len(messages) - 1, -1, -1):
            for picture in reversed(_pictures(messages[at])):
                if picture.artifact in places:
                    continue
                room -= picture.size
                if room < 0 or len(places) >= self._limits.pictures:
                    return places
                places[picture.artifact] = at
        return places

    async def _message(self, at: int, message: Message, places: dict[str, int]) -> Message:
        pictures = _pictures(message)
        if not pictures:
            return message
        assert not isinstance(message, AssistantMessage)
        found = [await self._found(picture, places.get(picture.artifact) == at) for picture in pictures]
        images = tuple(each for each in found if isinstance(each, Image))
        self.showing = self.showing or bool(images)
        words = [each for each in found if isinstance(each, str)]
        return msgspec.structs.replace(
            message, text=with_words(message.text, words), images=message.images + images, pictures=()
        )

    async def _found(self, picture: Picture, shown: bool) -> Image | str:
        """The picture, or what is said in its place."""
        if self._closed:
            return f"The picture {picture.name} is here, but you cannot be shown pictures."
        if not shown:
            return f"The picture {picture.name} is here; it is not shown again."
        known = self._read.get(picture.artifact)
        if known is None:
            known = self._read[picture.artifact] = await self._fetched(picture)
        return known if isinstance(known, str) else msgspec.structs.replace(known, name=picture.name)

    async def _fetched(self, picture: Picture) -> Image | str:
        gone = f"The picture {picture.name} was here; it is gone."
        if self._session.artifacts is None:
            return gone
        try:
            data = await self._session.artifacts.read(self._session.id, picture.artifact)
        except ArtifactGone:
            return gone
        except ArtifactProblem as problem:
            log.warning("session %s: picture %s: %s", self._session.id, picture.name, problem)
            return f"The picture {picture.name} is here, but cannot be read now."
        return Image(picture.media_type, data, picture.name, await asyncio.to_thread(_encoded, data))


def check_pictures(prompt: PromptSubmitted, session: SessionLog) -> None:
    """Raise ``Unsupported`` for attachments that no model could be shown, or that lie nowhere."""
    for it in prompt.attachments:
        if it.kind == "file":
            continue
        if session.artifacts is None or not is_artifact(it.artifact):
            raise Unsupported(f"{it.name}: this server keeps no pictures: send text")
        if it.media_type not in SHOWABLE:
            raise Unsupported(f"{it.name}: models are shown {', '.join(sorted(SHOWABLE))}")


def refuses_pictures(failure: ProviderFailed) -> bool:
    """Whether a call may have failed for its pictures: servers of models without eyes say so in many ways."""
    return failure.cause == "invalid_request" or (failure.cause == "failed" and "image" in str(failure).lower())


def with_named_pictures(message: UserMessage | ToolMessage, text: str | None = None) -> str:
    """What a person said or a tool gave, for a text that holds no pictures. ``text`` stands for the message's own."""
    named = [*(it.name for it in message.images), *(it.name for it in message.pictures)]
    return with_words(
        message.text if text is None else text,
        [f"The picture {name or 'without a name'} was shown here." for name in named],
    )


def with_words(text: str, words: Iterable[str]) -> str:
    """A text, and below it what stands for things that are not shown."""
    return "\n\n".join([*([text] if text else []), *(f"[{word}]" for word in words)])


def _encoded(data: bytes) -> str:
    """In base64, piece by piece: each holds the interpreter."""
    return "".join(base64.b64encode(data[start : start + _PIECE]).decode() for start in range(0, len(data), _PIECE))


def _pictures(message: Message) -> tuple[Picture, ...]:
    return () if isinstance(message, AssistantMessage) else message.pictures
