"""``POST /input``: a prompt, and the answer once its turn has ended (spec §10).

The request only waits: a question that the turn asks meanwhile is answered on a socket, and a client that goes away
leaves its turn running.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from starlette.responses import Response

from dragoman.dialects.base import BODY
from dragoman.hub.events import Event, PromptTaken, PromptWithdrawn, TurnEnded, TurnStarted
from dragoman.hub.session import Session
from dragoman.hub.turns import Receipt
from dragoman.services.trust import Caller, Refused
from dragoman.services.uploads import UploadFailed, UploadRefused

from .client_messages import LONGEST_ID
from .errors import PROMPT_REQUIRED
from .host import Host
from .http_call import Call, Gone, Problem, SignedBody, as_json, value_of
from .merging import BadClaim, Claim, read_claim
from .projection import WITHDRAWN, Ended, Projection
from .sessions import Joined
from .submitting import Prompt, submit
from .view import named

T = TypeVar("T")

STILL_RUNS = "the turn still runs: ask /sessions for its result"
TOO_MANY = "too many requests wait for their turns (waiting_inputs)"
TOO_MUCH = "too much is being sent at once (input_bytes)"


class InputBody(SignedBody):
    """What is posted, unread. A signature is over ``payload``, which then has the prompt."""

    prompt: Raw = Raw()
    images: Raw = Raw()
    files: Raw = Raw()
    session: Raw = Raw()
    input_id: Raw = Raw()


class _Named(msgspec.Struct):
    """The one field of ``session`` that is no claim."""

    session_id: Raw = Raw()


class _Payload(msgspec.Struct):
    """The one field of a payload that is no matter of trust."""

    prompt: Raw = Raw()


class Answered(msgspec.Struct, frozen=True):
    """The answer, as the original has it."""

    session_id: str
    status: str
    result: str
    duration_ms: int
    session: Raw
    chat_items: Raw
    server_newer: bool


class Inputs:
    """All requests of this kind, which share two limits."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._under_way = 0
        self._bytes = 0

    async def input(self, call: Call) -> Response:
        """Raises ``Problem``, ``Refused``, ``Gone``, and what the hub refuses."""
        self._check_room()
        with contextlib.ExitStack() as place:
            return await self._input(call, place)

    def _check_room(self) -> None:
        if self._under_way >= self._host.settings.waiting_inputs:
            raise Problem(503, TOO_MANY)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """A place among those that wait for their turns; whose body has not come yet has none."""
        self._check_room()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def _input(self, call: Call, place: contextlib.ExitStack) -> Response:
        try:
            with self._holding(call):
                body = await call.read(InputBody)
                place.enter_context(self._waiting())
                joined, receipt = await self._taken(call, body)
        except (Refused, UploadRefused) as problem:
            self._host.console.refused("POST /input", str(problem))
            if isinstance(problem, UploadRefused):
                status = 503 if isinstance(problem, UploadFailed) else 400
                raise Problem(status, str(problem)) from None
            raise
        self._host.sessions.entered(joined.view)
        try:
            return await self._answer(call, joined, receipt)
        finally:
            self._host.sessions.left(joined.view)

    @contextlib.contextmanager
    def _holding(self, call: Call) -> Iterator[None]:
        """Room for the body, until what it brings is stored. Whoever is near may send as much as over a socket."""
        if call.loopback or call.token:
            call.allow(self._host.settings.message_limit)
        declared = call.headers.get("content-length", "")
        size = int(declared) if declared.isdigit() else call.request.scope["extensions"][BODY].size
        if self._bytes + size > max(self._host.settings.input_bytes, size):
            raise Problem(503, TOO_MUCH)
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size

    # Taking it in

    async def _taken(self, call: Call, body: InputBody) -> tuple[Joined, Receipt]:
        caller = call.verified(body.signed)
        onboarding = await self._host.trust.admit(caller, body.payload, peer=call.peer)
        if onboarding is not None:
            raise Refused(onboarding.reason)
        prompt = _prompt(body, signed=caller.identity is not None)
        wire_id, claim = await asyncio.to_thread(self._claimed, body)
        input_id = _id(body.input_id, "input_id")
        joined = await self._host.sessions.join(caller, wire_id, claim)
        return joined, await self._submitted(caller, joined, Prompt(prompt, input_id, body.images, body.files))

    def _claimed(self, body: InputBody) -> tuple[str | None, Claim | None]:
        """Which session is meant, and what its client remembers of it."""
        session = value_of(body.session, _Named, "session")
        if session is None:
            return None, None
        try:
            claim = read_claim(body.session, limit=self._host.settings.claim_messages)
        except BadClaim as problem:
            raise Problem(400, str(problem)) from None
        return _id(session.session_id, "session_id"), claim

    async def _submitted(self, caller: Caller, joined: Joined, prompt: Prompt) -> Receipt:
        submitted = await submit(joined, prompt, when_busy="queue", uploads=self._host.uploads)
        self._host.sessions.touched(joined.session)
        images, files = len(submitted.received.images), len(submitted.received.files)
        self._host.console.input(caller.identity, joined.wire_id, prompt.text, images=images, files=files)
        return submitted.receipt

    # Waiting for its end

    async def _answer(self, call: Call, joined: Joined, receipt: Receipt) -> Response:
        try:
            async with asyncio.timeout(self._host.settings.input_seconds):
                ended = await _unless_gone(call, _end(joined.session, receipt))
        except TimeoutError:
            raise Problem(504, STILL_RUNS, session_id=joined.wire_id) from None
        if ended.problem is not None:
            status = 503 if ended.outcome == "interrupted" else 500
            if joined.view.told_of != ended.turn:
                joined.view.told_of = ended.turn
                self._host.console.agent_error(ended.problem)
            raise Problem(status, ended.problem, session_id=joined.wire_id)
        await joined.view.catch_up()
        outcome = joined.view.outcome(ended)
        return as_json(
            Answered(
                session_id=joined.wire_id,
                status="done",
                result=ended.result,
                duration_ms=ended.duration_ms,
                session=Raw(named(outcome.session, joined.wire_id)),
                chat_items=Raw(outcome.chat_items),
                server_newer=joined.server_newer,
            )
        )


def _prompt(body: InputBody, *, signed: bool) -> str:
    """The prompt that is to run: of a signed request the signed one, which may be empty. Raises ``Problem``."""
    plain = value_of(body.prompt, str, "prompt")
    if not signed:
        if not plain:
            raise Problem(400, PROMPT_REQUIRED)
        return plain
    payload = value_of(body.payload, _Payload, "payload")
    covered = value_of(payload.prompt, str, "prompt") if payload is not None else None
    if covered is None:
        if plain is None:
            raise Problem(400, PROMPT_REQUIRED)
        raise Refused("unauthorized: the signature does not cover the prompt")
    if plain is not None and plain != covered:
        raise Refused("unauthorized: the signature is over another prompt")
    return covered


def _id(raw: Raw, name: str) -> str | None:
    """An id that a client made up; an empty one is none. Raises ``Problem``."""
    given = value_of(raw, str, name)
    if given is not None and len(given) > LONGEST_ID:
        raise Problem(400, f"{name} is longer than {LONGEST_ID} characters")
    return given or None


async def _end(session: Session, receipt: Receipt) -> Ended:
    """How the turn ended that this prompt began, or came into. Raises ``Problem`` where it never ran."""
    turn = None
    async for event in session.follow(receipt.seq):
        fact = event.fact
        if isinstance(fact, TurnStarted | PromptTaken) and fact.prompt == receipt.prompt:
            turn = fact.turn
        elif isinstance(fact, PromptWithdrawn) and fact.prompt == receipt.prompt:
            raise Problem(503, WITHDRAWN)
        elif isinstance(fact, TurnEnded) and fact.turn == turn:
            return _ended(event)
    raise AssertionError("a log has no end")


def _ended(event: Event) -> Ended:
    (ended,) = (said.ended for said in Projection().project(event) if said.ended is not None)
    return ended


async def _unless_gone(call: Call, work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` comes to; it is given up when the client goes away. Raises ``Gone``."""
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(call.disconnected())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Gone
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
