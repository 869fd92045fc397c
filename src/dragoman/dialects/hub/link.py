"""A hub link: what one WebSocket client asks, and what it is told. No I/O: cursors, not queues.

Answers go first, in the order they are ready; then the link's streams take turns (``ring``). What waits for nothing is
done at once, the rest in tasks that start in the order of arrival and are bounded in number; they run to their end even
if the client leaves, since half a command is worse than an unwanted one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.dialects.base import Outbox, Wire
from dragoman.hub.errors import HubError, LimitReached
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import Principal
from dragoman.hub.session import Session

from . import messages as ask
from .commands import Commands
from .errors import INTERNAL, Problem, check_json_bytes, invalid, problem_of
from .frames import error_frame, frame, ok_frame, stream_error
from .ops import RequestId
from .replies import Empty, Hello, Limits, SignInLine
from .ring import Ring
from .streams import raw_input
from .subscriptions import Subscriptions
from .tools import LinkTools
from .workspace import WISHES, Wish

if TYPE_CHECKING:
    from .dialect import HubDialect

log = logging.getLogger("dragoman.links")

Work = Callable[[], Awaitable[msgspec.Struct]]

_BAD_BINARY = Problem(
    code="invalid_request",
    message="a binary message is the handle of an attached terminal (u32, big-endian), then bytes",
)


class HubLink:
    """One client. Implements ``Link``."""

    joins = True

    def __init__(self, dialect: HubDialect, principal: Principal, wire: Wire) -> None:
        self.principal = principal
        self.commands: Commands = dialect.commands
        self._dialect = dialect
        self._settings = dialect.settings
        self._wire = wire
        self._outbox = Outbox(dialect.settings.reply_backlog)
        self._heartbeat: bytes | None = None
        self._ring = Ring(wire.wake)
        self.streams: Subscriptions = Subscriptions(dialect, principal, self._ring)
        self.tools: LinkTools = LinkTools(dialect, principal, self._ring)
        self._load = 0
        self._gone = False
        self._outbox.put(frame(self._hello()))

    # Link

    @property
    def congested(self) -> bool:
        return self._load >= self._settings.commands or self._outbox.full

    def receive(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            self._raw(message)
            return
        try:
            asked = ask.decode(message)
            if isinstance(asked, ask.OWN_JSON):
                check_json_bytes(len(message.encode()), self._settings.json_bytes)
            elif isinstance(asked, ask.LARGE_JSON):
                check_json_bytes(len(message.encode()), self._settings.large_json_bytes, "large_json_bytes")
        except HubError as error:
            self._outbox.put(error_frame(ask.id_in(message), problem_of(error)))
        except (ValueError, RecursionError) as error:
            self._outbox.put(error_frame(ask.id_in(message), invalid(error)))
        else:
            self._handle(asked)

    def pong(self, payload: bytes) -> None:
        """This link sends no pings of its own."""

    def pull(self) -> bytes | None:
        reply = self._outbox.take()
        if reply is None and self._heartbeat is not None:
            reply, self._heartbeat = self._heartbeat, None
        return reply if reply is not None else self._ring.pull()

    def lost(self) -> None:
        if not self._gone:
            self._gone = True
            self.streams.end()
            self.tools.end()
            self._dialect.forget(self)

    # For the dialect

    def beat(self, said: bytes) -> None:
        """A heartbeat is due. One that was not taken yet is replaced."""
        self._heartbeat = said
        self._wire.wake()

    def row_changed(self, row: SessionRow) -> None:
        """A session's row is new."""
        self.streams.row_changed(row)
        self.tools.row_changed(row)

    def sign_in_line(self, request: RequestId, provider: str, line: str) -> None:
        """What a provider's program says to who signs in there over this link."""
        self._say(frame(SignInLine(request=request, provider=provider, line=line)))

    # In

    def _handle(self, asked: ask.ClientMessage) -> None:
        kind = type(asked)
        if (now := _NOW.get(kind)) is not None:
            self._answer(asked.id, partial(now, self, asked))
        elif (typing := _ON_TERMINAL.get(kind)) is not None:
            self._handle_terminal(asked, partial(typing, self, asked))
        else:
            if isinstance(asked, ask.Follow | ask.Attach):
                self.streams.wish(asked)
            self._later(asked, partial(_LATER[kind], self, asked))

    def _handle_terminal(self, asked: Any, work: Callable[[Session], msgspec.Struct]) -> None:
        """At once where the session is at hand, so that typing stays in order with raw input."""
        session = self.streams.session(asked.session)
        if session is not None:
            self._answer(asked.id, partial(work, session))
            return

        async def found() -> msgspec.Struct:
            return work(await self.commands.session(self.principal, asked.session))

        self._later(asked, found)

    def _answer(self, request: RequestId, work: Callable[[], msgspec.Struct]) -> None:
        try:
            made = ok_frame(request, work())
        except HubError as error:
            made = error_frame(request, problem_of(error))
        except Exception:
            log.exception("a request failed")
            made = error_frame(request, INTERNAL)
        self._say(made)

    def _later(self, asked: ask.ClientMessage, work: Work) -> None:
        if self._dialect.closing:
            self._say(error_frame(asked.id, problem_of(LimitReached("the server stops"))))
            return
        weight = self._settings.read_weight if isinstance(asked, ask.HEAVY) else 1
        self._load += weight
        self._dialect.tasks.start(self._run(asked.id, work, weight), "command")

    async def _run(self, request: RequestId, work: Work, weight: int) -> None:
        try:
            made = ok_frame(request, await work())
        except HubError as error:
            made = error_frame(request, problem_of(error))
        except Exception:
            log.exception("a request failed")
            made = error_frame(request, INTERNAL)
        finally:
            self._load -= weight
        self._say(made)

    def _say(self, made: bytes) -> None:
        """Send an answer, then let the streams begin that it announced."""
        if not self._gone:
            self._outbox.put(made)
            self._wire.wake()
            self.streams.begin()
            self.tools.begin()

    def _raw(self, message: bytes) -> None:
        parsed = raw_input(message)
        session = self.streams.behind_handle(parsed[0]) if parsed is not None else None
        if parsed is None or session is None:
            self._outbox.put(stream_error(_BAD_BINARY))
        elif parsed[1]:
            try:
                self.commands.write(self.principal, session, parsed[1])
            except HubError as error:
                self._outbox.put(stream_error(problem_of(error), session=session.id))
            except Exception:
                log.exception("raw input failed")
                self._outbox.put(stream_error(INTERNAL, session=session.id))

    def _hello(self) -> Hello:
        settings = self._settings
        return Hello(
            protocol=ask.PROTOCOL,
            epoch=self._dialect.registry.journal.epoch,
            principal=self.principal.id,
            rights=tuple(sorted(self.principal.rights)),
            heartbeat=settings.heartbeat,
            limits=Limits(
                message=settings.message_limit,
                commands=settings.commands,
                follows=settings.follows,
                attachments=settings.attachments,
                page_events=settings.page_events,
            ),
        )


def _on_workspace(wish: Wish) -> Callable[[HubLink, Any], Awaitable[msgspec.Struct]]:
    return lambda link, asked: wish(link.commands.workspace, link.principal, asked)


_NOW: dict[type, Callable[[HubLink, Any], msgspec.Struct]] = {
    ask.Ping: lambda _link, _asked: Empty(),
    ask.List: lambda link, asked: link.commands.rows(link.principal, asked),
    ask.Watch: lambda link, asked: link.streams.watch(asked),
    ask.Unwatch: lambda link, _asked: link.streams.unwatch(),
    ask.Unfollow: lambda link, asked: link.streams.unfollow(asked.session),
    ask.Detach: lambda link, asked: link.streams.detach(asked.session),
}
"""What waits for nothing."""

_ON_TERMINAL: dict[type, Callable[[HubLink, Any, Session], msgspec.Struct]] = {
    ask.Input: lambda link, asked, session: link.commands.type_in(link.principal, session, asked),
    ask.Keys: lambda link, asked, session: link.commands.press(link.principal, session, asked.keys),
    ask.Resize: lambda link, asked, session: link.commands.resize(link.principal, session, asked),
    ask.Signal: lambda link, asked, session: link.commands.signal(link.principal, session, asked),
    ask.Screen: lambda link, asked, session: link.commands.screen(link.principal, session, styled=asked.styled),
    ask.Tape: lambda link, asked, session: link.commands.tape(link.principal, session, asked),
}
"""What waits for nothing once the session is loaded."""

_LATER: dict[type, Callable[[HubLink, Any], Awaitable[msgspec.Struct]]] = {
    ask.Create: lambda link, asked: link.commands.create(link.principal, asked),
    ask.Delete: lambda link, asked: link.commands.delete(link.principal, asked.session),
    ask.Start: lambda link, asked: link.commands.start(link.principal, asked.session),
    ask.Close: lambda link, asked: link.commands.close(link.principal, asked.session),
    ask.GetSnapshot: lambda link, asked: link.commands.snapshot(link.principal, asked.session),
    ask.Follow: lambda link, asked: link.streams.grant(asked),
    ask.Attach: lambda link, asked: link.streams.grant(asked),
    ask.Events: lambda link, asked: link.commands.events(link.principal, asked.session, asked),
    ask.Newest: lambda link, asked: link.commands.newest(link.principal, asked),
    ask.Submit: lambda link, asked: link.commands.submit(link.principal, asked.session, asked),
    ask.Withdraw: lambda link, asked: link.commands.withdraw(link.principal, asked.session, asked.prompt),
    ask.AnswerDecision: lambda link, asked: link.commands.answer(link.principal, asked.session, asked.decision, asked),
    ask.Cancel: lambda link, asked: link.commands.cancel(link.principal, asked.session, asked),
    ask.ChangeSettings: lambda link, asked: link.commands.change(link.principal, asked.session, asked),
    ask.ListProviders: lambda link, _asked: link.commands.providers.catalogue(link.principal),
    ask.CheckProviders: lambda link, asked: link.commands.providers.status(link.principal, verify=asked.verify),
    ask.SetKey: lambda link, asked: link.commands.providers.set_key(link.principal, asked.provider, asked.key),
    ask.ForgetKey: lambda link, asked: link.commands.providers.forget_key(link.principal, asked.provider),
    ask.ListAuthMethods: lambda link, _asked: link.commands.providers.auth_methods(link.principal),
    ask.BeginSignIn: lambda link, asked: link.commands.providers.begin_sign_in(
        link.principal, asked.provider, asked.method
    ),
    ask.FinishSignIn: lambda link, asked: link.commands.providers.finish_sign_in(
        link.principal, asked.provider, asked.method, asked.code, partial(link.sign_in_line, asked.id, asked.provider)
    ),
    ask.ResetHistory: lambda link, asked: link.commands.reset_history(link.principal, asked.session),
    ask.MergeHistory: lambda link, asked: link.commands.merge_history(link.principal, asked.session, asked),
    ask.Compact: lambda link, asked: link.commands.compact(link.principal, asked.session),
    ask.DeclareTools: lambda link, asked: link.tools.declare(asked),
    ask.EndTool: lambda link, asked: link.tools.end_tool(asked),
    ask.EndTools: lambda link, asked: link.tools.end_tools(asked),
    **{kind: _on_workspace(wish) for kind, wish in WISHES.items()},
}
"""What waits: for the disk, a program, a turn."""
