"""Who is let in, and what they may do (seed: Authentication, Trust Gate; spec §4, §5)."""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from dragoman.hub.clock import Clock
from dragoman.hub.events import Json
from dragoman.services.identity import Identity, signature_of

from . import envelope
from .administration import Administration
from .attempts import Attempts
from .callers import AdminOutcome, Caller, Onboarded, Onboarding, PaymentVerifier, Refused, Signed
from .lists import Lists
from .payments import Payments
from .policy import policy_of
from .replays import Replays
from .settings import TrustSettings
from .standing import Standing

log = logging.getLogger("dragoman.trust")

DENIED = "forbidden: Denied by fast rules"
"""The original's words for whoever is blocked, or whom no rule lets in."""

SHOW_OR_SIGN = "forbidden: this server wants its token, or a signature"

UNKNOWN = "forbidden: only callers that the owner of this server has added are let in"

_NOTHING = msgspec.Raw()


class Trust:
    """Decides for one server. ``folder`` has the lists; ``loopback`` is whether the server listens there only,
    ``has_token`` whether it has a token of its own.

    Raises ``PolicyProblem`` for a policy that cannot be used, and then no server should start. ``environment`` is where
    a policy's ``$NAMES`` are read, once.
    """

    def __init__(
        self,
        settings: TrustSettings,
        *,
        folder: Path,
        host: Identity,
        loopback: bool,
        clock: Clock,
        payments: PaymentVerifier | None = None,
        has_token: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        environment = os.environ if environment is None else environment
        self._settings = settings
        self._has_token = has_token
        self._host = host.address
        self._clock = clock
        self._policy = policy_of(settings.policy, environment, loopback=loopback, most=settings.policy_bytes)
        self._standing = Standing(
            Lists(folder, most=settings.list_bytes),
            host=host.address,
            whitelist=settings.whitelist,
            blacklist=settings.blacklist,
        )
        self._payments = Payments(payments, settings.payment_seconds)
        self._attempts = Attempts(settings, clock)
        self._replays = Replays(settings, clock)
        self._administration = Administration(self._standing)

    @property
    def address(self) -> str:
        """The host's own address."""
        return self._host

    @property
    def name(self) -> str:
        """``open``, ``careful``, ``strict`` or ``custom``."""
        return self._policy.name

    @property
    def recommends_signature(self) -> bool:
        """Whether an unsigned caller is let in here but had better sign (seed: careful)."""
        return self._policy.name == "careful" and not self._settings.require_signature

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must stand in no log line: the codes."""
        return self._policy.codes

    # Who it is

    def verify(
        self, signed: Signed, *, loopback: bool, token: bool, most: int | None = None, kind: str | None = None
    ) -> Caller:
        """Who sent a frame; whether they are let in is for ``admit`` to say. ``kind`` is the frame's type on the
        socket: what says of itself that it was signed for something else is refused.

        ``most`` is the bytes of a payload where they are not to be the setting's: whoever is let in may sign files.
        Each megabyte takes 20 ms, of a wrong signature 100; this may run in a thread.

        Nobody, where neither payload nor signature is given: under strict, and with ``require_signature``, that is
        refused. A signature that is given is checked under every policy, and must be right. Raises ``Refused``.
        """
        if envelope.is_unsigned(signed):
            if self._settings.require_signature or self._policy.name == "strict":
                raise Refused(envelope.UNSIGNED)
            return Caller(None, loopback=loopback, token=token)
        found = envelope.opened(signed, most=self._settings.payload_bytes if most is None else most)
        identity = self._identity(found)
        if kind is not None:
            envelope.check_kind(found, kind)
        return Caller(identity, loopback=loopback, token=token)

    def check_replay(self, caller: Caller, signature: str | msgspec.Raw, socket: object, kind: str = "CONNECT") -> None:
        """Refuse a CONNECT that another socket has sent before; for one that ``verify`` let pass.

        ``signature`` is the wire's field, as it stood there or decoded; ``socket`` is any object that stands for this
        connection; ``kind`` is what it signs. Raises ``Refused``, also where it has signed another kind before.
        """
        if caller.identity is not None:
            self._replays.use(_proof(signature), socket, kind)

    def note_use(self, caller: Caller, signature: str | msgspec.Raw, socket: object, kind: str) -> None:
        """Remember what a signature was for that may come again: it is good for nothing else. Raises ``Refused``."""
        if caller.identity is not None:
            self._replays.note(_proof(signature), socket, kind)

    # Whether they are let in

    async def admit(self, caller: Caller, payload: msgspec.Raw = _NOTHING, *, peer: str = "") -> Onboarding | None:
        """None where the caller is let in; else the ways for a stranger to get in.

        ``payload`` is the signed one: a code in it makes a contact of the caller, a claim of having paid makes nothing.
        ``peer`` is the network address, by which wrong codes are counted. Raises ``Refused``.
        """
        identity = caller.identity
        if identity is not None and (self._is_let_in(identity) or await self._shows_code(identity, payload, peer)):
            return None
        return self._before_door(caller)

    def recheck(self, caller: Caller) -> None:
        """Whether somebody who was let in may go on, as lists are now. Raises ``Refused``.

        It looks at four files at most, for microseconds: cheap enough for each INPUT.
        """
        if caller.identity is not None and self._is_let_in(caller.identity):
            return
        doors = self._before_door(caller)
        if doors is not None:
            raise Refused(doors.reason)

    def onboarding(self) -> Onboarding | None:
        """The ways for a stranger to get in, only those that can succeed; None where there is none."""
        price = self._policy.payment if self._payments.possible else None
        methods = (("invite_code",) if self._policy.codes else ()) + (("payment",) if price is not None else ())
        if not methods:
            return None
        return Onboarding(methods, price, self._host if price is not None else None)

    async def onboard(
        self, signed: Signed, *, expected: str | None, loopback: bool, peer: str, socket: object = None
    ) -> Onboarded:
        """ONBOARD_SUBMIT: a stranger shows a code, or says that they have paid.

        ``expected`` is the identity of the CONNECT that waits on this socket; None where none waits, or nobody signed
        it. ``socket`` stands for this connection: what another has sent before opens no second one. Nothing is spent or
        written for anybody else. Raises ``Refused``, after which another may be tried.
        """
        del loopback  # whoever onboards signs, wherever they are
        identity, found = self._signer(signed)
        envelope.check_kind(found, "ONBOARD_SUBMIT")
        self._replays.use(found.proof, socket, "ONBOARD_SUBMIT")
        if expected is not None and identity != expected:
            raise Refused("forbidden: another identity waits to be let in here")
        code = found.payload.get("invite_code")
        if code:
            await self._take_code(identity, code, peer)
            return await self._onboarded(identity, "Invite code verified.")
        claimed = found.payload.get("payment")
        if isinstance(claimed, bool) or not isinstance(claimed, int | float) or not 0 < claimed < math.inf:
            raise Refused("invite_code or payment required")
        await self._take_payment(identity, claimed, peer)
        return await self._onboarded(identity, "Payment verified.")

    # What they may do

    def level(self, identity: str) -> str:
        """``blocked``, ``whitelist``, ``contact`` or ``stranger``, the first that holds. Raises ``Refused``."""
        return self._standing.level(identity)

    def is_admin(self, identity: str) -> bool:
        """Whether this is an administrator, or the host itself. Raises ``Refused``."""
        return self._standing.is_admin(identity)

    def may_approve(self, caller: Caller) -> bool:
        """Whether the caller may approve what an agent asks, and loosen its mode. Looks anew: lists change."""
        try:
            return not self._kinds(caller).isdisjoint(self._settings.approvers)
        except Refused:
            return False

    def sees_all(self, caller: Caller) -> bool:
        """Whether the caller may name everybody's sessions: the host, administrators, and who did not sign but is on
        this machine or has the server's token (of whom sessions that a key owns are still kept)."""
        if caller.identity is None:
            return caller.loopback or caller.token
        try:
            return self._standing.is_admin(caller.identity) and not self._standing.is_blocked(caller.identity)
        except Refused:
            return False

    async def administer(
        self,
        type: str,  # noqa: A002  the wire's name of it
        signed: Signed,
        *,
        loopback: bool,
        client_id: str | None = None,
        socket: object = None,
    ) -> AdminOutcome:
        """An ADMIN_* frame, by its wire type; every one is signed by an administrator.

        ``client_id`` is whom it is about where the payload does not say so (HTTP's path). ``socket`` is what was given
        to ``check_replay``, if this signature was. Raises ``Refused``.
        """
        del loopback  # rights over others are nobody's for being near
        identity, found = self._signer(signed)
        if not self._standing.is_admin(identity):
            raise Refused("forbidden: admin only")
        envelope.check_kind(found, type, on_socket=False)
        # One kind for all of them: older clients sign whom it is about and when, and not what.
        self._replays.use(found.proof, socket, "ADMIN")
        payload = found.payload if client_id is None else {**found.payload, "client_id": client_id}
        outcome = await self._administration.do(type, payload, owner=self._standing.is_host(identity))
        if outcome.success:
            log.info("%s of %s by %s", outcome.action, payload.get("client_id") or payload.get("admin_id"), identity)
        return outcome

    # Within

    def _identity(self, found: envelope.Envelope) -> str:
        return envelope.check(
            found,
            host=self._host,
            now=self._clock.now() / 1000,
            skew=self._settings.clock_skew,
            blacklist=self._standing.blacklist,
        )

    def _signer(self, signed: Signed) -> tuple[str, envelope.Envelope]:
        """Who signed, and what: for frames that count only signed. Raises ``Refused``, also for one who is blocked."""
        found = envelope.opened(signed, most=self._settings.payload_bytes)
        identity = self._identity(found)
        self._check_not_blocked(identity)
        return identity, found

    def _check_not_blocked(self, identity: str) -> None:
        if self._standing.said(identity) == "blocked":
            raise Refused(envelope.BLACKLISTED)
        if "blocked" in self._policy.deny and self._standing.is_blocked(identity):
            raise Refused(DENIED)

    def _is_let_in(self, identity: str) -> bool:
        """Whether the settings, the owner or a list let this one in. Raises ``Refused`` for who is blocked."""
        self._check_not_blocked(identity)
        if self._standing.said(identity) == "whitelist" or self._standing.is_admin(identity):
            return True
        level = self._standing.level(identity)
        return ("whitelisted" if level == "whitelist" else level) in self._policy.allow

    def _before_door(self, caller: Caller) -> Onboarding | None:
        """What becomes of a caller whom no list lets in: None for those who are, else how to. Raises ``Refused``.

        Where the server has a token, whoever does not sign shows it.
        """
        if self._has_token and caller.identity is None and not caller.token:
            raise Refused(SHOW_OR_SIGN)
        if self._policy.default == "allow":
            return None
        asks = self._policy.default == "ask"
        doors = self.onboarding()
        if doors is not None:
            return doors if asks else msgspec.structs.replace(doors, reason=DENIED)
        if asks and (caller.loopback or caller.token):
            return None
        raise Refused(UNKNOWN if asks else DENIED)

    async def _shows_code(self, identity: str, payload: msgspec.Raw, peer: str) -> bool:
        """Whether a CONNECT brings a right code along; a wrong one is as good as none, but counts."""
        code = envelope.fields_of(bytes(payload)).get("invite_code") if bytes(payload) else None
        if not code or not self._policy.codes:
            return False
        attempt = self._attempts.begin(identity, peer)
        if not self._is_code(code):
            return False
        attempt.succeeded()
        await self._standing.become_contact(identity)
        return True

    async def _take_code(self, identity: str, code: Json, peer: str) -> None:
        attempt = self._attempts.begin(identity, peer)
        if not self._is_code(code):
            raise Refused("Invalid invite code")
        attempt.succeeded()

    async def _take_payment(self, identity: str, claimed: float, peer: str) -> None:
        """Ask whoever knows of payments for the price, whatever is claimed. Raises ``Refused``."""
        price = self._policy.payment
        attempt = self._attempts.begin(identity, peer)
        if price is None or claimed < price or not await self._payments.paid(identity, price):
            raise Refused("Insufficient payment")
        attempt.succeeded()

    async def _onboarded(self, identity: str, how: str) -> Onboarded:
        level = await self._standing.become_contact(identity)
        log.info("%s is a %s now", identity, level)
        return Onboarded(identity, level, f"{how} You are now a {level}.")

    def _is_code(self, given: Json) -> bool:
        """All codes are compared, by digests: how long it takes says nothing of any of them."""
        if not isinstance(given, str):
            return False
        shown = _digest(given)
        compared = [hmac.compare_digest(_digest(code), shown) for code in self._policy.codes]
        return any(compared)

    def _kinds(self, caller: Caller) -> set[str]:
        """What the caller is, in the words of ``approvers``; nothing for one who is blocked. Raises ``Refused``."""
        kinds = {word for word, holds in (("loopback", caller.loopback), ("token", caller.token)) if holds}
        if caller.identity is None:
            return kinds | {"stranger"}
        level = self._standing.level(caller.identity)
        if level == "blocked":
            return set()
        if self._standing.is_host(caller.identity):
            kinds |= {"owner", "admin"}
        elif self._standing.is_admin(caller.identity):
            kinds.add("admin")
        return kinds | {level}


def _proof(signature: str | msgspec.Raw) -> bytes:
    """A signature's bytes. Raises ``Refused`` for what is none."""
    given = signature if isinstance(signature, str) else envelope.value_of(signature)
    found = signature_of(given) if isinstance(given, str) else None
    if found is None:
        raise Refused(envelope.INVALID)
    return found


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()
