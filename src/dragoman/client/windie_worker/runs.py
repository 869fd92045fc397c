"""The routes of runs, as their clients and workers call them (seed: runs)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from dragoman.client.errors import ClientError, ConnectionLost, Refused
from dragoman.client.windie.http import WindieHttp

Message = dict[str, Any]
"""A JSON object, as on the wire."""


NAME_LENGTH = 512
"""Characters of an id that a server may give."""


class RunsClient:
    """One server's runs. ``root`` is what ``/api/...`` is added to, ``limit`` seconds for one call.

    Every call raises ``Refused``, with ``code`` ``http_409`` and the like, and ``ConnectionLost``: then it is not known
    whether it was carried out. An answer that is none of such a server counts as ``http_502``.
    """

    def __init__(self, root: str, runs_key: str, *, install_token: str | None = None, limit: float = 15.0) -> None:
        self._http = WindieHttp(root, install_token, limit, {"x-windie-runs-key": runs_key})

    async def create(self, workspace_id: str, query: str, **given: Any) -> Message:
        """Ask for a run; ``given`` are ``agent_id``, ``requested_by``, ``files``, ``metadata``. Returns the run."""
        answer = await self._http.post("/api/runs/", {"workspace_id": workspace_id, "query": query, **given})
        return _object(answer, "run")

    async def state(self, run_id: str) -> Message:
        """The run as it is."""
        return await self._http.get(_at(run_id))

    async def events(
        self, run_id: str, after_seq: int = 0, *, limit: int | None = None, wait_seconds: int | None = None
    ) -> list[Message]:
        """Its events after this one. A server that knows how waits for the next one, so many seconds at most."""
        query = {"after_seq": after_seq, "limit": limit, "wait_seconds": wait_seconds}
        found = (await self._http.get(_at(run_id, "/events"), query)).get("events")
        return [event for event in found if _is_event(event)] if isinstance(found, list) else []

    async def control(self, run_id: str, action: str, **given: Any) -> Message:
        """``pause``, ``resume``, ``stop``, or ``set-control-mode`` with ``control_mode``. Returns the run."""
        return _object(await self._http.post(_at(run_id, "/control"), {"action": action, **given}), "run")

    async def heartbeat(self, worker: Message) -> Message:
        """A worker is there; returns ``assigned_run`` and ``control_commands``."""
        answer = await self._http.post("/api/runs/workers/heartbeat", worker)
        assigned, commands = answer.get("assigned_run"), answer.get("control_commands")
        if assigned is not None and not _is_assignment(assigned):
            raise _odd("assigned_run")
        if not isinstance(commands, list) or not all(map(_is_command, commands)):
            raise _odd("control_commands")
        return answer

    async def dispatched(self, run_id: str, said: Message) -> Message:
        """A worker is about to begin; returns ``run`` and ``latest_event``."""
        return _acted(await self._http.post(_at(run_id, "/worker-dispatched"), said))

    async def relay(self, run_id: str, event: Message) -> Message:
        """Add an event of the turn; returns ``run`` and ``latest_event``."""
        return _acted(await self._http.post(_at(run_id, "/events"), event))


def is_passing(problem: ClientError) -> bool:
    """Whether the same call may go well later: nobody answered, or the server says that it cannot now."""
    if isinstance(problem, ConnectionLost):
        return True
    return isinstance(problem, Refused) and (problem.code == "http_429" or problem.code.startswith("http_5"))


def _at(run_id: str, below: str = "") -> str:
    return f"/api/runs/{quote(run_id, safe='')}{below}"


def _object(answer: Message, name: str) -> Message:
    found = answer.get(name)
    if not isinstance(found, dict):
        raise _odd(name)
    return found


def _acted(answer: Message) -> Message:
    _object(answer, "run")
    if not _is_event(answer.get("latest_event")):
        raise _odd("latest_event")
    return answer


def _odd(name: str) -> Refused:
    return Refused("http_502", f"the answer is not one of a server of runs: its {name} is missing or odd")


def _is_event(found: object) -> bool:
    return isinstance(found, dict) and type(found.get("seq")) is int


def _is_assignment(found: object) -> bool:
    """Whether a run can be begun with it. Its id goes to terminals and into addresses."""
    if not isinstance(found, dict):
        return False
    named = _is_name(found.get("run_id")) and all(
        isinstance(found.get(key), str) for key in ("conversation_ref", "query")
    )
    files, metadata = found.get("files", []), found.get("metadata", {})
    return (
        named and isinstance(metadata, dict) and isinstance(files, list) and all(isinstance(it, dict) for it in files)
    )


def _is_command(found: object) -> bool:
    return isinstance(found, dict) and _is_name(found.get("run_id")) and _is_name(found.get("action"))


def _is_name(found: object) -> bool:
    return isinstance(found, str) and 0 < len(found) <= NAME_LENGTH and found.isprintable()
