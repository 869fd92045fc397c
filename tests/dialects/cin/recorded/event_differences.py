"""Differences in what a hook's post becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.dialects.leaves import ANYTHING

from .canonical import is_event, objects, sessions_in
from .recording import THREAD, Ask, Frame, Happen, Step
from .rewriting import asks, both, each_event, happening, new_id, posted, told

COMPACT = {"auto": "The context is being shortened (auto)"}


def tell_all(name: str, steps: list[Step]) -> list[Step]:
    """What the hook said, and the originals dropped."""

    def change(step: Step, event: Frame) -> None:
        payload = posted(step)
        for field, given in (
            ("response", payload.get("last_assistant_message")),
            ("reason", payload.get("reason")),
            ("level", payload.get("notification_type")),
            ("agent_id", payload.get("agent_id")),
            ("status", "completed" if event["type"] == "subagent_stop" else None),
        ):
            if given is not None:
                event[field] = given

    return each_event(steps, change)


def own_names_stay(name: str, steps: list[Step]) -> list[Step]:
    """An event that came made keeps the agent's own name for its session."""

    def change(step: Step, event: Frame) -> None:
        payload = posted(step)
        if "agentSessionId" not in event and payload.get("sessionId"):
            event["agentSessionId"] = payload["sessionId"]
        if event.get("agent") == "codex" and "agentSessionId" in event:
            event["codexThreadId"] = event["agentSessionId"]

    return each_event(steps, change)


HALF = {"tool_name": "tool", "tool_input": "toolInput", "tool_use_id": "toolUseId"}
RAW = ("session_id", "transcript_path", "permission_mode", "hook_event_name", "terminal")


def half_events(name: str, steps: list[Step]) -> list[Step]:
    """What a script left as it came has the seed's names, and nothing of the hook's own."""

    def change(_: Step, event: Frame) -> None:
        if "hook_event_name" in event:
            event.setdefault("agentSessionId", event["session_id"])
            event.setdefault("agent", "claude")
        for theirs, mine in HALF.items():
            if theirs in event:
                event[mine] = event.pop(theirs)
        for field in RAW:
            event.pop(field, None)

    return each_event(steps, change)


def whole_events(name: str, steps: list[Step]) -> list[Step]:
    """What comes by Codex' own way is Codex', and a stop says whether a hook was at work."""

    def change(step: Step, event: Frame) -> None:
        if "codexThreadId" in event:
            event["agent"] = "codex"
        if event["type"] == "stop":
            event.setdefault("stopHookActive", False)

    return each_event(steps, change)


def shortening_is_told(name: str, steps: list[Step]) -> list[Step]:
    """``PreCompact`` is a notification."""
    made: list[Step] = []
    last: Frame = {}
    for number, step in enumerate(steps):
        payload = posted(step)
        for frames in step.heard.values():
            last = next((told(frame) for frame in frames if frame["type"] == "event"), last)
        if payload.get("hook_event_name") != "PreCompact" or not last:
            made.append(step)
            continue
        about: Frame = {key: last[key] for key in ("agent", "cwd", "agentSessionId", "sessionId") if key in last}
        event: Frame = {
            "id": new_id(name, number),
            "timestamp": last["timestamp"] + 1,
            "type": "notification",
            **about,
            "message": COMPACT[payload["trigger"]],
            "level": "compact",
        }
        heard = {who: [both("event", event)] for who in _hearers(steps, number)}
        made.append(replace(step, heard=heard))
    return made


def _hearers(steps: list[Step], number: int) -> list[str]:
    """Who heard the last event before."""
    for step in reversed(steps[:number]):
        found = [who for who, frames in step.heard.items() if any(frame["type"] == "event" for frame in frames)]
        if found:
            return found
    return []


def sessions_have_names(name: str, steps: list[Step]) -> list[Step]:
    """What names no session makes none."""
    gone: set[str] = set()
    for step in steps:
        if asks(step, "POST", "/event") and posted(step) == {"type": "stop"}:
            gone |= {told(frame).get("sessionId") for frames in step.heard.values() for frame in frames if _is(frame)}
    return _without(steps, gone)


def strangers_post_nothing(name: str, steps: list[Step]) -> list[Step]:
    """A page of another origin is not heard."""
    lost = {
        told(frame)["id"]
        for step in steps
        if isinstance(step.action, Ask) and (step.action.origin or "").startswith("http://evil")
        for frames in step.heard.values()
        for frame in frames
        if _is(frame)
    }
    return _without_events(steps, lambda event: event["id"] in lost)


def by_their_ids(name: str, steps: list[Step]) -> list[Step]:
    """An agent is never taken for a session of ours because of its folder, nor is what nobody knows."""
    ours = {
        one["id"] for step in steps for one in sessions_in([list(step.heard.values())]) if one["type"] == "internal"
    }

    def change(_: Step, event: Frame) -> None:
        if event["sessionId"] in ours:
            event["sessionId"] = new_id(name, event.get("agentSessionId"))
        event.pop("terminal", None)

    return each_event(steps, change)


def calls_end(name: str, steps: list[Step]) -> list[Step]:
    """A call without a result has one once its session is gone."""
    open_: dict[str, tuple[Frame, list[str]]] = {}
    for step in steps:
        for who, frames in step.heard.items():
            for event in (told(frame) for frame in frames if _is(frame)):
                if event["type"] == "pre_tool_use" and "toolUseId" in event:
                    open_.setdefault(event["toolUseId"], (event, []))[1].append(who)
                elif event["type"] == "post_tool_use":
                    open_.pop(event.get("toolUseId", ""), None)
        if asks(step, "DELETE", "/sessions/cleanup*"):
            for called, hearers in open_.values():
                ended = {**called, "id": new_id(name, called["id"]), "type": "post_tool_use", "success": False}
                ended |= {"timestamp": called["timestamp"] + 1, "toolResponse": {"error": ANYTHING}, "duration": 1}
                for who in hearers:
                    step.heard.setdefault(who, []).append(both("event", ended))
    return steps


def calls_have_a_duration(name: str, steps: list[Step]) -> list[Step]:
    """How long a call took is said wherever its begin is known."""
    begun: dict[str, int] = {}

    def change(_: Step, event: Frame) -> None:
        if event["type"] == "pre_tool_use":
            begun.setdefault(event.get("toolUseId", ""), event["timestamp"])
        elif event["type"] == "post_tool_use" and event["toolUseId"] in begun:
            event.setdefault("duration", event["timestamp"] - begun[event["toolUseId"]])

    return each_event(steps, change)


def codex_by_its_id(name: str, steps: list[Step]) -> list[Step]:
    """A rollout's session is known by the id in it, from its first line on; its turn ends once."""
    own = {event["sessionId"] for step in steps for event in objects(list(step.heard.values())) if _of_rollout(event)}
    ended: set[str] = set()

    def change(_: Step, event: Frame) -> None:
        if _of_rollout(event):
            event["codexThreadId"] = event["agentSessionId"] = THREAD

    for step in steps if own else ():
        for who, frames in step.heard.items():
            stops = [frame for frame in frames if _is(frame) and told(frame)["type"] == "stop"]
            if happening(step) == "rollout":
                step.heard[who] = [frame for frame in frames if frame not in stops[1:]]
                ended |= {told(frame)["id"] for frame in stops[1:]}
    assert not own or len(ended) == 1, name
    return each_event(steps, change)


def codex_in_its_hooks_words(name: str, steps: list[Step]) -> list[Step]:
    """What a rollout says is told as Codex' hooks tell it."""

    def change(_: Step, event: Frame) -> None:
        if not _of_rollout(event) or "toolUseId" not in event:
            return
        given = event["toolInput"].get("cmd", event["toolInput"].get("command"))
        command = " ".join(given) if isinstance(given, list) else given
        event |= {"tool": "Bash", "toolInput": {"command": command}}
        if "toolResponse" in event:
            response = event["toolResponse"]
            event["toolResponse"] = {"content": response["output"], "error": f"exit code {response['exit_code']}"}

    return each_event(steps, change)


def rollouts_begin(name: str, steps: list[Step]) -> list[Step]:
    """A rollout that is found is the start of its session."""
    first = next((step for step in steps if happening(step) == "rollout"), None)
    known = next((one for step in steps for one in objects(list(step.heard.values())) if _of_rollout(one)), None)
    if first is not None and known is not None:
        about = {key: known[key] for key in ("sessionId", "agent", "cwd", "agentSessionId", "codexThreadId")}
        event = {"id": new_id(name, "found"), "type": "session_start", "timestamp": known["timestamp"] - 1, **about}
        first.heard.setdefault("A", []).append(both("event", {**event, "source": "startup"}))
    return steps


def _of_rollout(value: Frame) -> bool:
    return is_event(value) and str(value.get("codexThreadId", "")).endswith(THREAD)


def ends_tell_of_their_begin(name: str, steps: list[Step]) -> list[Step]:
    """The end of a call has its tool and its input, whatever the log says of them then."""
    begun: dict[str, Frame] = {}

    def change(_: Step, event: Frame) -> None:
        if event["type"] == "pre_tool_use" and "toolUseId" in event:
            begun.setdefault(event["toolUseId"], event)
        elif event["type"] == "post_tool_use" and event["toolUseId"] in begun and not event["toolInput"]:
            called = begun[event["toolUseId"]]
            event |= {"tool": called["tool"], "toolInput": called["toolInput"]}

    return each_event(steps, change)


def once_each(name: str, steps: list[Step]) -> list[Step]:
    """What one script appends and posts is one event."""
    for step in steps:
        if not isinstance(step.action, Happen):
            continue
        for who, frames in step.heard.items():
            seen: list[Any] = []
            kept: list[Frame] = []
            for frame in frames:
                event = (
                    {key: value for key, value in (told(frame) or {}).items() if key not in ("id", "timestamp")}
                    if _is(frame)
                    else None
                )
                if event is None or event not in seen:
                    kept.append(frame)
                seen.append(event)
            step.heard[who] = kept
    return steps


def _is(frame: Frame) -> bool:
    return bool(frame["type"] == "event")


def _without(steps: list[Step], sessions: set[str]) -> list[Step]:
    """Without these sessions and all that is told of them."""
    for step in steps:
        for frames in step.heard.values():
            for frame in frames:
                content = told(frame)
                if frame["type"] == "init":
                    content = content["sessions"]
                if isinstance(content, list):
                    content[:] = [one for one in content if one.get("id") not in sessions]
                if "data" in frame and "payload" in frame and frame["type"] == "sessions":
                    frame["payload"] = frame["data"]
        body = step.answer.body if step.answer else None
        if isinstance(body, dict) and isinstance(body.get("sessions"), list):
            body["sessions"] = [one for one in body["sessions"] if one["id"] not in sessions]
    return _without_events(steps, lambda event: event["sessionId"] in sessions)


def _without_events(steps: list[Step], gone: Any) -> list[Step]:
    for step in steps:
        for who, frames in step.heard.items():
            kept = [frame for frame in frames if not (_is(frame) and gone(told(frame)))]
            for frame in kept:
                if frame["type"] == "history":
                    for key in {"data", "payload"} & frame.keys():
                        frame[key] = [event for event in frame[key] if not gone(event)]
            step.heard[who] = kept
    return steps
