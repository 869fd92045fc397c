"""Results of tools that the client runs (spec §5 tool-result, tool-bundle-result; §6 Tools).

Nothing is answered. A result that is nobody's (unknown, late, come twice, of another link) changes nothing. The model
is given the output and the screenshots alone; all else stays beside the result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.hub.client_tools import CallResult
from dragoman.hub.errors import (
    AlreadyEnded,
    HubError,
    InvalidRequest,
    LimitReached,
    StorageUnavailable,
    UnknownCall,
)
from dragoman.hub.events import Attachment, Json, Problem
from dragoman.hub.permissions import Principal
from dragoman.hub.session import Session
from dragoman.hub.standing import OpenCall

from . import screenshots
from .client_messages import ClientMessage, StepResult, ToolBundleResult, ToolData, ToolResult
from .host import Host
from .projection import request_id

if TYPE_CHECKING:
    from .link import WindieLink
    from .users import User

log = logging.getLogger("dragoman.windie")

WELL = ("ok", "success")
"""What clients say of a step that went well; anything else says that it did not."""

DISK_AGAIN = 1.0
"""Seconds until a result that could not be written is tried again, as long as its call is open."""

_STATE = ("system_state", "system_state_internal", "capture_meta")


async def tool_result(link: WindieLink, user: User, host: Host, message: ClientMessage, taking: set[str]) -> None:
    """End the call that this is the result of. ``taking`` are the names of those of the link whose results are being
    taken: the first one counts, however long its screenshot takes."""
    given = message.payload
    assert isinstance(given, ToolResult)
    found = _call(link, given.request_id) if given.request_id not in taking else None
    if found is None:
        log.log(
            link.noise(),
            "TOOL_NOT_FOUND: a result came for %.200r, no open call of its link",
            given.request_id,
        )
        return
    taking.add(given.request_id)
    try:
        await _end_call(link, user, host, given, *found)
    finally:
        taking.discard(given.request_id)


async def _end_call(
    link: WindieLink, user: User, host: Host, given: ToolResult, session: Session, call: OpenCall
) -> None:
    if not given.success:
        log.info("TOOL_EXECUTION_ERROR: %s of session %s failed: %.200r", call.tool, session.id, given.error)
    data = given.data or ToolData()
    pictures = await _pictures(session, host, user, data.screenshot_ref, data.screenshot)
    result = CallResult(
        call=call.call,
        status="ok" if given.success else "error",
        output=None if data.output is UNSET else data.output,
        problem=None if given.success else _problem(given.error, data.output),
        artifacts=tuple(it.artifact for it in pictures),
        detail=_detail(data),
    )
    await _Results(link, user, session, pictures).end([result])


async def tool_bundle_result(
    link: WindieLink, user: User, host: Host, message: ClientMessage, taking: set[str]
) -> None:
    """End the calls of the bundle that this is the result of. A step without a result was not run. ``taking`` is as for
    ``tool_result``."""
    given = message.payload
    assert isinstance(given, ToolBundleResult)
    found = _bundle(link, given.bundle_id) if given.bundle_id not in taking else None
    if found is None:
        log.log(link.noise(), "TOOL_NOT_FOUND: results came for bundle %.200r, none of its link's", given.bundle_id)
        return
    taking.add(given.bundle_id)
    try:
        await _end_bundle(link, user, host, given, *found)
    finally:
        taking.discard(given.bundle_id)


async def _end_bundle(
    link: WindieLink, user: User, host: Host, given: ToolBundleResult, session: Session, calls: list[OpenCall]
) -> None:
    if given.status != "success":
        log.info("TOOL_EXECUTION_ERROR: bundle %s of session %s: %s", given.bundle_id, session.id, given.status)
    results = _step_results(calls, given)
    pictures: tuple[Attachment, ...] = ()
    if results:
        pictures = await _pictures(session, host, user, given.screenshot_ref, given.screenshot)
        results[-1] = _with_bundles(results[-1], given, pictures)
    await _Results(link, user, session, pictures).end(results, given.bundle_id)


class _Results:
    """Ends calls of one link in one session; what came with them is kept, or let go if nothing is ended."""

    def __init__(self, link: WindieLink, user: User, session: Session, pictures: tuple[Attachment, ...]) -> None:
        self._link = link.id
        self._session = session
        self._principal: Principal = user.caller.for_session(session.id)
        self._pictures = pictures

    async def end(self, results: Sequence[CallResult], bundle: str | None = None) -> None:
        while True:
            try:
                await self._end_once(results, bundle)
            except StorageUnavailable as problem:
                # No client sends a result twice: the call would wait for its time to be over.
                log.warning("a result in session %s waits for the disk: %s", self._session.id, problem)
                await asyncio.sleep(DISK_AGAIN)
                if not any(result.call in self._session.state.calls for result in results):
                    return
            else:
                return

    async def _end_once(self, results: Sequence[CallResult], bundle: str | None) -> None:
        try:
            await self._given(results, bundle)
        except (LimitReached, InvalidRequest) as problem:
            # The client has no other result, and the turn waits for one.
            log.warning("TOOL_VALIDATION_ERROR: a result in session %s is not taken: %s", self._session.id, problem)
            await self._end_or_let_go([_not_taken(result, problem) for result in results], bundle)

    async def _given(self, results: Sequence[CallResult], bundle: str | None) -> None:
        try:
            await self._end(results, bundle)
        except (AlreadyEnded, UnknownCall) as problem:
            log.info("TOOL_NOT_FOUND: session %s: %s", self._session.id, problem)
            await screenshots.let_go(self._session, self._pictures)

    async def _end_or_let_go(self, results: Sequence[CallResult], bundle: str | None) -> None:
        await screenshots.let_go(self._session, self._pictures)
        self._pictures = ()
        await self._given(results, bundle)

    async def _end(self, results: Sequence[CallResult], bundle: str | None) -> None:
        if bundle is not None:
            await self._session.end_tools(self._principal, bundle, results, link=self._link, stored=self._pictures)
            return
        (result,) = results
        await self._session.end_tool(
            self._principal,
            result.call,
            link=self._link,
            status=result.status,
            output=result.output,
            problem=result.problem,
            artifacts=result.artifacts,
            detail=result.detail,
            stored=self._pictures,
        )


# Which calls


def _call(link: WindieLink, name: str) -> tuple[Session, OpenCall] | None:
    """The open call of this link that is called so on the wire."""
    for session in link.sessions():
        for call in session.state.calls.values():
            if call.client == link.id and request_id(session.id, call.seq) == name:
                return session, call
    return None


def _bundle(link: WindieLink, bundle: str) -> tuple[Session, list[OpenCall]] | None:
    """The open calls of this bundle of the link's, in their order."""
    for session in link.sessions():
        calls = [call for call in session.state.calls.values() if (call.client, call.bundle) == (link.id, bundle)]
        if calls:
            return session, sorted(calls, key=lambda call: call.position or 0)
    return None


# What they gave


async def _pictures(
    session: Session, host: Host, user: User, ref: str | None, inline: str | None
) -> tuple[Attachment, ...]:
    """The screenshots that came with a result; without one that cannot be used, the result stands all the same."""
    found: list[Attachment | None] = []
    if ref and ref.strip():
        found.append(await screenshots.uploaded(session, host.artifacts, user.caller.owner, ref))
    if inline:
        try:
            found.append(await screenshots.inline(session, inline))
        except InvalidRequest as problem:
            log.warning("a result in session %s goes without its screenshot: %s", session.id, problem)
    return tuple(it for it in found if it is not None)


def _step_results(calls: Iterable[OpenCall], given: ToolBundleResult) -> list[CallResult]:
    """Each call takes the first result of its tool that none before it took. Results beyond those are ignored."""
    left = list(given.step_results)
    results = []
    for call in calls:
        step = next((step for step in left if step.tool == call.tool), None)
        if step is not None:
            left.remove(step)
            results.append(_step_result(call, step, given))
        elif not given.step_results and not results and given.status != "success":
            # The bundle failed as a whole: its first call says why.
            results.append(CallResult(call=call.call, status="error", problem=_problem(given.error, UNSET)))
    if left:
        log.info("%d results of bundle %s belong to none of its steps", len(left), given.bundle_id)
    return results


def _step_result(call: OpenCall, step: StepResult, given: ToolBundleResult) -> CallResult:
    well, output = step.status in WELL, _step_output(step.output)
    if well and output is None:
        output = f"Tool {call.tool} executed successfully (no output)."
    said = step.extra.get("error")
    problem = _problem(said if isinstance(said, str) else given.error, UNSET if output is None else output)
    return CallResult(
        call=call.call,
        status="ok" if well else "error",
        output=output,
        problem=None if well else problem,
        detail={"step_status": step.status, **({"extra": step.extra} if step.extra else {})},
    )


def _step_output(output: Any) -> Json:
    """Both SDKs put a step's output into an object of its own."""
    if isinstance(output, dict) and output.keys() == {"output"}:
        return output["output"]
    return output


def _with_bundles(last: CallResult, given: ToolBundleResult, pictures: tuple[Attachment, ...]) -> CallResult:
    """The bundle's own fields stay with its last result."""
    beside: dict[str, Json] = {
        "bundle_status": given.status,
        "bundle_error": given.error,
        "capture_meta": given.capture_meta,
        "system_state": given.system_state,
        "display_attachments": given.display_attachments,
    }
    told = {name: value for name, value in beside.items() if value is not None}
    artifacts = tuple(it.artifact for it in pictures)
    return msgspec.structs.replace(last, artifacts=artifacts, detail={**last.detail, **told})


def _detail(data: ToolData) -> dict[str, Json]:
    """All but the output. Free fields stay apart, so that none can be taken for one of ours."""
    told = {name: msgspec.to_builtins(value) for name in _STATE if (value := getattr(data, name)) is not None}
    return {**told, **({"extra": data.extra} if data.extra else {})}


def _problem(error: str | None, output: Any) -> Problem:
    text = error or (output if isinstance(output, str) else "") or "the tool failed, and did not say why"
    return Problem(code="tool_failed", message=text)


def _not_taken(result: CallResult, problem: HubError) -> CallResult:
    return CallResult(
        call=result.call,
        status="error",
        problem=Problem(code="tool_failed", message=f"the tool's result cannot be taken: {problem}"),
    )
