"""A client of dragoman's own protocol that does not lose its place.

    async with HubClient("http://127.0.0.1:7337/hub") as client:
        session = await client.create(kind="scripted", cwd="/tmp")
        following = client.follow(session, print, after=0)
        receipt = await client.submit(session, "say hello")
        await following.reached(receipt["seq"])

It reconnects by itself, with each stream's place, until it is closed or the server refuses it for good. A place moves
only after the handler returned, so whatever happens an event is handled exactly once by one client object; keep the
cursor together with what you made of the events, and that holds across your own restarts too.

WebSocket by ``websockets``, JSON by the standard library; nothing of the server is imported.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from .errors import ClientClosed, ClientError, ConnectionLost, Refused
from .hub_connection import ClientOptions, Connection
from .hub_streams import Attachment, Event, Following, Handler, Message, Stream, TerminalItem
from .hub_tools import Offer, Tool, ToolError
from .hub_workspace import Workspace

__all__ = [
    "Attachment",
    "ClientOptions",
    "Event",
    "Following",
    "HubClient",
    "Offer",
    "TerminalItem",
    "Tool",
    "ToolError",
    "Workspace",
]

log = logging.getLogger("dragoman.client")

_MARKS = frozenset({"skipped", "resized", "started", "ended"})
_HEAD = struct.Struct("!IQ")
_HANDLE = struct.Struct("!I")


class HubClient:
    """See the module. ``url`` is the dialect's root, such as ``http://127.0.0.1:7337/hub``, or its ``ws`` form."""

    def __init__(self, url: str, *, token: str | None = None, options: ClientOptions | None = None) -> None:
        self.options = options or ClientOptions()
        root = url.rstrip("/").removesuffix("/ws")
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self._connection = Connection(f"{_ws(root)}/ws", headers, self.options, self)
        self._followings: dict[str, Following] = {}
        self._attachments: dict[str, Attachment] = {}
        self._offers: dict[str, Offer] = {}
        self._sign_ins: dict[str, Callable[[str], None]] = {}
        self._rows: Callable[[Message], None] | None = None
        self._timers: set[asyncio.TimerHandle] = set()

    # Life

    async def __aenter__(self) -> HubClient:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def start(self) -> None:
        """Begin to connect, in the background."""
        self._connection.start()

    async def close(self) -> None:
        """End every stream and the connection."""
        await self._connection.close(ClientClosed("the client is closed"))
        for timer in self._timers:
            timer.cancel()
        for stream in self._streams():
            await stream.stop()
        for offer in list(self._offers.values()):
            await offer.stop()

    async def ended(self) -> None:
        """Wait until the client has given up. Raises ``Denied``, or ``ClientClosed``."""
        await self._connection.over()

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection.wire is not None

    @property
    def connections(self) -> int:
        """How many connections there have been."""
        return self._connection.count

    @property
    def hello(self) -> Message | None:
        """What the server said of itself when the newest connection began."""
        return self._connection.hello

    # Asking

    async def request(self, op: str, *, again: bool = False, within: float | None = None, **fields: Any) -> Message:
        """Send one message and return its answer, which must come ``within`` so many seconds, else the options'
        ``answer_limit``. Waits for a connection if there is none.

        ``again`` says that it may be repeated after a cut; otherwise a cut before the answer raises
        ``ConnectionLost``. Raises ``Refused``, ``Denied``, ``TimeoutError``.
        """
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def answered(message: Message) -> None:
            if not future.done():
                future.set_result(message)

        def lost(error: ClientError) -> None:
            if not future.done():
                future.set_exception(error)

        number = self._connection.ask({"op": op, **fields}, again=again, answered=answered, lost=lost)
        try:
            async with asyncio.timeout(self.options.answer_limit if within is None else within):
                answer = await future
        finally:
            self._connection.forget(number)
        if answer["type"] == "error":
            raise _refusal(answer)
        return answer

    async def sessions(self, **query: Any) -> list[Message]:
        """The sessions (``status``, ``kind``, ``limit``), newest last."""
        rows: list[Message] = (await self.request("list", again=True, **query))["sessions"]
        return rows

    async def create(self, **fields: Any) -> str:
        """Make a session (``kind``, ``cwd``, ``agent``, ``title``, ``options``, ``start``) and return its id."""
        return str((await self.request("create", **fields))["session"])

    async def snapshot(self, session: str) -> Message:
        """What is true of it, with the cursor ``seq`` to follow from."""
        return await self.request("snapshot", again=True, session=session)

    async def events(self, session: str, **query: Any) -> Message:
        """One page of its log (``after`` or ``before``, ``limit``)."""
        return await self.request("events", again=True, session=session, **query)

    async def submit(self, session: str, text: str, *, when_busy: str = "refuse", key: str | None = None) -> Message:
        """Submit a prompt. It gets a message id (``key``) in any case, so that a cut never makes two turns of it."""
        key = key or str(uuid.uuid4())
        return await self.request(
            "submit", again=True, session=session, text=text, when_busy=when_busy, client_message_id=key
        )

    async def answer(self, session: str, decision: str, **answer: Any) -> Message:
        """Answer a decision (``accept``, ``option``, ``text``…).

        ``Refused`` with ``already_resolved`` and the ``outcome`` if someone was first.
        """
        return await self.request("answer", session=session, decision=decision, answer=answer)

    async def cancel(self, session: str, turn: str | None = None) -> Message:
        """End that turn, or the open one; returns once it has ended."""
        return await self.request("cancel", session=session, turn=turn)

    async def merge_history(self, session: str, messages: Iterable[Message], *, replace: bool = False) -> Message:
        """Append messages (``role``, ``content``…) to what the agent knows, or put them in its place."""
        return await self.request("merge_history", session=session, messages=list(messages), replace=replace)

    async def reset_history(self, session: str) -> Message:
        """Let later turns see nothing from before."""
        return await self.request("reset_history", again=True, session=session)

    async def compact(self, session: str) -> Message:
        """Have the agent shorten its context; returns once it has, or raises ``TimeoutError`` and it goes on."""
        return await self.request("compact", session=session)

    async def type(self, session: str, text: str, *, enter: bool = False) -> None:
        """Type into the terminal."""
        await self.request("input", session=session, text=text, enter=enter)

    async def providers(self) -> list[Message]:
        """The model providers, in the order in which they are chosen."""
        found: list[Message] = (await self.request("providers", again=True))["providers"]
        return found

    async def provider_status(self, *, verify: bool = False) -> list[Message]:
        """How each of them stands, in the same order. ``verify`` asks them whether they take their keys."""
        found: list[Message] = (await self.request("provider_status", again=True, verify=verify))["statuses"]
        return found

    async def set_key(self, provider: str, key: str) -> None:
        """Keep a provider's key; returns once it is on the server's disk."""
        await self.request("set_key", again=True, provider=provider, key=key)

    async def forget_key(self, provider: str) -> bool:
        """Remove it; False when there was none."""
        return bool((await self.request("forget_key", provider=provider))["removed"])

    async def auth_methods(self) -> dict[str, list[Message]]:
        """How each provider can be signed in to: each way with ``id``, ``type``, ``label``, ``oauth_mode``."""
        found: dict[str, list[Message]] = (await self.request("auth_methods", again=True))["methods"]
        return found

    async def begin_sign_in(self, provider: str, method: str) -> Message:
        """What the person is to do: ``method``, ``instructions``, and a ``command`` or a ``url``."""
        return await self.request("begin_sign_in", again=True, provider=provider, method=method)

    async def finish_sign_in(
        self, provider: str, method: str, tell: Callable[[str], None], *, code: str | None = None, limit: float = 600.0
    ) -> Message:
        """Sign in, which may wait ``limit`` seconds for a person; ``ok``, ``mode``, ``message``.

        ``tell`` is given what the provider's program says meanwhile.
        """
        self._sign_ins[provider] = tell
        try:
            return await self.request("finish_sign_in", within=limit, provider=provider, method=method, code=code)
        finally:
            self._sign_ins.pop(provider, None)

    def workspace(self, session: str) -> Workspace:
        """What surrounds that session: checkpoints of its folder, skills, and slash commands."""
        return Workspace(self, session)

    async def write(self, attachment: Attachment, data: bytes) -> None:
        """Raw input to an attached terminal; returns once it is sent. Raises ``ConnectionLost``."""
        wire, handle = self._connection.wire, attachment.handle
        if wire is None or handle is None:
            raise ConnectionLost("there is no connection now")
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wire.put(_HANDLE.pack(handle) + data, sent)
        await sent

    # Streams

    def follow(
        self, session: str, handler: Handler[Event], *, after: int | None = None, coalesce: bool = False
    ) -> Following:
        """Hand every event behind ``after`` (without it: every new one) to ``handler``, one after the other.

        One per session and client: ``ValueError`` for a second.
        """
        _check_free(self._followings, session, "followed")
        stream = Following(self, session, handler, after, self.options.stream_backlog, coalesce=coalesce)
        self._followings[session] = stream
        self.begin(stream)
        return stream

    def attach(self, session: str, handler: Handler[TerminalItem], *, offset: int | None = None) -> Attachment:
        """Hand a terminal's output from ``offset`` on (without it: what is new) to ``handler``, and what concerns it.

        One per session and client: ``ValueError`` for a second.
        """
        _check_free(self._attachments, session, "attached")
        stream = Attachment(self, session, handler, offset, self.options.stream_backlog)
        self._attachments[session] = stream
        self.begin(stream)
        return stream

    def tools(self, session: str, tools: Iterable[Tool]) -> Offer:
        """Tools that this client runs for the session's agent: offered while ``async with`` lasts.

        One offer per session and client: ``ValueError`` for a second.
        """
        if session in self._offers:
            raise ValueError(f"this client offers tools in session {session} already")
        offer = self._offers[session] = Offer(self, session, tools)
        return offer

    def forget_tools(self, offer: Offer) -> None:
        """For offers: it is over."""
        if self._offers.get(offer.session) is offer:
            del self._offers[offer.session]

    def watch(self, handler: Callable[[Message], None]) -> None:
        """Hand the row of every session, and every row that changes, to ``handler``; all again after a reconnect."""
        self._rows = handler
        self._ask_rows()

    def begin(self, stream: Stream[Any]) -> None:
        """For streams: ask the server for it, if there is a connection."""
        if not self.connected or not stream.wanted:
            return

        def answered(message: Message) -> None:
            if message["type"] == "ok":
                stream.accepted(message)
            else:
                stream.refused(_refusal(message))

        self._connection.ask(stream.request(), again=False, answered=answered, lost=_ignore)

    def pause(self, stream: Stream[Any]) -> None:
        """For streams: ask the server to stop for now."""
        if self.connected:
            asked = {"op": stream.pause_op, "session": stream.session}
            self._connection.ask(asked, again=False, answered=_ignore, lost=_ignore)

    def begin_later(self, stream: Stream[Any]) -> None:
        """For streams: ask again after a while."""

        def due() -> None:
            self._timers.discard(timer)
            self.begin(stream)

        timer = asyncio.get_running_loop().call_later(self.options.longest_retry, due)
        self._timers.add(timer)

    def forget(self, stream: Stream[Any]) -> None:
        """For streams: it is over."""
        for streams in (self._followings, self._attachments):
            if streams.get(stream.session) is stream:
                del streams[stream.session]
                self.pause(stream)

    # For the connection

    def on_connected(self) -> None:
        """Ask for every stream again, each from its place."""
        for stream in self._streams():
            self.begin(stream)
        for offer in self._offers.values():
            offer.connected()
        self._ask_rows()

    def on_cut(self) -> None:
        """What comes from now on was asked for on another connection."""
        for stream in self._streams():
            stream.cut()
        for offer in self._offers.values():
            offer.cut()

    def on_message(self, message: Message, size: int) -> None:
        """A message that answers nothing goes to the stream it is for."""
        kind, session = message["type"], message.get("session", "")
        if kind == "events" and (following := self._followings.get(session)) is not None:
            following.events(message["events"], size)
        elif kind in _MARKS and (attachment := self._attachments.get(session)) is not None:
            attachment.mark(message)
        elif kind in ("calls", "call_over") and (offer := self._offers.get(session)) is not None:
            offer.received(message)
        elif kind == "session":
            self._row({name: value for name, value in message.items() if name != "type"})
        elif kind == "sign_in_line":
            self._sign_ins.get(message["provider"], _ignore)(message["line"])
        elif kind in ("gone", "error"):
            self._on_problem(message, session)

    def on_output(self, data: bytes) -> None:
        """Raw output goes to the attachment with its handle."""
        handle, offset = _HEAD.unpack_from(data)
        for attachment in self._attachments.values():
            if attachment.handle == handle:
                attachment.output(offset, data[_HEAD.size :])

    def on_end(self, error: ClientError) -> None:
        """There will be no other connection."""
        for stream in self._streams():
            stream.fail(error)

    # Inside

    def _on_problem(self, message: Message, session: str) -> None:
        streams: dict[str, dict[str, Any]] = {"events": self._followings, "output": self._attachments}
        stream = streams.get(message.get("stream", ""), {}).get(session)
        if stream is not None:
            gone = message["type"] == "gone"
            stream.refused(Refused("gone", f"session {session} was deleted") if gone else _refusal(message))
        elif message["type"] == "error":
            log.warning("the server refused: %s", message["message"])

    def _streams(self) -> list[Stream[Any]]:
        return [*self._followings.values(), *self._attachments.values()]

    def _ask_rows(self) -> None:
        if self._rows is None or not self.connected:
            return

        def answered(message: Message) -> None:
            for row in message.get("sessions", ()):
                self._row(row)

        self._connection.ask({"op": "watch"}, again=False, answered=answered, lost=_ignore)

    def _row(self, row: Message) -> None:
        if self._rows is None:
            return
        try:
            self._rows(row)
        except Exception:
            log.exception("the handler of watched sessions failed")


def _ws(root: str) -> str:
    """``http`` as ``ws``, ``https`` as ``wss``."""
    return root.replace("http", "ws", 1) if root.startswith("http") else root


def _check_free(streams: Mapping[str, Stream[Any]], session: str, what: str) -> None:
    if session in streams:
        raise ValueError(f"session {session} is {what} by this client already")


def _ignore(_: object) -> None:
    """For requests whose answer changes nothing."""


def _refusal(answer: Message) -> Refused:
    return Refused(answer["code"], answer["message"], answer)
