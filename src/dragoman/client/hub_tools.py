"""Tools that a hub client runs for an agent: offered while a block lasts, also across reconnects.

    async def look(given: Any) -> Any:
        return {"seen": given["at"]}

    async with client.tools(session, [Tool("look", look, "Look at something", schema)]) as offer:
        ...

A call is run in a task of its own, so a slow tool holds up nothing. The calls of a bundle run one after the other, up
to the first that fails. When the connection is cut the server gives up the calls that were open, and so does this
side; the tools are offered anew on the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from .errors import ClientError, Refused
from .hub_streams import Message

log = logging.getLogger("dragoman.client")

_OVER = frozenset({"already_ended", "unknown_call"})
"""Refusals that say that nobody waits for the result any more."""

_WHY_CHARS = 500
"""Characters of what is said of a result that could not be given."""


class ToolError(Exception):
    """Raised by a tool that could not do it: its text is the call's error."""


@dataclass(frozen=True)
class Tool:
    """One tool. ``run`` gets the call's input and returns its output, both JSON; ``parameters`` is the input's schema.

    Cancelled when the call is over without it: its turn was cancelled, its time is up, the connection was cut.
    """

    name: str
    run: Callable[[Any], Awaitable[Any]]
    description: str = ""
    parameters: Message = field(default_factory=lambda: {"type": "object"})


class Teller(Protocol):
    """What an offer needs of its client."""

    @property
    def connected(self) -> bool: ...

    async def request(self, op: str, *, again: bool = False, **fields: Any) -> Message: ...

    def forget_tools(self, offer: Offer) -> None:
        """The offer is over."""


class Offer:
    """The tools that one client runs in one session; see the module. Made by ``HubClient.tools``.

    ``rejected`` holds what the server did not take: ``name`` and ``reason`` of each.
    """

    def __init__(self, client: Teller, session: str, tools: Iterable[Tool]) -> None:
        self.session = session
        self.rejected: list[Message] = []
        self._client = client
        self._tools = {tool.name: tool for tool in tools}
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._declared = False

    async def __aenter__(self) -> Offer:
        """Offer them. Raises ``Refused`` when the session takes none at all."""
        try:
            await self.declare()
        except BaseException:
            self._client.forget_tools(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take them back and stop what runs."""
        self._client.forget_tools(self)
        try:
            if self._client.connected:  # otherwise they went with the connection
                await self._client.request("declare_tools", session=self.session, tools=[])
        except (ClientError, TimeoutError) as problem:
            log.debug("the tools of session %s were not taken back: %s", self.session, problem)
        finally:
            await self.stop()

    async def declare(self) -> None:
        """Say which tools there are, on the connection there is now."""
        tools = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in self._tools.values()
        ]
        answer = await self._client.request("declare_tools", again=True, session=self.session, tools=tools)
        self.rejected = answer["rejected"]
        self._declared = True

    async def stop(self) -> None:
        """Stop what runs, and wait until it has."""
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # For the client

    def connected(self) -> None:
        """There is another connection, on which nothing was offered yet. A first request is repeated by itself."""
        if self._declared:
            self._start(self._declare_again())

    def cut(self) -> None:
        """The connection is gone, and the calls with it."""
        for task in self._tasks:
            task.cancel()

    def received(self, message: Message) -> None:
        """Calls to run, or one that is over."""
        if message["type"] == "calls":
            self._begin(message)
        elif (task := self._running.pop(message["call"], None)) is not None:
            task.cancel()

    # Inside

    def _begin(self, message: Message) -> None:
        task = self._start(self._run(message))
        self._running.update((call["call"], task) for call in message["calls"])

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=f"tools:{self.session}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _declare_again(self) -> None:
        try:
            await self.declare()
        except (ClientError, TimeoutError) as problem:
            log.warning("the tools for session %s could not be offered again: %s", self.session, problem)

    async def _run(self, message: Message) -> None:
        results: list[Message] = []
        try:
            for call in message["calls"]:
                results.append(await self._one(call))
                if results[-1]["status"] != "ok":
                    break
        finally:
            for call in message["calls"]:
                self._running.pop(call["call"], None)
        await self._tell(message, results)

    async def _one(self, call: Message) -> Message:
        try:
            output = await self._tools[call["tool"]].run(call["input"])
            return {"call": call["call"], "status": "ok", "output": output}
        except ToolError as problem:
            why = str(problem)
        except Exception as problem:
            log.exception("the tool %s failed", call["tool"])
            why = f"the tool failed: {type(problem).__name__}"
        return {"call": call["call"], "status": "error", "error": why}

    async def _tell(self, message: Message, results: list[Message]) -> None:
        bundle = message["bundle"]
        try:
            if bundle is None:
                await self._client.request("end_tool", session=self.session, **results[0])
            else:
                await self._client.request("end_tools", session=self.session, bundle=bundle, results=results)
        except Refused as problem:
            if problem.code not in _OVER:
                await self._give_up(message, f"the result was refused: {problem.message}")
        except (TypeError, ValueError) as problem:
            await self._give_up(message, f"the result is not JSON: {problem}")
        except (ClientError, TimeoutError) as problem:
            log.warning("the result of %s may be lost: %s", results[0]["call"], problem)

    async def _give_up(self, message: Message, why: str) -> None:
        """A result that cannot be sent, or is not taken, must not leave its call waiting."""
        log.warning("session %s: %s", self.session, why)
        for call in message["calls"]:
            try:
                await self._client.request(
                    "end_tool", session=self.session, call=call["call"], status="error", error=why[:_WHY_CHARS]
                )
            except (ClientError, TimeoutError) as problem:
                log.debug("call %s was not ended: %s", call["call"], problem)
