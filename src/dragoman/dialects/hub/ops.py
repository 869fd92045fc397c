"""What every message of a client is made of."""

from __future__ import annotations

from typing import Annotated

import msgspec

from .bodies import Name

RequestId = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | Annotated[str, msgspec.Meta(max_length=200)] | None
"""What a client calls its request; comes back with the answer."""


class Op(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", forbid_unknown_fields=True):
    """A client message that shares nothing with an HTTP route."""

    id: RequestId = None


class OnSession(Op, frozen=True, kw_only=True):
    """Base of the messages that name a session."""

    session: Name
