"""What a client of this protocol asks, done (seed: Message Reference; spec §4-9). Each method handles one message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from dragoman.hub.errors import AlreadyResolved, AnsweredAlready, HubError, UnknownDecision
from dragoman.hub.events import Answer
from dragoman.hub.permissions import Right
from dragoman.services.trust import Caller, Refused
from dragoman.services.uploads import UploadRefused

from . import client_messages as asked
from . import messages as wire
from .answers import approval_answer, plan_answer, question_answer
from .asking import Ask, WireKind
from .errors import NOT_CONNECTED, PROMPT_REQUIRED, stale
from .gate import Gate
from .merging import BadClaim, Claim, read_claim
from .sessions import DIALECT, Joined
from .submitting import Prompt, submit
from .view import Place
from .words import OUR_MODES

if TYPE_CHECKING:
    from .dialect import OnionDialect
    from .link import OnionLink


class Commands:
    """The commands of one link."""

    def __init__(self, link: OnionLink, dialect: OnionDialect) -> None:
        self._link = link
        self._dialect = dialect
        self._gate = Gate(link, dialect)

    async def handle(self, message: asked.ClientMessage) -> None:
        """Do what this asks. Raises what the hub refuses."""
        handler, name = _HANDLERS[type(message)], _name(message)
        if name not in _QUIET:
            self._dialect.console.received(name)
        try:
            if isinstance(message, _NEEDS_STANDING) and not self._gate.recheck():
                return
            await handler(self, message)
        except (BadClaim, Refused) as problem:
            self._refuse(name, str(problem))

    def _refuse(self, name: str, why: str) -> None:
        self._dialect.console.refused(name, why)
        self._link.say(wire.Error(message=why))

    def recheck(self) -> None:
        """Whether whoever was let in still is: the lists may have changed."""
        self._gate.recheck()

    # Who it is

    async def _connect(self, message: asked.Connect) -> None:
        if self._link.gone:
            return  # nobody is there to be shown anything
        arrival = await self._gate.connect(message)
        if arrival is not None:
            await self._establish(arrival.caller, arrival.message)

    async def _establish(self, caller: Caller, message: asked.Connect) -> None:
        """Show the session that a CONNECT means, from where its client left it."""
        claim = await self._claim(message.session)
        joined = await self._dialect.sessions.join(caller, message.session_id, claim)
        view = joined.view
        place = view.resumes_at(message.last_msg_id, joined.principal.id)
        start = self._start(joined, place)
        forwarder = self._dialect.forwarder(self._link, joined, start)
        if not view.knows(start.cursor):
            await forwarder.prepare()
        self._gate.enter(caller)
        self._link.let_in()
        self._link.show(joined, forwarder, _connected(joined, before_turn=start.cursor < view.seq and place is None))
        self._put_again(joined, start.cursor, seen=place is not None)
        self._dialect.console.connected(
            caller.identity,
            joined.wire_id,
            joined.status,
            claimed=claim.count if claim is not None else 0,
            server_newer=joined.server_newer,
            reattached=joined.status == "running",
        )

    def _put_again(self, joined: Joined, cursor: int, *, seen: bool) -> None:
        """What is asked still, and was before the cursor: the client has ``seen`` it, or is asked again."""
        shown = self._link.shown
        if shown is None:
            return
        for seq, said in joined.view.asking():
            if seq > cursor or said.ask is None:
                continue  # it comes with the rest
            if seen:
                self._link.binding.knows(said.ask)
            else:
                shown.forwarder.again(seq, said)
        self._link.wake()

    def _start(self, joined: Joined, place: Place | None) -> Place:
        """Where in the log to begin: in a turn that runs, or that a lost server cut off; else where it is now."""
        view, last = joined.view, joined.view.last
        if last is None:
            return Place(view.seq)
        begin, replays = Place(last.began - 1), "replay_interrupted" in self._dialect.settings.tolerate
        if view.running:
            return place if place is not None and (replays or place >= begin) else begin
        return place if place is not None and replays and last.interrupted else Place(view.seq)

    async def _onboard(self, message: asked.OnboardSubmit) -> None:
        arrival = await self._gate.onboard(message)
        if arrival is not None:
            await self._establish(arrival.caller, arrival.message)

    async def _admin(self, message: asked.Admin) -> None:
        outcome = await self._dialect.trust.administer(message.type, message.signed, loopback=self._link.loopback)
        given = {
            name: value for name in wire.AdminResult.__struct_fields__ if (value := getattr(outcome, name)) is not None
        }
        self._link.say(wire.AdminResult(**given))
        self._dialect.recheck()

    # Prompts

    async def _input(self, message: asked.Input) -> None:
        joined = self._joined
        if joined is None or self._gate.caller is None:
            self._dialect.console.not_connected()
            self._link.say(wire.Error(message=NOT_CONNECTED))
            return
        prompt = await self._covered(message)
        if not prompt:
            self._link.say(wire.Error(message=PROMPT_REQUIRED))
            return
        await self._claimed_late(joined, message)
        await self._submit(joined, Prompt(prompt, message.input_id, message.images, message.files))

    async def _submit(self, joined: Joined, prompt: Prompt) -> None:
        """Give the session a prompt with what came along: a turn, or part of the one that runs."""
        dialect = self._dialect
        try:
            submitted = await submit(joined, prompt, when_busy="steer", uploads=dialect.uploads)
        except UploadRefused as problem:
            self._refuse("INPUT", str(problem))
            return
        dialect.sessions.touched(joined.session)
        receipt, received = submitted.receipt, submitted.received
        if receipt.disposition == "started" and not receipt.duplicate:
            caller = self._gate.caller
            dialect.console.input(
                caller.identity if caller is not None else None,
                joined.wire_id,
                prompt.text,
                images=len(received.images),
                files=len(received.files),
            )
            return
        dialect.console.runtime_input(joined.wire_id, prompt.text)
        self._link.say(wire.RuntimeInputAck(session_id=joined.wire_id, id=receipt.prompt))

    async def _covered(self, message: asked.Input) -> str:
        """The prompt that is to run. Where a signature is given, it must be right, and over that prompt."""
        signed = await self._gate.signed("INPUT", message.signed, {"prompt": message.prompt} if message.prompt else {})
        if signed is None:
            return message.prompt
        prompt = signed.get("prompt")
        if not isinstance(prompt, str):
            raise Refused("unauthorized: the signature does not cover the prompt")
        return prompt

    async def _claimed_late(self, joined: Joined, message: asked.Input) -> None:
        """A session in INPUT counts where nothing is known of one yet (spec §6)."""
        if joined.view.conversation.turn or not memoryview(message.session).nbytes:
            return
        claim = await self._claim(message.session)
        if claim is not None:
            await self._dialect.sessions.take_in(joined.view, joined.principal, claim)

    # Answers

    async def _answer_question(self, message: asked.AskUserResponse) -> None:
        answer = message.answer if isinstance(message.answer, str) else list(message.answer)
        beside = {"answer": answer, "request_id": message.request_id}
        await self._gate.signed("ASK_USER_RESPONSE", message.signed, beside)
        await self._answer("ask_user", message.request_id, lambda ask: question_answer(ask, message.answer))

    async def _answer_approval(self, message: asked.ApprovalResponse) -> None:
        beside = {"approved": message.approved, "request_id": message.request_id}
        await self._gate.signed("APPROVAL_RESPONSE", message.signed, beside)
        await self._answer("approval_needed", message.request_id, lambda _: approval_answer(message))

    async def _answer_plan(self, message: asked.PlanReviewResponse) -> None:
        beside = {"message": message.message, "request_id": message.request_id}
        await self._gate.signed("PLAN_REVIEW_RESPONSE", message.signed, beside)
        await self._answer("plan_review", message.request_id, lambda _: plan_answer(message.message))

    async def _answer_ulw(self, message: asked.UlwResponse) -> None:
        self._link.say(stale(message.request_id))

    async def _answer(self, kind: WireKind, request_id: str | None, make: Callable[[Ask], Answer]) -> None:
        """Answer what this client was asked: by the id it names, else what it has proved to have seen."""
        joined = self._joined
        if joined is None:
            self._link.say(wire.Error(message=NOT_CONNECTED))
            return
        if kind != "ask_user":
            joined.principal.check(joined.session.id, Right.APPROVE)  # who lacks it was asked nothing of this kind
        ask = self._link.binding.bound(kind) if request_id is None else joined.view.ask(request_id)
        if ask is None or ask.kind != kind or not self._may_see(joined, ask):
            self._link.say(stale(request_id))
            return
        binding = self._link.binding
        binding.answered(ask.decision)
        question = ask.question if ask.opened.questions else None
        try:
            await joined.session.answer(joined.principal, ask.decision, make(ask), via=DIALECT, question=question)
        except (AlreadyResolved, AnsweredAlready, UnknownDecision):
            binding.unanswered(ask.decision)
            self._link.say(stale(request_id))
        except HubError:
            binding.unanswered(ask.decision)
            raise

    def _may_see(self, joined: Joined, ask: Ask) -> bool:
        return not ask.needs_approve or Right.APPROVE in joined.principal.rights

    # The rest

    async def _mode(self, message: asked.ModeChange) -> None:
        joined = self._joined
        if joined is None:
            self._link.say(wire.Error(message=NOT_CONNECTED))
            return
        mode = OUR_MODES.get(message.mode)
        if mode is None:
            self._link.say(wire.Error(message=f"Unsupported mode: {message.mode[: asked.LONGEST_ID]!r}"))
            return
        await joined.session.change_settings(joined.principal, {"mode": mode})

    async def _interrupt(self, _: asked.Interrupt) -> None:
        joined = self._joined
        if joined is None:
            self._link.say(wire.Error(message=NOT_CONNECTED))
            return
        # What comes next need not wait until the turn has really ended.
        self._link.aside(joined.session.cancel(joined.principal, via=DIALECT))

    async def _prompt_update(self, _: asked.PromptUpdate) -> None:
        self._link.say(wire.Error(message="there is no unattended work whose goal this could be"))

    async def _status(self, message: asked.StatusQuery) -> None:
        status = "not_found"
        caller = self._gate.asking()
        if message.session_id is not None and caller is not None:
            status = await self._dialect.sessions.state(caller, message.session_id)
        self._link.say(wire.SessionStatus(session_id=message.session_id, status=status))

    async def _pong(self, _: asked.Pong) -> None:
        if self._joined is not None:
            self._dialect.sessions.touched(self._joined.session)

    # Inside

    @property
    def _joined(self) -> Joined | None:
        return self._link.joined

    async def _claim(self, session: Raw) -> Claim | None:
        """What the client says the conversation was. Raises ``BadClaim``."""
        settings = self._dialect.settings
        size = memoryview(session).nbytes
        if not size:
            return None
        read = partial(read_claim, limit=settings.claim_messages)
        return read(session) if size < settings.big_message else await self._dialect.apart(read, session)


def _connected(joined: Joined, *, before_turn: bool) -> wire.Connected:
    """CONNECTED; with ``before_turn`` the turn that runs is told from its first event on, and left out here."""
    if not joined.server_newer:
        return wire.Connected(session_id=joined.wire_id, status=joined.status)
    return wire.Connected(
        session_id=joined.wire_id,
        status=joined.status,
        server_newer=True,
        session=Raw(joined.view.session_object(joined.wire_id, before_turn=before_turn)),
        chat_items=Raw(joined.view.conversation.chat_items(before_turn=before_turn)),
    )


_HANDLERS: dict[type[asked.ClientMessage], Callable[[Commands, Any], Awaitable[None]]] = {
    asked.Connect: Commands._connect,
    asked.Input: Commands._input,
    asked.Pong: Commands._pong,
    asked.AskUserResponse: Commands._answer_question,
    asked.ApprovalResponse: Commands._answer_approval,
    asked.PlanReviewResponse: Commands._answer_plan,
    asked.UlwResponse: Commands._answer_ulw,
    asked.ModeChange: Commands._mode,
    asked.Interrupt: Commands._interrupt,
    asked.PromptUpdate: Commands._prompt_update,
    asked.StatusQuery: Commands._status,
    asked.OnboardSubmit: Commands._onboard,
    asked.Admin: Commands._admin,
}

_NEEDS_STANDING = (asked.Input, asked.Response, asked.ModeChange, asked.Interrupt)
"""What somebody may do only as long as they are let in."""

_NAMES: dict[type[asked.ClientMessage], str] = {
    asked.Connect: "CONNECT",
    asked.Input: "INPUT",
    asked.Pong: "PONG",
    asked.AskUserResponse: "ASK_USER_RESPONSE",
    asked.ApprovalResponse: "APPROVAL_RESPONSE",
    asked.PlanReviewResponse: "PLAN_REVIEW_RESPONSE",
    asked.UlwResponse: "ULW_RESPONSE",
    asked.ModeChange: "mode_change",
    asked.Interrupt: "INTERRUPT",
    asked.PromptUpdate: "prompt_update",
    asked.StatusQuery: "SESSION_STATUS",
    asked.OnboardSubmit: "ONBOARD_SUBMIT",
}

_QUIET = frozenset({"CONNECT", "INPUT", "SESSION_STATUS", "PONG"})
"""What has lines of its own on the console, or none (spec §12)."""


def _name(message: asked.ClientMessage) -> str:
    """What the console calls it."""
    return message.type if isinstance(message, asked.Admin) else _NAMES[type(message)]
