"""Differences in what is said of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .canonical import SESSION
from .recording import CHUNK, Entry, Frame, Received
from .rewriting import both, chunk, each, position, renumbered, without
from .script import HELLO


def without_request(_: str, entries: list[Entry]) -> list[Entry]:
    """``start_step``: what the model was told holds the system prompt and whole files."""

    def change(frame: Frame) -> None:
        if chunk(frame, "start_step"):
            for form in both(frame):
                form.pop("request")

    return each(entries, change)


def without_stacks(_: str, entries: list[Entry]) -> list[Entry]:
    """Errors of chunks: where in the server's code they arose."""

    def change(frame: Frame) -> None:
        if chunk(frame, "error", "tool_call", "tool_error"):
            for form in both(frame):
                without(form.get("error"), "stack")

    return each(entries, change)


def without_transport(_: str, entries: list[Entry]) -> list[Entry]:
    """``finish_step``: headers of the provider's answer, and its usage in its own words beside the SDK's."""

    def change(frame: Frame) -> None:
        if chunk(frame, "finish_step"):
            for form in both(frame):
                form["response"].pop("headers")
                form["usage"].pop("raw", None)

    return each(entries, change)


_FAILURES = {
    "turn_http401": ("provider_unauthorized", "Incorrect API key provided: sk-bad."),
    "turn_http500": ("provider_failed", "The server had an error."),
    "turn_failed": ("provider_failed", "model exploded"),
}
"""Our code for each, and the provider's own words."""


FAILED = frozenset({"error internal_error/session", f"{CHUNK} finish_step", f"{CHUNK} finish"})


def failing(name: str, entries: list[Entry]) -> list[Entry]:
    """The error says what the provider said, under the seed's code; what was tried again is told in a log line."""
    if name not in _FAILURES:
        return entries
    code, message = _FAILURES[name]
    told = {"error": {"name": "AI_APICallError", "message": message, "code": code}}
    if name == "turn_failed":
        entries = _failed_stream(entries)
    at = position(entries, lambda frame: chunk(frame, "error"))
    lines = [Received(_line(line)) for line in _retries(name, message)]

    def change(frame: Frame) -> None:
        if chunk(frame, "error"):
            frame |= {"part": told, "rawPart": {"type": "error", **told}}
        elif frame["type"] == "error":
            frame |= {"message": message, "code": "provider_error", "source": "provider"}

    return renumbered(each([*entries[:at], *lines, *entries[at:]], change))


def _failed_stream(entries: list[Entry]) -> list[Entry]:
    """Three tries are heard, then an error in place of the end of step and turn, and the turn's own."""
    last = position(entries, lambda frame: chunk(frame, "raw") and frame["part"]["raw"]["type"] == "response.failed")
    tries = entries[last - 2 : last + 1]
    failed = entries[last]
    assert isinstance(failed, Received)
    ended = [Received({**failed.frame, "partType": "error"}), Received({"type": "error", "sessionId": SESSION})]
    return [*entries[: last + 1], *tries, *tries, *ended, *entries[last + 3 :]]


def _retries(name: str, message: str) -> list[str]:
    """With the pauses of the checker's settings."""
    if name == "turn_http401":
        return []
    return [f"model call failed ({message}); trying again in {pause} s" for pause in ("0.02", "0.04")]


def _line(line: str) -> Frame:
    return {"type": "log", "sessionId": SESSION, "line": line}


_CLAUDE = 'Not authorized. Claude CLI verify failed: Error: Executable not found in $PATH: "claude"'
_CLAUDE_MISSING = "Not authorized. Run claude setup-token."
_CLAUDE_PENDING = "Pending connection (no credentials)."
_BROKEN = "Error: ENOENT: no such file or directory, posix_spawn '/nonexistent/bin'"
_NO_PLACE = "Error: EEXIST: file already exists, mkdir '/R/home7/.cowork/session-backups'"
_OURS = {
    _BROKEN: "there is no program '/nonexistent/bin' (No such file or directory): check the path",
    _NO_PLACE: "/home/user/.cowork/session-backups cannot be used: File exists",
    "ENOENT: no such file or directory, open '/project/nope.txt'": "read: no such file or directory: nope.txt",
}
"""Our words for the same, wherever they stand."""

_NO_TOOL = "Model tried to call unavailable tool "
_NO_INPUT = "Invalid input for tool read: Type validation failed"
_OUR_INPUT = "Invalid input for read: filePath is required (given: path)"


def in_our_words(_: str, entries: list[Entry]) -> list[Entry]:
    """Texts that are the other runtime's, or its libraries': same place, same code, other words. And a status that
    nobody asked for is told without running the provider's program: at the start, and after a key was kept.
    """
    asked = False

    def change(frame: Frame) -> None:
        nonlocal asked
        if frame["type"] == "provider_status":
            if not asked:
                _unverified(frame)
            asked = True
        elif frame["type"] == "provider_auth_result":
            asked = frame.get("mode") != "api_key"
        _reword(frame)

    return each(entries, change)


def _unverified(frame: Frame) -> None:
    for provider in frame["providers"]:
        if provider["message"] == _CLAUDE:
            pending = provider["mode"] == "oauth_pending"
            provider["message"] = _CLAUDE_PENDING if pending else _CLAUDE_MISSING


def _reword(value: Any) -> None:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, str):
            value[key] = _worded(item)
        elif isinstance(item, dict | list):
            _reword(item)


def _worded(text: str) -> str:
    if text.startswith(_NO_TOOL):
        return f"There is no tool {text.removeprefix(_NO_TOOL).partition('.')[0]}."
    if text.startswith(_NO_INPUT):
        return _OUR_INPUT
    for theirs, ours in _OURS.items():
        text = text.replace(theirs, ours)
    return text


def without_phantom_line(name: str, entries: list[Entry]) -> list[Entry]:
    """``read``: no line is behind the last line's end."""
    if name not in ("turn_files", "session_backup"):
        return entries

    def change(frame: Frame) -> None:
        if chunk(frame, "tool_result") and frame["part"]["toolName"] == "read":
            for form in both(frame):
                form["output"] = form["output"].removesuffix("\n3\t")
        elif frame.get("line") == 'tool< read {"chars":14}':
            frame["line"] = 'tool< read {"chars":11}'

    return each(entries, change)


NO_AGENT = frozenset({f"{CHUNK} tool_error"})


def with_general_agent(name: str, entries: list[Entry]) -> list[Entry]:
    """``spawnAgent`` without a type: it has a result, and a line that says so."""
    if name != "turn_spawn_general":
        return entries
    at = position(entries, lambda frame: chunk(frame, "tool_error"))
    failed = entries[at]
    assert isinstance(failed, Received)
    frame = dict(failed.frame, partType="tool_result")
    frame["part"] = _with_output(failed.frame["part"])
    frame["rawPart"] = {**_with_output(failed.frame["rawPart"]), "type": "tool-result"}
    line = Received(_line(f'tool< spawnAgent {{"chars":{len(HELLO)}}}'))
    return [*entries[:at], line, Received(frame), *entries[at + 1 :]]


def _with_output(form: dict[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in form.items() if key != "error"}
    return {**made, "output": HELLO}


ENDED = frozenset({"log tool<"})


def command_ended(name: str, entries: list[Entry]) -> list[Entry]:
    """It never came to its end, so nothing says that it did."""
    if name != "cancel_during_bash":
        return entries
    at = position(entries, lambda frame: frame.get("line", "").startswith("tool< bash"))
    return [*entries[:at], *entries[at + 1 :]]


def servers_together(name: str, entries: list[Entry]) -> list[Entry]:
    """Both at once, so what becomes of the one that cannot be started is known before the other is there."""
    if name not in ("turn_mcp", "turn_yolo"):
        return entries
    at = position(entries, lambda frame: frame.get("line", "").startswith("[MCP] Connected"))
    return [*entries[:at], *entries[at + 1 : at + 3], entries[at], *entries[at + 3 :]]


def late_answer_first(name: str, entries: list[Entry]) -> list[Entry]:
    """What an answer is too late for is known before the tool has gone on."""
    if name != "busy":
        return entries
    ended = position(entries, lambda frame: frame.get("line", "").startswith("tool< ask"))
    late = position(entries[ended:], lambda frame: frame.get("line", "").startswith("[warn]")) + ended
    return [*entries[:ended], entries[late], *_without(entries[ended:], late - ended)]


def _without(entries: Sequence[Entry], at: int) -> list[Entry]:
    return [*entries[:at], *entries[at + 1 :]]
