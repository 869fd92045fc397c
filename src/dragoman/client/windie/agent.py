"""An agent that is awake: one connection, on which turns run and the agent calls this process's tools."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from dragoman.client.errors import ClientError, ConnectionLost
from dragoman.client.framed import FramedClient
from dragoman.client.reconnecting import Sleep

from . import requests
from .calls import Calls
from .connection import Connection, WindieOptions
from .errors import TurnStopped
from .mcp import McpServers
from .requests import Message, Request
from .tools import Toolbox
from .turn import Turn

log = logging.getLogger("dragoman.client")

RECONNECTED = "client:reconnected"
"""Type of an event that no server sends: there is another connection. A server may have lost its history of the
conversations with the one before, so this is when to ``rehydrate``."""

Listener = Callable[[Message], Any]
"""Given a frame; may be async."""


class Agent(FramedClient[Request, None]):
    """See the module. Made by ``AgentSdkClient.wake_up``, over with ``close`` or the end of ``async with``.

    ``rejected`` are the tools that the server did not take, each with ``name`` and ``reason``; ``accepted`` those that
    it did; ``remote_tools`` what it says it has itself. They are empty where it says nothing of them.
    """

    options: WindieOptions
    _connection: Connection

    def __init__(
        self,
        socket_url: str,
        handshake: Message,
        *,
        toolbox: Toolbox,
        servers: McpServers,
        token: str | None = None,
        options: WindieOptions | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(options or WindieOptions(), None)
        self.accepted: list[Message] = []
        self.rejected: list[Message] = []
        self.remote_tools: list[Message] = []
        self._url = socket_url
        self._handshake = handshake
        self._servers = servers
        self._turns: OrderedDict[str, Turn] = OrderedDict()
        self._queries: dict[str, Request] = {}
        """Of the turns that are not over."""
        self._stopping: dict[str, list[Turn]] = {}
        """What each request to stop is about: no turn that begins after it."""
        self._listeners: dict[str, list[Listener]] = {}
        self._heard: set[asyncio.Task[None]] = set()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._connection = Connection(headers, self.options, self, sleep)
        self._calls = Calls(toolbox, self._answer)

    # Life

    async def start(self) -> None:
        """Connect, and return once the server took the handshake. Raises ``Denied``, ``ReconnectFailed``,
        ``TimeoutError``; a handshake that is refused is ``Denied`` with ``close_code`` 1008."""
        await self._begin(lambda: self.connected)

    async def close(self) -> None:
        """End the connection, what tools run, and the MCP servers. Turns that are not over are ``ClientClosed``."""
        await self._leave()
        await self._calls.stop()
        for task in self._heard:
            task.cancel()
        if self._heard:
            await asyncio.wait(self._heard)
        await self._servers.stop()

    # Turns

    async def query(
        self,
        text: str,
        conversation_ref: str,
        *,
        content: str | None = None,
        screenshot_ref: str | None = None,
        screenshot_refs: Sequence[str] | None = None,
        workspace_path: str | None = None,
        system_state_internal: Message | None = None,
        query_context: Message | None = None,
        message_id: str | None = None,
    ) -> str:
        """Begin a turn and return its id, the query's. ``turn`` has what comes of it. Raises what ended the connection.

        Waits for nothing: while there is no connection the query waits for the next one. ``message_id`` is for whoever
        has told others of the turn before it begins; it must be new.
        """
        payload = {
            "text": text,
            "conversation_ref": conversation_ref,
            "content": requests.as_content(text) if content is None else content,
            "screenshot_ref": screenshot_ref,
            "screenshot_refs": None if screenshot_refs is None else list(screenshot_refs),
            "workspace_path": workspace_path,
            "system_state_internal": system_state_internal,
            "query_context": query_context,
        }
        query = requests.request("query", payload, message_id=message_id)
        turn = Turn(query.id, conversation_ref, self.options.event_backlog)
        self._send(query)
        self._turns[turn.id] = turn
        self._queries[turn.id] = query
        self._forget_old_turns()
        return turn.id

    def turn(self, message_id: str) -> Turn:
        """The turn of a query. Raises ``KeyError`` for one that is long over, or never was."""
        return self._turns[message_id]

    async def ask(self, text: str, conversation_ref: str, *, limit: float | None = None, **query: Any) -> str:
        """Run a turn and return its final response. ``limit`` is seconds. Raises as ``query`` and ``Turn.result``."""
        turn = self.turn(await self.query(text, conversation_ref, **query))
        return await turn.result(limit)

    async def stream(self, text: str, conversation_ref: str, **query: Any) -> AsyncIterator[Message]:
        """Run a turn and give its events. Raises as ``query`` and as iterating over a ``Turn``."""
        async for event in self.turn(await self.query(text, conversation_ref, **query)):
            yield event

    async def stop(self, conversation_ref: str | None = None, turn_ref: str | None = None) -> Message:
        """Stop a turn, those of a conversation, or all; returns the acknowledgement: ``status``, ``canceled``.

        What it stopped raises ``TurnStopped`` for who waits. Raises ``Refused``, ``ConnectionLost``, ``TimeoutError``.
        """
        scope = {"conversation_ref": conversation_ref, "turn_ref": turn_ref}
        stopping = requests.request("stop-query", scope, "stop-query-ack", lasts=False)
        self._stopping[stopping.id] = [turn for turn in self._running() if _in_scope(turn, conversation_ref, turn_ref)]
        try:
            return await self._ask(stopping)
        finally:
            del self._stopping[stopping.id]

    # Conversations and settings

    async def rehydrate(
        self,
        conversation_ref: str,
        messages: Sequence[Message],
        *,
        workspace_path: str | None = None,
        repo_instruction_messages: Sequence[Message] | None = None,
    ) -> None:
        """Replace the conversation's history. Raises ``Refused``, ``ConnectionLost``.

        A server that does it says nothing, so this waits for a refusal, ``refusal_limit`` seconds long.
        """
        payload = {
            "conversation_ref": conversation_ref,
            "messages": list(messages),
            "rehydrate_mode": "replace",
            "workspace_path": workspace_path,
            "repo_instruction_messages": (
                None if repo_instruction_messages is None else list(repo_instruction_messages)
            ),
        }
        await self._until(lambda: self.connected)
        replacing = requests.request("rehydrate-conversation", payload)
        try:
            await self._connection.ask(replacing, self.options.refusal_limit)
        except TimeoutError:
            if not replacing.sent:
                raise ConnectionLost("the connection was cut before the history was sent") from None

    async def load_settings(self) -> Message:
        """The settings: ``config``. Raises ``Refused``, ``ConnectionLost``, ``TimeoutError``."""
        return await self._ask(requests.request("load-settings", {}, "settings-loaded", again=True))

    async def update_settings(self, **settings: Any) -> list[str]:
        """Change some of them, from the next query on, and return their names. Raises as ``load_settings``."""
        answer = await self._ask(requests.request("update-settings", settings, "settings-updated", again=True))
        return list(answer.get("updated_keys", []))

    async def list_models(self) -> Message:
        """The models: ``local``, ``online``, ``vision``. Raises as ``load_settings``."""
        return await self._ask(requests.request("list-models", {}, "models-listed", again=True))

    # Hearing

    def on(self, kind: str, listener: Listener) -> Callable[[], None]:
        """Call it with each frame of this type, ``"*"`` for all; returns what ends that.

        Events of a turn come once and in order. A listener that is async runs in a task; one that raises is logged.
        """
        self._listeners.setdefault(kind, []).append(listener)

        def off() -> None:
            if listener in self._listeners[kind]:
                self._listeners[kind].remove(listener)

        return off

    # For the connection

    def url(self) -> str:
        """Where to connect to now."""
        return self._url

    def greeting(self) -> Message:
        """The handshake."""
        return self._handshake

    def on_let_in(self) -> None:
        """There is a connection that the server took."""
        if self.connections > 1:
            self._publish({"type": RECONNECTED, "payload": {"connections": self.connections}})
        self._tell()

    def on_answer(self, request: Request, frame: Message) -> None:
        """What was stopped says nothing more; listeners hear answers, too."""
        payload = frame["payload"]
        if payload.get("status") == "stopped" or payload.get("canceled") is True:
            for turn in self._stopping.get(request.id, ()):
                turn.end(TurnStopped(f"the turn {turn.id} was stopped"))
            self._settle()
        self._hand_over(frame)
        self._publish(frame)
        self._tell()

    def on_frame(self, frame: Message) -> None:
        """A frame came that answers nobody."""
        if self._is_news(frame):
            self._follow(frame)
            self._hand_over(frame)
            self._publish(frame)
            self._settle()
            self._tell()

    def on_cut(self) -> bool:
        """There is no connection any more, and with it went the turns that had begun."""
        self._calls.cut()
        for turn in self._running():
            if self._queries[turn.id].sent:
                turn.end(ConnectionLost("the connection was cut before the turn's end"))
        self._settle()
        self._tell()
        return True

    def on_end(self, error: ClientError) -> None:
        """There will be no other connection."""
        self._calls.cut()
        for turn in self._running():
            turn.end(error)
        self._settle()
        super().on_end(error)

    # Inside

    def _mark(self, frame: Message) -> None:  # noqa: ARG002  frames of a connection do not come again
        return None

    async def _ask(self, request: Request) -> Message:
        answer: Message = (await self._connection.ask(request, self.options.answer_limit))["payload"]
        return answer

    def _answer(self, result: Request) -> None:
        """What a tool gave. Where the connection is over for good, so is the turn."""
        if self._connection.final is None:
            self._send(result)

    def _is_news(self, frame: Message) -> bool:
        turn = self._turn_of(frame)
        if turn is None:
            return True
        if turn.received(frame):
            return True
        if turn.over and frame["type"] in {"tool-call", "tool-bundle"}:
            self._calls.received(frame, f"the turn is over here: {turn.problem or 'it has its response'}")
        log.debug("%s of the turn %s is passed over", frame["type"], turn.id)
        return False

    def _turn_of(self, frame: Message) -> Turn | None:
        for name in (frame.get("turn_ref"), frame.get("id"), frame["payload"].get("turn_ref")):
            if isinstance(name, str) and name in self._turns:
                return self._turns[name]
        return None

    def _follow(self, frame: Message) -> None:
        kind, payload = frame["type"], frame["payload"]
        if kind in {"tool-call", "tool-bundle"}:
            self._calls.received(frame)
        elif kind == "client-tool-manifest":
            self.accepted = _dicts(payload.get("accepted"))
            self.rejected = _dicts(payload.get("rejected"))
            for tool in self.rejected:
                log.warning("the server does not take the tool %s: %s", tool.get("name"), tool.get("reason"))
        elif kind == "remote-tool-catalog":
            self.remote_tools = _dicts(payload.get("remote_tools"))

    def _publish(self, frame: Message) -> None:
        for listener in [*self._listeners.get(frame["type"], ()), *self._listeners.get("*", ())]:
            try:
                came = listener(frame)
            except Exception:
                log.exception("a listener for %s failed", frame["type"])
                continue
            if inspect.isawaitable(came):
                task = asyncio.get_running_loop().create_task(_listened(came, frame["type"]), name="windie listener")
                self._heard.add(task)
                task.add_done_callback(self._heard.discard)

    def _running(self) -> list[Turn]:
        return [self._turns[name] for name in self._queries]

    def _settle(self) -> None:
        """Forget the queries of turns that are over."""
        self._queries = {name: query for name, query in self._queries.items() if not self._turns[name].over}

    def _forget_old_turns(self) -> None:
        over = [name for name, turn in self._turns.items() if turn.over]
        for name in over[: max(0, len(over) - self.options.turns_kept)]:
            del self._turns[name]


async def _listened(came: Any, kind: str) -> None:
    try:
        await came
    except Exception:
        log.exception("a listener for %s failed", kind)


def _in_scope(turn: Turn, conversation_ref: str | None, turn_ref: str | None) -> bool:
    return conversation_ref in {None, turn.conversation_ref} and turn_ref in {None, turn.id}


def _dicts(given: object) -> list[Message]:
    return [entry for entry in given if isinstance(entry, dict)] if isinstance(given, list) else []
