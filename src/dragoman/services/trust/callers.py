"""Who is on the other end, and what may be answered to them: the types that trust speaks in."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Signed(msgspec.Struct, frozen=True):
    """The three fields that sign a frame, unread, as JSON text; ``Raw()`` for one that is not there.

    ``sender`` is the wire's *from*.
    """

    payload: msgspec.Raw = msgspec.Raw()
    sender: msgspec.Raw = msgspec.Raw()
    signature: msgspec.Raw = msgspec.Raw()


class Caller(msgspec.Struct, frozen=True):
    """Whoever sent a frame. ``identity`` is the address whose key signed it; None where nobody signed."""

    identity: str | None
    loopback: bool
    token: bool
    """Whether the server's own token was shown."""


class Refused(Exception):
    """Not let in, or not done. ``str()`` is the text for the wire."""


class Onboarding(msgspec.Struct, frozen=True):
    """How a stranger may become a contact.

    ``methods`` are ``invite_code`` and ``payment``, only those that can succeed; with ``payment`` go the amount and the
    address to pay to. ``reason`` is what a client is told that has no gate to go through (HTTP): *forbidden: ...*.
    """

    methods: tuple[str, ...]
    payment_amount: float | int | None = None
    payment_address: str | None = None
    reason: str = "forbidden: Onboard required"


class Onboarded(msgspec.Struct, frozen=True):
    """A stranger is known now, at this level."""

    identity: str
    level: str
    message: str


class AdminOutcome(msgspec.Struct, frozen=True):
    """What came of an administrator's request; None for a field that the answer does not have."""

    action: str
    client_id: str | None = None
    success: bool | None = None
    message: str | None = None
    level: str | None = None
    error: str | None = None


class PaymentVerifier(Protocol):
    """Knows of payments. What a caller claims is no payment: only what this says admits anybody."""

    async def paid(self, identity: str, amount: float) -> bool:
        """Whether ``identity`` has lately paid the host at least ``amount``. A failure or a late answer is a no."""
