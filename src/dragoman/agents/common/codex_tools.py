"""Tool calls in Codex' rollout, and what is asked about them."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dragoman.hub.errors import NOT_JSON
from dragoman.hub.events import Json, Problem, ToolCalled, ToolEnded

from .asking import asks, dialog_about
from .codex_line import Line
from .fields import dict_of, dicts_of, joined_text, text_of
from .observation import Observation, asked, seen

_decode = msgspec.json.Decoder().decode

_HEAD = 400
"""Characters in which what the model is given of a command says how it ended."""

_EXIT_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})$", re.MULTILINE)


def called(line: Line, kind: str) -> Observation:
    """A call begins."""
    payload = line.payload
    call = text_of(payload, "call_id", "id") or ""
    tool = text_of(payload, "name") or kind.removesuffix("_call")
    given = _arguments(payload)
    called = ToolCalled(call=call, tool=tool, input=given, executor="agent", origin=line.origin)
    if asks(tool) is not None:
        return line.says(called, sighting=asked("log", dialog_about(tool, given, call or None), f"log:tool({tool})"))
    return line.says(called, sighting=seen("log", "working", f"log:tool({tool})"))


def _arguments(payload: dict[str, Any]) -> Json:
    given: Json = payload.get("arguments", payload.get("input", payload.get("action")))
    if not isinstance(given, str):
        return given
    try:
        return _decode(given)
    except NOT_JSON:
        return given  # a patch is given as it is


def output(line: Line) -> Observation:
    """What the model was given as the tool's result; also what stands for one when a person was against it."""
    given: Json = line.payload.get("output")
    text = (given if isinstance(given, str) else joined_text(given)).rstrip()
    code = _exit_code(text)
    return ended(
        line,
        text_of(line.payload, "call_id"),
        given,
        failed=code not in (0, None) or (isinstance(given, dict) and given.get("success") is False),
        denied=text.endswith("rejected by user"),
        interrupted=text.endswith("aborted by user"),
        code=code,
    )


def _exit_code(text: str) -> int | None:
    """A command's, where only what the model was given tells of it: in the words before the output, or as JSON."""
    if text.startswith("{"):
        try:
            told = _decode(text)
        except NOT_JSON:
            return None
        code = dict_of(told, "metadata").get("exit_code") if isinstance(told, dict) else None
        return code if isinstance(code, int) else None
    found = _EXIT_CODE.search(text.partition("\nOutput:")[0][:_HEAD])
    return int(found[1]) if found is not None else None


def exec_ended(line: Line) -> Observation:
    """A command ended, in the words of older versions."""
    return command_ended(line, line.payload, text_of(line.payload, "call_id"))


def command_ended(line: Line, item: dict[str, Any], call: str | None) -> Observation:
    """A command ended: told before its result is given to the model, and with the command's exit code."""
    declined = item.get("status") == "declined"
    code = item.get("exit_code")
    return ended(line, call, item.get("aggregated_output"), failed=code not in (0, None), denied=declined, code=code)


def patch_ended(line: Line) -> Observation:
    """A patch was applied, or could not be."""
    failed = line.payload.get("success") is False
    return ended(line, text_of(line.payload, "call_id"), line.payload.get("stdout"), failed=failed)


def ended(
    line: Line,
    call: str | None,
    output: Json,
    *,
    failed: bool = False,
    denied: bool = False,
    interrupted: bool = False,
    code: Json = None,
) -> Observation:
    """The call has its result."""
    problem = None
    if denied:
        problem = Problem("denied", "the user did not permit it")
    elif failed:
        problem = Problem("tool_failed", "the tool failed" if code is None else f"exit code {code}")
    fact = ToolEnded(
        call=call or "",
        tool="",
        status="denied" if denied else "interrupted" if interrupted else "error" if failed else "ok",
        output=output,
        problem=problem,
        origin=line.origin,
    )
    # one that is broken off goes with its turn, and the turn's own record says so
    return line.says(fact, sighting=None if interrupted or denied else seen("log", "working"))


# Dialogs: older versions write their requests down


def exec_approval(line: Line) -> Observation:
    """Leave to run a command is asked for."""
    given: dict[str, Json] = {name: line.payload[name] for name in ("command", "cwd", "reason") if name in line.payload}
    return _approval(line, "exec_command", given)


def patch_approval(line: Line) -> Observation:
    """Leave to change files is asked for."""
    return _approval(line, "apply_patch", {"changes": line.payload.get("changes")})


def _approval(line: Line, tool: str, given: dict[str, Json]) -> Observation:
    return line.says(sighting=asked("log", dialog_about(tool, given, text_of(line.payload, "call_id"))))


def input_request(line: Line) -> Observation:
    """Questions are asked."""
    questions = list(dicts_of(line.payload.get("questions")))
    dialog = dialog_about("request_user_input", {"questions": questions}, text_of(line.payload, "call_id"))
    return line.says(sighting=asked("log", dialog))
