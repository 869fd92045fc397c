"""What is said to the agent of a session: a prompt, a stop, an answer to what it asks (spec §3.2, §6).

The old dashboard's ``/prompt``, ``/cancel`` and ``/tmux-output`` name no session: they mean the one with the newest
sign of life that they can be about.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from dragoman.hub.errors import HubError, NotPermitted, NotReady, UnknownTurn
from dragoman.hub.events import DecisionOpened
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import Right
from dragoman.hub.session import Session

from . import messages as wire
from .answers import answer_of, asked_now, question_of, settled
from .calls import VIA, Call, Problem, ok, resource
from .host import Host
from .prompt_images import ImageBody, discard, read_images, save, with_images

READY_SECONDS = 10.0
"""For so long a prompt waits for an agent that is still starting."""

REMEMBERED = 1000
"""Answers of which it is remembered who sent them."""

MESSAGE_ID = "idempotency-key"
"""The header by which a client names a prompt."""

OFFLINE = "Session is offline"
PROMPT_REQUIRED = "Prompt is required"
NO_EXTERNAL_PROMPT = "External session has no terminal info"
NO_EXTERNAL_CANCEL = "Cannot cancel external sessions"
NOTHING_WORKS = "No session is working"
NOTHING_ASKED = "Nothing is asked"
NOT_YET = "What is asked can be answered in a moment: its options are still being read"
UNCLEAR = "What was asked before has just been answered by somebody else: answer again, or name the decision"

_BREAKS_OFF = {"claude": "escape", "codex": "escape", "gemini": "escape", "qwen": "escape", "opencode": "escape"}
"""The key by which an agent stops what it does; other programs know Ctrl-C."""


class PromptBody(msgspec.Struct, frozen=True, kw_only=True):
    """What ``POST /sessions/:id/prompt`` and ``POST /prompt`` take."""

    prompt: str | None = None
    images: tuple[ImageBody, ...] = ()
    send: bool = True


class PermissionBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What ``POST /sessions/:id/permission`` takes: the number of a row, and to which decision, if that is known."""

    response: str | int | None = None
    decision_id: str | None = None


def command_routes(host: Host) -> list[Route]:
    """See the module."""
    permissions = Permissions()
    return [
        resource(host, "/sessions/{id}/prompt", POST=prompted),
        resource(host, "/sessions/{id}/cancel", POST=cancelled),
        resource(host, "/sessions/{id}/permission", POST=permissions.answered),
        resource(host, "/prompt", GET=prompt_kept, POST=prompted_newest, DELETE=prompt_dropped),
        resource(host, "/cancel", POST=cancelled_newest),
        resource(host, "/tmux-output", GET=screen_of_newest),
    ]


# Prompts


async def prompted(call: Call) -> Response:
    """An agent that is at work gets it afterwards. An ``Idempotency-Key`` makes it safe to send again."""
    row = call.row()
    call.check(Right.WRITE)
    return await _prompted(call, row, await call.read(PromptBody))


async def prompted_newest(call: Call) -> Response:
    """To the newest session that can take one."""
    call.check(Right.WRITE)
    body = await call.read(PromptBody)
    if not body.send:
        raise Problem(400, "Prompts are sent, not saved: send must be true")
    row = _newest(call, lambda shown: shown.type == "internal" and shown.status != "offline")
    if row is None:
        raise Problem(404, "No session can take a prompt")
    response = await _prompted(call, row, body)
    return ok(sent=True, session=row.session) if response.status_code == 200 else response


async def prompt_kept(_: Call) -> Response:
    """Prompts are sent and never kept."""
    return ok(prompt=None)


async def prompt_dropped(call: Call) -> Response:
    """So there is none to be dropped."""
    call.check(Right.WRITE)
    return ok()


async def _prompted(call: Call, row: SessionRow, body: PromptBody) -> Response:
    if not (body.prompt or "").strip():
        raise Problem(400, PROMPT_REQUIRED)
    shown, host = call.host.show(row), call.host
    if shown.type == "external":
        raise Problem(404, NO_EXTERNAL_PROMPT)
    if shown.status == "offline":
        raise Problem(404, OFFLINE)
    session = await host.registry.get(call.principal, row.session)
    key = call.request.headers.get(MESSAGE_ID)
    if body.images and key is not None and await session.accepted(call.principal, key, via=VIA):
        return ok()  # sent again: its images lie there already
    paths = await _saved(call, session.state.cwd, body.images)
    try:
        await _submitted(call, session, with_images(body.prompt or "", paths), key)
    except HubError:
        await asyncio.to_thread(discard, session.state.cwd, paths)
        raise
    return ok(imagePaths=paths) if paths else ok()


async def _saved(call: Call, cwd: str, images: tuple[ImageBody, ...]) -> list[str]:
    """The paths of the images. Raises ``Problem``."""
    if not images:
        return []
    most, now = call.host.settings.image_bytes, call.host.registry.clock.now()
    return await asyncio.to_thread(lambda: save(cwd, read_images(images, most=most, now=now)))


async def _submitted(call: Call, session: Session, text: str, key: str | None) -> None:
    """Submit it, once the agent has started; raises ``NotReady`` when that takes too long."""
    changed = asyncio.Event()
    stop = session.watch(changed.set)
    try:
        async with asyncio.timeout(READY_SECONDS):
            while True:
                changed.clear()
                try:
                    await session.submit(call.principal, text, via=VIA, when_busy="queue", client_message_id=key)
                except NotReady:
                    await changed.wait()
                else:
                    return
    except TimeoutError:
        raise NotReady from None
    finally:
        stop()


# Stopping


async def cancelled(call: Call) -> Response:
    """Stop what the agent does; where it does nothing there is nothing to stop."""
    row = call.row()
    call.check(Right.WRITE)
    if call.host.show(row).type == "external":
        raise Problem(400, NO_EXTERNAL_CANCEL)
    await _cancel(call, await call.host.registry.get(call.principal, row.session))
    return ok()


async def cancelled_newest(call: Call) -> Response:
    """The newest session that works, else the newest that asks for something."""
    call.check(Right.WRITE)
    row = _newest(call, lambda shown: shown.type == "internal" and shown.status == "working")
    row = row or _newest(
        call, lambda shown: shown.type == "internal" and shown.waiting_for in ("permission", "question")
    )
    if row is None:
        raise Problem(409, NOTHING_WORKS)
    await _cancel(call, await call.host.registry.get(call.principal, row.session))
    return ok(session=row.session)


async def _cancel(call: Call, session: Session) -> None:
    """The turn that is open; without one, what the agent does of its own."""
    turn = session.state.turn
    if turn is not None:
        try:
            await session.cancel(call.principal, turn.turn, via=VIA)
        except UnknownTurn:
            return  # it has ended by itself, and no other is meant
    elif session.busy and session.terminal is not None and session.terminal.running:
        session.control(call.principal).press([_BREAKS_OFF.get(session.state.agent, "ctrl-c")])


# Answers


class Permissions:
    """Takes answers to what agents ask. Remembers who answered last, for nobody is surprised by what they did."""

    def __init__(self) -> None:
        self._answered: OrderedDict[str, str] = OrderedDict()

    async def answered(self, call: Call) -> Response:
        """Answer the decision that is named, else the one that is asked now (invariant 4)."""
        row = call.row()
        if call.principal.rights.isdisjoint({Right.WRITE, Right.APPROVE}):
            raise NotPermitted(Right.APPROVE)
        body = await call.read(PermissionBody)
        number = _number(body.response)
        session = await call.host.registry.get(call.principal, row.session)
        opened = await self._meant(call, session, body.decision_id)
        if not opened.ready:
            raise Problem(409, NOT_YET)
        await session.answer(
            call.principal, opened.decision, answer_of(opened, number), via=VIA, question=question_of(opened)
        )
        self._remember(opened.decision, _sender(call))
        return ok()

    async def _meant(self, call: Call, session: Session, named: str | None) -> DecisionOpened:
        decisions = session.shown.decisions
        if named is not None:
            if named not in decisions:
                raise await session.no_longer_open(named)
            return decisions[named]
        opened = asked_now(decisions)
        if opened is None:
            raise Problem(409, NOT_YET if decisions else NOTHING_ASKED)
        sender = _sender(call)

        def mine(decision: str) -> bool:
            return self._answered.get(decision) == sender

        if not await settled(session, opened, call.host.settings.answer_settles, mine):
            raise Problem(409, UNCLEAR)
        return opened

    def _remember(self, decision: str, sender: str) -> None:
        self._answered[decision] = sender
        while len(self._answered) > REMEMBERED:
            self._answered.popitem(last=False)


def _number(response: str | int | None) -> str:
    text = "" if response is None else str(response).strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 3):
        raise Problem(400, "response must be the number of an option")
    return str(int(text))


def _sender(call: Call) -> str:
    """Who sends this, as far as HTTP tells: another person at another place is somebody else."""
    headers = call.request.headers
    peer = call.request.client.host if call.request.client is not None else ""
    return "\n".join((call.principal.id, peer, headers.get("origin", ""), headers.get("user-agent", "")))


# The screen


async def screen_of_newest(call: Call) -> Response:
    """The text on the screen of the newest session that has one, live ones first."""
    rows = [row for row in call.host.registry.rows(call.principal) if row.kind == "terminal" and row.status != "closed"]
    if not rows:
        raise Problem(404, "There is no terminal session")
    row = max(rows, key=lambda row: (row.status != "exited", row.active_at))
    session = await call.host.registry.get(call.principal, row.session)
    screen = session.terminal.screen if session.terminal is not None else None
    if screen is None:
        raise Problem(409, "The session has no screen: it runs without the terminal model")
    return ok(output="\n".join(screen.snapshot().lines), session=row.session)


def _newest(call: Call, fits: Callable[[wire.Session], bool]) -> SessionRow | None:
    """The session with the newest sign of life of those that fit."""
    rows = [row for row in call.host.registry.rows(call.principal) if row.status != "closed"]
    fitting = [row for row in rows if fits(call.host.show(row))]
    return max(fitting, key=lambda row: row.active_at, default=None)
