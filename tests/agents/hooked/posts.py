"""Hook posts as agents make them: recorded payloads with names of a test's own (spec §9), in every form that scripts
give them (spec §8)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

from dragoman.hub.ports import HookChannel, HookPost
from tests.agents.common.recorded import SAMPLES

Payload = dict[str, Any]

CWD = "/home/dev/project"


@dataclass(frozen=True)
class Life:
    """One session of an agent, which fires hooks. ``turn`` names its turn: ``prompt_id`` of Claude, ``turn_id`` of
    Codex; Gemini names none."""

    agent: str = "claude"
    session: str = "85519045-caa3-4350-9cdd-cdd557eb9962"
    cwd: str = CWD
    turn: str = "turn-1"

    def in_turn(self, turn: str) -> Life:
        return replace(self, turn=turn)

    @property
    def transcript(self) -> str:
        return f"/home/dev/.{self.agent}/{self.session}.jsonl"

    def hook(self, event: str, **fields: Any) -> Payload:
        """The payload of this hook, in the members that this agent gives every one. None leaves one out."""
        payload: Payload = {
            "session_id": self.session,
            "transcript_path": self.transcript,
            "cwd": self.cwd,
            "hook_event_name": event,
        }
        if self.agent == "claude":
            payload |= {"prompt_id": self.turn, "permission_mode": "default", "effort": {"level": "medium"}}
        elif self.agent == "codex":
            payload |= {"model": "gpt-5.5-codex", "permission_mode": "default"}
            payload |= {} if event in ("SessionStart", "SessionEnd") else {"turn_id": self.turn}
        return {name: value for name, value in (payload | fields).items() if value is not None}

    # The life of a session

    def start(self, source: str = "startup") -> Payload:
        more = {"prompt_id": None, "permission_mode": None, "effort": None} if self.agent == "claude" else {}
        return self.hook("SessionStart", source=source, **more)

    def prompt(self, text: str = "make it so") -> Payload:
        return self.hook("BeforeAgent" if self.agent == "gemini" else "UserPromptSubmit", prompt=text)

    def stop(self, text: str | None = "All done.", *, active: bool = False) -> Payload:
        if self.agent == "gemini":
            return self.hook("AfterAgent", prompt="make it so", prompt_response=text, stop_hook_active=active)
        more = {"background_tasks": [], "session_crons": []} if self.agent == "claude" else {}
        return self.hook("Stop", stop_hook_active=active, last_assistant_message=text, **more)

    def end(self, reason: str = "other") -> Payload:
        return self.hook("SessionEnd", reason=reason, permission_mode=None, effort=None)

    # Tools

    def before(self, tool: str, call: str | None, given: Any = None, **more: Any) -> Payload:
        return self.hook(
            "BeforeTool" if self.agent == "gemini" else "PreToolUse",
            tool_name=tool,
            tool_input={"command": f"echo {call}"} if given is None else given,
            tool_use_id=call,
            **more,
        )

    def after(self, tool: str, call: str | None, given: Any = None, response: Any = None, **more: Any) -> Payload:
        usual = {
            "claude": {"stdout": "made", "stderr": "", "interrupted": False, "isImage": False},
            "codex": "hi\n",
            "gemini": {"llmContent": "Output: hi", "returnDisplay": "hi"},
        }
        return self.hook(
            "AfterTool" if self.agent == "gemini" else "PostToolUse",
            tool_name=tool,
            tool_input={"command": f"echo {call}"} if given is None else given,
            tool_response=usual.get(self.agent, {}) if response is None else response,
            tool_use_id=call,
            **more,
        )

    def failed(self, tool: str, call: str, error: str = "Exit code 1", given: Any = None, **more: Any) -> Payload:
        """Only Claude has a hook of its own for this."""
        return self.hook(
            "PostToolUseFailure",
            tool_name=tool,
            tool_input={"command": f"echo {call}"} if given is None else given,
            tool_use_id=call,
            error=error,
            is_interrupt=False,
            **more,
        )

    def batch(self, *calls: tuple[str, str]) -> Payload:
        ended = [
            {"tool_name": tool, "tool_input": {"command": f"echo {call}"}, "tool_use_id": call, "tool_response": "ok"}
            for tool, call in calls
        ]
        return self.hook("PostToolBatch", tool_calls=ended)

    # The rest

    def subagent_start(self, name: str) -> Payload:
        more = {"permission_mode": None, "effort": None}
        return self.hook("SubagentStart", agent_id=name, agent_type="general-purpose", **more)

    def subagent_stop(self, name: str) -> Payload:
        return self.hook(
            "SubagentStop",
            agent_id=name,
            agent_type="general-purpose",
            stop_hook_active=False,
            agent_transcript_path=f"/home/dev/.claude/{self.session}/subagents/agent-{name}.jsonl",
            last_assistant_message="Sub agent result",
        )

    def notify(self, kind: str | None = "idle_prompt", message: str = "Claude is waiting for your input") -> Payload:
        more = {"permission_mode": None, "effort": None}
        return self.hook("Notification", message=message, notification_type=kind, **more)

    def tool_permission(self, command: str) -> Payload:
        """Gemini's."""
        details = {"type": "exec", "title": "Confirm Shell Command", "command": command, "rootCommand": "touch"}
        return self.notify("ToolPermission", "Tool Confirm Shell Command requires execution") | {"details": details}

    def permission(self, tool: str = "Bash", given: Any = None, suggestions: Any = None, **more: Any) -> Payload:
        given = {"command": "touch made.txt", "description": "Run a command"} if given is None else given
        return self.hook(
            "PermissionRequest", tool_name=tool, tool_input=given, permission_suggestions=suggestions, **more
        )

    def compact(self, trigger: str = "auto") -> Payload:
        return self.hook("PreCompact", trigger=trigger, custom_instructions="")

    def interrupt(self) -> Payload:
        """Codex's."""
        return self.hook("Interrupt")


SUGGESTIONS: list[Any] = SAMPLES["claude"]["PermissionRequest:Bash"]["permission_suggestions"]
"""What Claude was seen to suggest beside a permission."""


# The forms that scripts give a payload (spec §8)

_TYPES = {
    "PreToolUse": "pre_tool_use",
    "BeforeTool": "pre_tool_use",
    "PostToolUse": "post_tool_use",
    "PostToolUseFailure": "post_tool_use",
    "AfterTool": "post_tool_use",
    "Stop": "stop",
    "AfterAgent": "stop",
    "SubagentStop": "subagent_stop",
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "UserPromptSubmit": "user_prompt_submit",
    "BeforeAgent": "user_prompt_submit",
    "Notification": "notification",
    "SubagentStart": "notification",
    "PreCompact": "notification",
}


def generated(payload: Payload, agent: str, at: int) -> Payload:
    """As the script does that the installer wrote: everything as it came, and a little beside it."""
    beside = {"hook_type": "", "agent": agent, "tmux_pane": "%3", "tmux_socket": "/tmp/tmux-1000/default", "tty": ""}
    return copy.deepcopy(payload) | beside | {"received_at": at}


def half_normalised(payload: Payload, agent: str, at: int, name: str) -> Payload:
    """As the script in the repository does: the members of a normalised event, and all that came."""
    beside = {
        "id": name,
        "timestamp": at,
        "type": _TYPES[payload["hook_event_name"]],
        "sessionId": payload["session_id"],
        "agent": agent,
        "terminal": {"tmuxPane": None, "tmuxSocket": None, "tty": "not a tty"},
    }
    return beside | copy.deepcopy(payload)


def normalised(payload: Payload, agent: str, at: int, name: str | None = None) -> Payload:
    """An event of the seed, as somebody makes it who knows the seed and not the hook."""
    event = payload["hook_event_name"]
    kind = _TYPES[event]
    made: Payload = {"type": kind, "timestamp": at, "sessionId": payload["session_id"], "agent": agent}
    made["cwd"] = payload["cwd"]
    if name is not None:
        made["id"] = name
    if kind in ("pre_tool_use", "post_tool_use"):
        made |= {"tool": payload["tool_name"], "toolInput": payload["tool_input"]}
        made |= {"toolUseId": payload["tool_use_id"]} if "tool_use_id" in payload else {}
    if kind == "post_tool_use":
        error = payload.get("error")
        made["toolResponse"] = {"error": error} if error else payload.get("tool_response", {})
        made["success"] = error is None
    if kind == "stop":
        made |= {"stopHookActive": payload["stop_hook_active"], "response": payload.get("last_assistant_message")}
    if kind == "session_start":
        made["source"] = payload["source"]
    if kind == "session_end":
        made["reason"] = payload["reason"]
    if kind == "user_prompt_submit":
        made["prompt"] = payload["prompt"]
    if kind == "notification":
        made |= {"message": payload.get("message", event), "level": payload.get("notification_type")}
    return {key: value for key, value in made.items() if value is not None}


def post(payload: Payload, channel: HookChannel = "http", **more: Any) -> HookPost:
    """The payload as somebody handed it on; nobody shares it with a test."""
    return HookPost(payload=copy.deepcopy(payload), channel=channel, **more)
