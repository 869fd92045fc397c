"""The trust gate of a link: who its client is, and whether they are let in, still (design §7; spec §4, §5)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman.services.trust import Caller, Onboarding, Refused, Signed

from . import client_messages as asked
from . import messages as wire

if TYPE_CHECKING:
    from .dialect import OnionDialect
    from .link import OnionLink


class Arrival(msgspec.Struct, frozen=True):
    """A CONNECT, and who sent it."""

    caller: Caller
    message: asked.Connect


class Gate:
    """See the module. ``caller`` is who was let in."""

    def __init__(self, link: OnionLink, dialect: OnionDialect) -> None:
        self.caller: Caller | None = None
        self._link = link
        self._dialect = dialect
        self._waiting: Arrival | None = None
        """A CONNECT that waits until its sender is known."""

    async def connect(self, message: asked.Connect) -> Arrival | None:
        """Whether its sender may come in; else it waits here, and they hear what is wanted. Raises ``Refused``."""
        trust = self._dialect.trust
        caller = trust.verify(message.signed, loopback=self._link.loopback, token=self._link.token, kind="CONNECT")
        if caller.identity is not None:
            trust.check_replay(caller, _text(message.signed.signature), self._link)
        onboarding = await trust.admit(caller, message.signed.payload, peer=self._link.peer)
        if onboarding is not None:
            self._waiting = Arrival(caller, message)
            self._link.say(_required(caller, onboarding))
            return None
        self._waiting = None
        return Arrival(caller, message)

    async def onboard(self, message: asked.OnboardSubmit) -> Arrival | None:
        """Who pays or has a code is known from now on, and the CONNECT that waited goes on. Raises ``Refused``."""
        trust, waiting = self._dialect.trust, self._waiting
        onboarded = await trust.onboard(
            message.signed,
            expected=waiting.caller.identity if waiting is not None else None,
            loopback=self._link.loopback,
            peer=self._link.peer,
            socket=self._link,
        )
        self._link.say(
            wire.OnboardSuccess(identity=onboarded.identity, level=onboarded.level, message=onboarded.message)
        )
        if waiting is None:
            return None
        caller = msgspec.structs.replace(waiting.caller, identity=onboarded.identity)
        if await trust.admit(caller, Raw(b"{}")) is not None:
            return None
        self._waiting = None
        return Arrival(caller, waiting.message)

    def enter(self, caller: Caller) -> None:
        """They are let in, and are shown a session."""
        self.caller = caller

    def recheck(self) -> bool:
        """Whether whoever was let in still is: the lists may have changed. Who is not is shown nothing more."""
        try:
            self._check_standing()
        except Refused as problem:
            self._dialect.console.refused("message", str(problem))
            self.caller = None
            self._link.dismiss(wire.Error(message=str(problem)))
            return False
        return True

    def _check_standing(self) -> None:
        """Whether whoever was let in still is, and may do what they could: that can change (design §7).

        Raises ``Refused``.
        """
        joined = self._link.joined
        if self.caller is None or joined is None:
            return
        self._dialect.trust.recheck(self.caller)
        joined.principal = self._dialect.sessions.principal(self.caller, joined)
        if self._link.shown is not None:
            self._link.shown.forwarder.principal = joined.principal

    def asking(self) -> Caller | None:
        """Whoever asks; before CONNECT, nobody in particular. None for one who is not let in."""
        trust, link = self._dialect.trust, self._link
        try:
            caller = self.caller or trust.verify(Signed(), loopback=link.loopback, token=link.token)
            trust.recheck(caller)
        except Refused:
            return None
        return caller

    async def signed(self, kind: str, signed: Signed, beside: dict[str, Any]) -> dict[str, Any] | None:
        """What is signed; None where nothing is. What the message says ``beside`` must not be something else.

        Raises ``Refused``.
        """
        if not (memoryview(signed.payload).nbytes and memoryview(signed.signature).nbytes):
            return None
        settings, size, trust = self._dialect.settings, memoryview(signed.payload).nbytes, self._dialect.trust
        # Newer clients sign what they send whole, with its files.
        most = settings.message_limit if self.caller is not None else None
        verify = partial(
            trust.verify, signed, loopback=self._link.loopback, token=self._link.token, most=most, kind=kind
        )
        caller = await asyncio.to_thread(verify) if size >= settings.big_message else verify()
        trust.note_use(caller, signed.signature, self._link, kind)
        if self.caller is None or caller.identity != self.caller.identity:
            raise Refused("unauthorized: signed by another identity than CONNECT was")
        payload: dict[str, Any] = msgspec.json.decode(signed.payload)
        for name, value in beside.items():
            if name in payload and payload[name] != value:
                raise Refused(f"unauthorized: the signature is over another {name}")
        return payload


def _required(caller: Caller, onboarding: Onboarding) -> wire.OnboardRequired:
    return wire.OnboardRequired(
        identity=caller.identity,
        methods=onboarding.methods,
        payment_amount=msgspec.UNSET if onboarding.payment_amount is None else onboarding.payment_amount,
        payment_address=msgspec.UNSET if onboarding.payment_address is None else onboarding.payment_address,
    )


def _text(raw: Raw) -> str:
    return msgspec.json.decode(raw, type=str)
