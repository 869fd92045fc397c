"""Calls that the server makes of this client's tools (seed: tool-call, tool-bundle), and their results."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from .requests import Message, Request, result
from .tools import Outcome, Toolbox

log = logging.getLogger("dragoman.client")

_KNOWN = 4096
"""Calls whose ids are kept, so that one that comes again is not run again."""

_Name = tuple[str, object, str]
"""What a call is known by: its type, its turn and its id, as a server that was started anew may count from 1 again."""


class Calls:
    """Runs each call in a task of its own, so a slow tool holds up nothing; ``send`` is given its result.

    The steps of a bundle run in their order, each whatever became of the one before.
    """

    def __init__(self, toolbox: Toolbox, send: Callable[[Request], None]) -> None:
        self._toolbox = toolbox
        self._send = send
        self._known: OrderedDict[_Name, None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def received(self, frame: Message, refusal: str | None = None) -> None:
        """Run what this frame asks for; or say, instead, that it is not run, and why."""
        payload = frame["payload"]
        name = payload.get("request_id" if frame["type"] == "tool-call" else "bundle_id")
        if not isinstance(name, str) or not name:
            log.warning("a %s without an id is not run", frame["type"])
        elif _is_elsewhere(payload):
            log.debug("%s is run by the server", name)
        elif self._is_new((frame["type"], frame.get("turn_ref"), name)):
            work = self._one if frame["type"] == "tool-call" else self._bundle
            self._start(work(name, payload, refusal))

    def cut(self) -> None:
        """The connection is gone, and the turns with it."""
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        """Stop what runs, and wait until it has."""
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _is_new(self, call: _Name) -> bool:
        if call in self._known:
            log.info("%s came again, and is not run again", call)
            return False
        self._known[call] = None
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return True

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="windie call")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, name: object, parameters: object, refusal: str | None) -> Outcome:
        if refusal is not None:
            return Outcome(error=refusal)
        return await self._toolbox.call(str(name), {} if parameters is None else parameters)

    async def _one(self, request_id: str, payload: Message, refusal: str | None) -> None:
        name = payload.get("tool_name")
        came = await self._call(name, payload.get("parameters"), refusal)
        said = {
            "request_id": request_id,
            "success": came.error is None,
            "data": {"output": _shown(name, came)},
            "error": came.error,
        }
        self._send(result("tool-result", said))

    async def _bundle(self, bundle_id: str, payload: Message, refusal: str | None) -> None:
        steps = payload.get("tools")
        results = [
            _step(step.get("name"), await self._call(step.get("name"), step.get("args"), refusal))
            for step in (steps if isinstance(steps, list) else [])
            if isinstance(step, dict) and not _is_elsewhere(step)
        ]
        failed = [f"{step['tool']}: {step['error']}" for step in results if step["status"] == "error"]
        said = {
            "bundle_id": bundle_id,
            "status": _status(len(results), len(failed)),
            "step_results": results,
            "error": "; ".join(failed) or None,
        }
        self._send(result("tool-bundle-result", said))


def _step(name: object, came: Outcome) -> Message:
    step = {"tool": str(name), "status": "ok" if came.error is None else "error", "output": _shown(name, came)}
    return step if came.error is None else {**step, "error": came.error}


def _shown(name: object, came: Outcome) -> Any:
    """What the model reads: it reads the output only, so an error is said there, too."""
    if came.error is not None:
        return came.error
    empty = came.output is None or came.output == ""
    return f"Tool {name} executed successfully (no output)." if empty else came.output


def _status(steps: int, failed: int) -> str:
    if not failed:
        return "success"
    return "failure" if failed == steps else "partial_failure"


def _is_elsewhere(given: Message) -> bool:
    metadata = given.get("metadata")
    return isinstance(metadata, dict) and metadata.get("skip_local_execution") is True
