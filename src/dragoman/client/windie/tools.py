"""Functions of this process that the agent may call: what they are, and one call of one of them."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import ToolNotUsable

log = logging.getLogger("dragoman.client")

Handler = Callable[..., Any]
"""Given the call's parameters by their names; returns JSON, or an awaitable of it."""

_KEYS = frozenset({"name", "description", "module", "schema", "handler", "timeout"})


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool. ``schema`` is JSON Schema of its parameters; ``timeout`` is seconds for one call, None the client's.

    A function that is not ``async`` runs in a thread, which goes on when the time is up: nothing can stop it.
    """

    name: str
    handler: Handler
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    timeout: float | None = None

    def entry(self) -> dict[str, Any]:
        """The tool in a client manifest. A description is required there, so one is made where none was given."""
        said = self.description.strip() or _first_words(self.handler) or f"The tool {self.name}."
        return {
            "name": self.name,
            "description": said,
            "execution_target": "local_runtime",
            "schema": dict(self.schema),
            "argument_resolution": "passthrough",
        }


def tool_of(given: Tool | Mapping[str, Any]) -> Tool:
    """A tool as ``wake_up`` takes it: ``{name, description, schema, module or handler, timeout}``.

    ``module`` is ``"package.module:function"``, imported here. Raises ``ToolNotUsable``.
    """
    if isinstance(given, Tool):
        return given
    name = given.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ToolNotUsable(f"a tool needs a name: {dict(given)!r}")
    if unknown := sorted(set(given) - _KEYS):
        raise ToolNotUsable(f"the tool {name} has unknown keys: {', '.join(unknown)}")
    handler = given.get("handler") or _imported(name, given.get("module"))
    if not callable(handler):
        raise ToolNotUsable(f"the handler of the tool {name} is no function")
    more = {key: given[key] for key in ("description", "schema", "timeout") if given.get(key) is not None}
    return Tool(name=name, handler=handler, **more)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one call: ``output`` is JSON; ``error`` says why there is none."""

    output: Any = None
    error: str | None = None


class Toolbox:
    """The tools of one agent. ``limit`` is seconds for a call of one that says none."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._tools: dict[str, Tool] = {}

    def add(self, tool: Tool) -> None:
        """Have it called by its name. Raises ``ToolNotUsable`` when there is one of that name."""
        if tool.name in self._tools:
            raise ToolNotUsable(f"there are two tools with the name {tool.name}")
        self._tools[tool.name] = tool

    def manifest(self) -> dict[str, Any] | None:
        """The tools as a handshake says them; None when there are none."""
        if not self._tools:
            return None
        return {"version": 1, "tools": [tool.entry() for tool in self._tools.values()]}

    async def call(self, name: str, parameters: Any) -> Outcome:
        """Run it. Whatever it raises is the outcome's error, in its own words."""
        tool = self._tools.get(name)
        if tool is None:
            return Outcome(error=f"there is no tool {name} here")
        if not isinstance(parameters, dict):
            return Outcome(error=f"the parameters of {name} are no object")
        limit = self._limit if tool.timeout is None else tool.timeout
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                output = await _run(tool.handler, parameters)
            json.dumps(output, allow_nan=False)
        except TimeoutError as problem:
            return Outcome(error=f"{name} did not end within {limit:g} s" if scope.expired() else _words(problem))
        except Exception as problem:
            log.info("the tool %s failed", name, exc_info=True)
            return Outcome(error=_words(problem))
        return Outcome(output)


async def _run(handler: Handler, parameters: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(handler):
        return await handler(**parameters)
    output = await _in_thread(handler, parameters)
    return await output if inspect.isawaitable(output) else output


def _in_thread(handler: Handler, parameters: dict[str, Any]) -> Awaitable[Any]:
    """Run it in a thread of its own, which keeps no process from ending: a pool would wait for one that hangs."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(output: Any, problem: BaseException | None) -> None:
        if future.done():
            return  # its time was up
        if problem is None:
            future.set_result(output)
        else:
            future.set_exception(problem)

    def work() -> None:
        output: Any = None
        problem: BaseException | None = None
        try:
            output = context.run(handler, **parameters)
        except StopIteration as error:  # no future can hold one
            problem = RuntimeError(f"the tool raised {error!r}")
        except BaseException as error:  # noqa: BLE001  whatever ends a thread ends the call, and nothing else
            problem = error if isinstance(error, Exception) else RuntimeError(f"the tool raised {error!r}")
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, output, problem)

    threading.Thread(target=work, name="windie tool", daemon=True).start()
    return future


def _imported(tool: str, place: object) -> Any:
    if not isinstance(place, str) or place.count(":") != 1:
        raise ToolNotUsable(f'the tool {tool} needs a handler, or a module as "package.module:function"')
    module, _, path = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise ToolNotUsable(f"the function of the tool {tool} was not found: {error}") from error
    return found


def _first_words(handler: Handler) -> str:
    return (inspect.getdoc(handler) or "").partition("\n\n")[0]


def _words(problem: Exception) -> str:
    return str(problem) or type(problem).__name__
