"""A prompt with what came along, given to a session: over a socket and over HTTP alike (spec §6, §8)."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from dragoman.hub.session import WhenBusy
from dragoman.hub.turns import Receipt
from dragoman.services.uploads import Received, UploadSettings, discard, receive

from .sessions import DIALECT, Joined


class Prompt(msgspec.Struct, frozen=True):
    """What is to be submitted. ``images`` and ``files`` are as on the wire, unread."""

    text: str
    input_id: str | None
    images: Raw
    files: Raw


class Submitted(msgspec.Struct, frozen=True):
    """What became of it. What ``received`` says of a duplicate is gone again."""

    receipt: Receipt
    received: Received


async def submit(joined: Joined, prompt: Prompt, *, when_busy: WhenBusy, uploads: UploadSettings) -> Submitted:
    """Returns once it is durable; nothing that came along stays where it is refused, or a duplicate.

    Raises ``UploadRefused``, ``UploadFailed``, and what the hub refuses.
    """
    session = joined.session
    received = await receive(session, prompt.text, prompt.images, prompt.files, settings=uploads)
    try:
        receipt = await session.submit(
            joined.principal,
            prompt.text,
            via=DIALECT,
            client_message_id=prompt.input_id,
            when_busy=when_busy,
            content=received.content,
            attachments=(*received.files, *received.images),
        )
    except BaseException:
        await discard(session, received)
        raise
    if receipt.duplicate:
        await discard(session, received)
    return Submitted(receipt, received)
