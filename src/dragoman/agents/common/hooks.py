"""What a hook's payload says. Claude Code, Codex, Gemini CLI and Qwen Code share one shape under different names.

Hooks tell of moments. A hook that fires inside a sub-agent says nothing of the main turn's state, except that a dialog
waits: sub-agents go on in the background after the turn that started them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dragoman.hub.events import (
    AnyFact,
    Compacted,
    HistoryReset,
    Json,
    MessageAdded,
    Notified,
    Problem,
    SubagentEnded,
    SubagentStarted,
    ToolCalled,
    ToolEnded,
)

from .asking import asks, dialog_about, is_injected
from .fields import count_of, dict_of, dicts_of, joined_text, text_of
from .hook_post import Post
from .observation import Dialog, Observation


def read_hook(agent: str, event: str, payload: dict[str, Any]) -> Observation:
    """What the payload of this hook says. ``event`` is the hook's name in any agent's spelling, ``pre_tool_use`` too.

    Never fails: fields that are missing or of another type are left out.
    """
    return read_post(Post(agent, event, payload))


def read_post(post: Post) -> Observation:
    """The same of a post that is at hand already."""
    return _READERS.get(hook_kind(post.event), _other)(post)


_EXIT_CODE = re.compile(r"^Exit Code: ([1-9]\d*)$", re.MULTILINE)

HOOK_CHARS = 64
"""Length of a hook's name; a longer one is none."""


def hook_kind(event: str) -> str:
    """A hook's name as all its spellings have it: small letters only. Empty for what is no name."""
    return _letters(event) if len(event) <= HOOK_CHARS else ""


@lru_cache(maxsize=1024)
def _letters(event: str) -> str:
    return "".join(letter for letter in event.lower() if "a" <= letter <= "z")


# Prompts and turns


def _user_prompt(post: Post) -> Observation:
    prompt = text_of(post.payload, "prompt", "message")
    if prompt is None or post.subagent is not None:
        return post.says(state="working")
    if is_injected(prompt):
        return post.says(MessageAdded(message="", role="system", text=prompt, origin=post.origin()), state="working")
    return post.says(
        MessageAdded(message="", role="user", text=prompt, origin=post.origin()), state="working", prompt=prompt
    )


def _stop(post: Post) -> Observation:
    """The turn is over, even if background tasks of its go on. What answers the hook records that it was asked."""
    if post.subagent is not None:
        return post.says()
    return post.says(*_last_message(post), state="idle")


def _last_message(post: Post) -> tuple[AnyFact, ...]:
    # Gemini joins the pieces of its answer wrongly here (the last one comes twice); its log has the real text
    text = None if post.agent == "gemini" else text_of(post.payload, "last_assistant_message", "response")
    if text is None:
        return ()
    return (MessageAdded(message="", role="assistant", text=text, origin=post.origin(only=False)),)


def _stop_failure(post: Post) -> Observation:
    code = text_of(post.payload, "error") or "unknown"
    details = text_of(post.payload, "error_details", "last_assistant_message")
    if details is None:
        return post.says(error=code)
    return post.says(error=details if code == "unknown" or code in details else f"{code}: {details}")


def _interrupt(post: Post) -> Observation:
    return post.says(state="idle", interrupted=post.subagent is None)


def _message(post: Post) -> Observation:
    """A block of text as it is shown: counted once it is whole."""
    payload = post.payload
    text, message = text_of(payload, "delta"), text_of(payload, "message_id")
    if payload.get("final") is not True or text is None or post.subagent is not None:
        return post.says()
    named = f"{message}#{count_of(payload, 'index') or 0}" if message is not None else ""
    return post.says(MessageAdded(message=named, role="assistant", text=text, origin=post.origin()))


# Tools


def _before_tool(post: Post) -> Observation:
    """Fires before any permission is asked. Gemini and Qwen ask their questions before it, so there it is none."""
    if post.tool is None:
        return post.says(state="working")
    called = ToolCalled(call=post.call, tool=post.tool, input=post.input, executor="agent", origin=post.origin())
    if asks(post.tool) is not None and post.agent not in ("gemini", "qwen"):
        return post.says(called, dialog=dialog_about(post.tool, post.input, post.call or None))
    return post.says(called, state="working")


def _permission(post: Post) -> Observation:
    return post.says(dialog=dialog_about(post.tool, post.input, post.call or None))


def _after_tool(post: Post) -> Observation:
    if post.tool is None:
        return post.says(state="working")
    return post.says(_ended(post, post.payload), state="working")


def _after_batch(post: Post) -> Observation:
    calls = [call for call in dicts_of(post.payload.get("tool_calls")) if text_of(call, "tool_name", "tool_use_id")]
    return post.says(*(_ended(post, call, only=False) for call in calls), state="working")


def _denied(post: Post) -> Observation:
    """A rule refused the call; nobody was asked, and the agent is told and goes on."""
    problem = Problem("denied", text_of(post.payload, "reason") or "the agent's rules do not permit it")
    return post.says(
        ToolEnded(
            call=post.call,
            tool=post.tool or "",
            status="denied",
            input=post.input,
            problem=problem,
            origin=post.origin(),
        ),
        state="working",
    )


def _ended(post: Post, call: dict[str, Any], *, only: bool = True) -> ToolEnded:
    response: Json = call.get("tool_response", call.get("tool_output"))
    about = response if isinstance(response, dict) else {}
    error = _error_text(call.get("error")) or _error_text(about.get("error"))
    interrupted = call.get("is_interrupt") is True or about.get("interrupted") is True
    if error is None and post.agent == "gemini":
        error = _exit_code(about)
    failed = error is not None or "failure" in post.event.lower()
    return ToolEnded(
        call=text_of(call, "tool_use_id", "call_id") or "",
        tool=text_of(call, "tool_name", "tool") or "",
        status="interrupted" if interrupted else "error" if failed else "ok",
        input=call.get("tool_input"),
        output=response,
        problem=Problem("tool_failed", error or "the tool failed") if failed else None,
        duration_ms=count_of(call, "duration_ms"),
        origin=post.origin(only=only),
    )


def _exit_code(response: dict[str, Any]) -> str | None:
    """Gemini says of a command that failed only to its model how it ended."""
    code = _EXIT_CODE.search(joined_text(response.get("llmContent")))
    return None if code is None else f"exit code {code[1]}"


def _error_text(error: Json) -> str | None:
    if isinstance(error, dict):
        return text_of(error, "message", "type") or "the tool failed"
    return error if isinstance(error, str) and error.strip() else None


# Everything else


def _notification(post: Post) -> Observation:
    payload = post.payload
    kind = text_of(payload, "notification_type")
    message = text_of(payload, "message", "title") or kind or post.event
    noted = Notified(message=message, level=text_of(payload, "level"), kind=kind, origin=post.origin())
    if kind == "ToolPermission":
        return post.says(noted, dialog=_gemini_dialog(dict_of(payload, "details"), message))
    if kind == "permission_prompt":
        return post.says(noted, dialog=Dialog(kind="permission", text=message))
    return post.says(noted, state="idle" if kind == "idle_prompt" else None)


def _gemini_dialog(details: dict[str, Any], message: str) -> Dialog:
    what = text_of(details, "type")
    if what in ("ask_user", "exit_plan_mode"):
        return Dialog(kind="question" if what == "ask_user" else "plan", text=text_of(details, "title") or message)
    about = text_of(details, "command", "filePath", "fileName", "toolDisplayName", "toolName", "prompt", "title")
    # the tool's own name is not among them, and its title is only a title: the screen and the call know better
    return Dialog(kind="permission", subtype="tool", text=about or message)


def _subagent_start(post: Post) -> Observation:
    if post.subagent is None:
        return post.says()
    name = text_of(post.payload, "agent_type")
    return post.says(SubagentStarted(subagent=post.subagent, name=name, origin=post.origin()))


def _subagent_stop(post: Post) -> Observation:
    if post.subagent is None:
        return post.says()
    result = text_of(post.payload, "last_assistant_message")
    return post.says(
        SubagentEnded(subagent=post.subagent, status="completed", result=result, origin=post.origin()),
    )


def _before_compaction(post: Post) -> Observation:
    trigger = text_of(post.payload, "trigger")
    if post.agent == "gemini" and trigger != "manual":
        return post.says()  # it asks on every turn whether to, and seldom does
    return post.says(Compacted(compaction="", phase="started", reason=trigger, origin=post.origin()))


def _after_compaction(post: Post) -> Observation:
    summary = joined_text(post.payload.get("compact_summary")) or None
    done = Compacted(
        compaction="", phase="done", reason=text_of(post.payload, "trigger"), summary=summary, origin=post.origin()
    )
    return post.says(done, compacted=post.subagent is None)


def _session_start(post: Post) -> Observation:
    """No state: the input box is not drawn yet. What answers the hook records that it was asked."""
    return post.says(compacted=post.payload.get("source") == "compact")


def _session_end(post: Post) -> Observation:
    if post.payload.get("reason") != "clear":
        return post.says()
    return post.says(HistoryReset(origin=post.origin(only=False)))


def _nothing(post: Post) -> Observation:
    return post.says()


def _other(post: Post) -> Observation:
    message = text_of(post.payload, "message") or post.event or "hook"
    return post.says(Notified(message=message, kind=post.event or None, origin=post.origin()))


_READERS: dict[str, Callable[[Post], Observation]] = {
    "userpromptsubmit": _user_prompt,
    "beforeagent": _user_prompt,
    "stop": _stop,
    "afteragent": _stop,
    "response": _stop,
    "stopfailure": _stop_failure,
    "interrupt": _interrupt,
    "messagedisplay": _message,
    "pretooluse": _before_tool,
    "beforetool": _before_tool,
    "toolstart": _before_tool,
    "permissionrequest": _permission,
    "permissiondenied": _denied,
    "posttooluse": _after_tool,
    "posttoolusefailure": _after_tool,
    "aftertool": _after_tool,
    "toolend": _after_tool,
    "posttoolbatch": _after_batch,
    "notification": _notification,
    "subagentstart": _subagent_start,
    "subagentstop": _subagent_stop,
    "precompact": _before_compaction,
    "precompress": _before_compaction,
    "postcompact": _after_compaction,
    "sessionstart": _session_start,
    "start": _session_start,
    "sessionend": _session_end,
    # once per piece of a model's answer: nothing that the others do not tell
    "beforemodel": _nothing,
    "aftermodel": _nothing,
    "beforetoolselection": _nothing,
}
"""By the hook's name in lower case, letters only: Claude's (also Codex' and Qwen's), Gemini's, cin's."""
