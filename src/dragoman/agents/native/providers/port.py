"""The provider port: one model call as a stream of our own events, whoever the provider is.

The order that an adapter promises: a part is opened, grows, is closed, and nothing grows outside an open part; parts
may overlap. A tool call is a ``tool_input`` part whose id is the call's, closed, and then ``CallMade``. ``Finished``
comes once and last; ``Spent`` before it, once. A stream that ends without ``Finished`` raised ``ProviderFailed``:
a provider's own ``failed`` status does so too, however politely it was said.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal, Protocol

import msgspec

from dragoman.hub.events import Json
from dragoman.hub.events.stream import PartKind

from .conversation import ModelRequest

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "other"]
"""Why the model stopped, in one vocabulary for all; ``Finished.raw_reason`` has the provider's own word."""

Cause = Literal["unauthorized", "rate_limited", "overloaded", "invalid_request", "too_long", "network", "failed"]
"""What kind of failure it was. ``too_long``: the conversation does not fit the model. ``failed``: anything else."""


class PartOpened(msgspec.Struct, frozen=True, gc=False):
    """A part begins. ``part`` is unique within this stream; ``tool`` is given for ``tool_input``.

    ``by_provider`` marks the input of a tool that the provider itself runs. ``metadata`` is for whoever watches: no
    later call gives it back. ``item`` in it is the provider's own id of what the part belongs to.
    """

    part: str
    kind: PartKind
    tool: str | None = None
    by_provider: bool = False
    metadata: Json = None


class PartGrew(msgspec.Struct, frozen=True, gc=False):
    """More text of an open part, never empty."""

    part: str
    text: str


class PartClosed(msgspec.Struct, frozen=True, gc=False):
    """A part is complete. ``metadata`` is what the provider wants back with it in later calls."""

    part: str
    metadata: Json = None


class CallMade(msgspec.Struct, frozen=True, gc=False):
    """A call of one of our tools is complete. ``arguments`` is the JSON text as the model wrote it, valid or not; what
    the provider gave as an object is encoded again. No arguments at all are ``{}``."""

    call: str
    tool: str
    arguments: str
    metadata: Json = None


class ProviderCallEnded(msgspec.Struct, frozen=True, gc=False):
    """A tool that the provider ran itself has ended. ``call`` is its part's id."""

    call: str
    tool: str
    input: Json = None
    output: Json = None
    failed: bool = False


class Cited(msgspec.Struct, frozen=True, gc=False):
    """The model named a source: at least ``url``, mostly ``title``."""

    source: dict[str, Json]


class Spent(msgspec.Struct, frozen=True, gc=False):
    """Tokens of this model call, by the provider's own count; None where it says nothing.

    ``input_tokens`` includes those read from a cache and those written to it, ``output_tokens`` includes reasoning.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class Finished(msgspec.Struct, frozen=True, gc=False):
    """The model call ended well. ``response`` is the provider's description of it: ``id``, ``model``…

    ``metadata`` is what is particular to this provider, for whoever watches: ``response_id``, ``service_tier``.
    """

    reason: FinishReason
    raw_reason: str | None = None
    response: Json = None
    metadata: Json = None


class RawReceived(msgspec.Struct, frozen=True, gc=False):
    """One event of the provider as it came, before what it became. Only where ``raw`` was asked for."""

    raw: Json
    sdk_type: str | None = None


StreamEvent = PartGrew | PartOpened | PartClosed | CallMade | ProviderCallEnded | Cited | Spent | Finished | RawReceived


class ProviderFailed(Exception):
    """A model call failed. ``str()`` is safe to show: the provider's own message, with no key in it.

    ``retryable`` says that the same call may go well a moment later, ``retry_after`` when (seconds), if the provider
    said so. ``status`` is the HTTP status, ``detail`` the provider's own error object.
    """

    def __init__(
        self,
        message: str,
        *,
        cause: Cause = "failed",
        retryable: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
        detail: Json = None,
    ) -> None:
        super().__init__(message)
        self.cause: Cause = cause
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        self.detail = detail


class Provider(Protocol):
    """One way to reach models. It keeps connections, no conversation; many calls may run at once."""

    name: str
    """The provider's id in the catalogue: ``openai``, ``anthropic``…"""

    searches: bool
    """Whether ``ModelRequest.web_search`` gives the model a search tool that the provider runs."""

    def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        """One model call. Closing the generator, or cancelling who reads it, ends the call at the provider at once.

        Raises ``ProviderFailed``. Never retries: that is the turn loop's.
        """

    async def close(self) -> None:
        """Give up the connections."""
