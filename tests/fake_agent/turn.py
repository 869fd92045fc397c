"""One turn: the steps of its scenario as a generator that asks for time, hooks and dialogs."""

from __future__ import annotations

import random
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.fake_agent import dialogs, scenarios
from tests.fake_agent.dialogs import Dialog
from tests.fake_agent.hooks import block_reason, permission

if TYPE_CHECKING:
    from tests.fake_agent.agent import Agent

Json = dict[str, Any]


@dataclass(frozen=True)
class Sleep:
    """Go on after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Hook:
    """Go on once the hooks of the event have answered; sent back are their answers."""

    event: str
    more: Json
    subject: str = ""


@dataclass(frozen=True)
class Ask:
    """Go on once the dialog took effect, which is sent back."""

    dialog: Dialog


Request = Sleep | Hook | Ask
Script = Generator[Request, Any, None]


class Rejected(Exception):
    """The user refused, and the turn ends."""


class Failed(Exception):
    """The model cannot be reached, and the turn ends."""


class Turn:
    """What happens from a prompt to its end. ``produced`` tells whether anything was shown for it yet."""

    def __init__(self, agent: Agent, prompt: str) -> None:
        self.prompt = prompt
        self.prompt_id = str(uuid.uuid4())
        self.produced = False
        self.last = ""
        self._over = "end_turn"
        self.background: list[Json] = []
        self._agent = agent
        self._log = agent.log
        self.script = self._run()

    def fields(self) -> Json:
        """What every hook inside a turn carries."""
        return {"prompt_id": self.prompt_id, "permission_mode": "default", "effort": {"level": "medium"}}

    def _run(self) -> Script:
        yield Hook("UserPromptSubmit", {"prompt": self.prompt})
        self._log.user(self.prompt, promptId=self.prompt_id)
        steps = scenarios.steps(self.prompt, self._agent.options.scenario)
        active = False
        while True:
            try:
                yield from self._perform(steps)
            except Rejected:
                self._agent.interrupted()
                return
            except Failed as failed:
                yield from self._fail(str(failed))
                return
            answers = yield Hook("Stop", self._stop(active=active))
            reason = block_reason(answers)
            if reason is None:
                break
            self._log.user(f"Stop hook feedback:\n{reason}", isMeta=True)
            steps, active = scenarios.steps(reason, "say:I go on."), True
        self._log.system("stop_hook_summary", hookCount=1, preventedContinuation=False)
        self._log.system("turn_duration", durationMs=int(self._agent.elapsed * 1000))
        self._agent.finished()

    def _stop(self, *, active: bool) -> Json:
        return {
            "stop_hook_active": active,
            "last_assistant_message": self.last,
            "background_tasks": self.background,
            "session_crons": [],
        }

    def _fail(self, text: str) -> Script:
        name = self._agent.error_name
        block = {"type": "text", "text": text}
        self._log.assistant(
            block, "stop_sequence", message={"model": "<synthetic>"}, isApiErrorMessage=True, error=name
        )
        self._agent.say(f"● {text}")
        failed = {"error": name, "error_details": text, "last_assistant_message": text}
        yield Hook("StopFailure", failed, name)
        self._agent.failed(text, name)

    def _perform(self, steps: list[Json]) -> Script:
        for number, step in enumerate(steps, 1):
            self._over = "end_turn" if number == len(steps) else "tool_use"
            kind = next(iter(step))
            yield from getattr(self, f"_{kind}")(step[kind], step)

    def _say(self, text: str, step: Json) -> Script:
        yield Sleep(step.get("ms", 400) / 1000)
        self.last = text
        self._log.assistant({"type": "text", "text": text}, self._over)
        self._said(f"● {text}")
        shown = {"turn_id": self.prompt_id, "message_id": str(uuid.uuid4()), "index": 0, "final": True, "delta": text}
        self._agent.aside("MessageDisplay", shown)

    def _said(self, *lines: str) -> None:
        self.produced = True
        self._agent.say(*lines)

    def _think(self, ms: int, step: Json) -> Script:
        yield Sleep(ms / 1000)

    def _stream(self, count: int, step: Json) -> Script:
        lines = [f"Line {number} of a long answer." for number in range(1, count + 1)]
        for number, line in enumerate(lines):
            yield Sleep(step.get("ms", 200) / 1000)
            self._said(f"● {line}" if number == 0 else f"  {line}")
        self.last = "\n".join(lines)
        self._log.assistant({"type": "text", "text": self.last}, self._over)

    def _dialog_like(self, _: str, step: Json) -> Script:
        yield Sleep(0.2)
        self._said("● Choose one:", "   1. Yes", "   2. No, and tell Claude what to do", "  Do you want to proceed?")

    def _tool(self, command: str, step: Json) -> Script:
        given = {"command": command, "description": "Run a command"}
        call = yield from self._called("Bash", given, step)
        yield from self._ran("Bash", given, call, step)

    def _permit(self, command: str, step: Json) -> Script:
        if step.get("style") == "unnumbered":
            dialog = dialogs.needs_approval(command)
        else:
            dialog = dialogs.bash(command, options=step.get("options"), marked=step.get("marked", 0))
        yield from self._permitted(dialog, step)

    def _write(self, path: str, step: Json) -> Script:
        whole = path if path.startswith("/") else f"{self._agent.cwd}/{path}"
        yield from self._permitted(dialogs.write(whole, step.get("content", "")), step)

    def _permitted(self, dialog: Dialog, step: Json) -> Script:
        tool = dialog.tool or ""
        call = yield from self._called(tool, dialog.input, step)
        answers = yield Hook("PreToolUse", self._about(tool, dialog.input, call), tool)
        decided = permission(answers)
        if decided is None:
            outcome = yield Ask(dialog)
            decided = "allow" if outcome["result"] == "allowed" else "deny"
        if decided == "allow":
            yield from self._ran(tool, dialog.input, call, step)
        elif step.get("on_deny") == "continue":
            self._log.refused(call)
            self._said("  ⎿  Refused")
        else:
            self._log.rejected(call)
            raise Rejected

    def _about(self, tool: str, given: Json, call: str) -> Json:
        return {"tool_name": tool, "tool_input": given, "tool_use_id": call}

    def _called(self, tool: str, given: Json, step: Json) -> Generator[Request, Any, str]:
        yield Sleep(step.get("before", 100) / 1000)
        call = f"toolu_{uuid.uuid4().hex[:20]}"
        self._log.assistant({"type": "tool_use", "id": call, "name": tool, "input": given}, "tool_use")
        self._said(f"● {tool}({given.get('command') or given.get('file_path') or given.get('description') or ''})")
        return call

    def _ran(self, tool: str, given: Json, call: str, step: Json) -> Script:
        if "tool" in step:
            yield Hook("PreToolUse", self._about(tool, given, call), tool)
        ms = step.get("ms", 300)
        yield Sleep(ms / 1000)
        out = step.get("out", "made")
        response: Json = {"stdout": out, "stderr": "", "interrupted": False, "isImage": False}
        if tool == "Write":
            response = {"type": "create", "filePath": given["file_path"], "content": given["content"]}
        yield from self._result(tool, given, call, response, out, ms)

    def _result(self, tool: str, given: Json, call: str, response: Json, text: str, ms: int = 2) -> Script:
        self._log.user([{"tool_use_id": call, "type": "tool_result", "content": text}], toolUseResult=response)
        self._said(f"  ⎿  {text}")
        about = self._about(tool, given, call)
        yield Hook("PostToolUse", {**about, "tool_response": response, "duration_ms": ms}, tool)
        yield Hook("PostToolBatch", {"tool_calls": [{**about, "tool_response": text}]})

    def _ask(self, questions: list[Json], step: Json) -> Script:
        dialog = dialogs.Question(questions)
        call = yield from self._called("AskUserQuestion", dialog.input, step)
        yield Hook("PreToolUse", self._about("AskUserQuestion", dialog.input, call), "AskUserQuestion")
        outcome = yield Ask(dialog)
        if outcome["result"] == "rejected":
            self._log.rejected(call)
            raise Rejected
        if outcome["result"] == "chat":
            self._log.refused(call)
            return
        given = {**dialog.input, "answers": outcome["answers"], "annotations": {}}
        response = {**dialog.input, "answers": outcome["answers"]}
        pairs = ", ".join(f'"{question}"="{answer}"' for question, answer in outcome["answers"].items())
        yield from self._result("AskUserQuestion", given, call, response, f"User has answered: {pairs}")

    def _plan(self, plan: str, step: Json) -> Script:
        path = f"{self._agent.home}/.claude/plans/quiet-fox.md"
        dialog = dialogs.Plan(plan, path)
        call = yield from self._called("ExitPlanMode", dialog.input, step)
        yield Hook("PreToolUse", self._about("ExitPlanMode", dialog.input, call), "ExitPlanMode")
        outcome = yield Ask(dialog)
        if outcome["result"] == "approved":
            yield from self._result("ExitPlanMode", dialog.input, call, {"plan": plan}, "User has approved your plan.")
        elif outcome.get("text"):
            self._log.refused(call, outcome["text"])
        else:
            self._log.rejected(call)
            raise Rejected

    def _error(self, text: str, step: Json) -> Script:
        self._agent.error_name = step.get("type", "server_error")
        yield Sleep(0)
        raise Failed(text)

    def _retry(self, count: int, step: Json) -> Script:
        for number in range(1, count + 1):
            self._agent.note = f"529 Overloaded · Retrying in 1s… (attempt {number}/10)"
            yield Sleep(step.get("ms", 500) / 1000)
        self._agent.note = ""

    def _agent_call(self, task: str, step: Json) -> Generator[Request, Any, tuple[Json, str, Json]]:
        given = {"description": task, "prompt": "[[say:Sub agent result]]", "subagent_type": "general-purpose"}
        call = yield from self._called("Agent", given, step)
        yield Hook("PreToolUse", self._about("Agent", given, call), "Agent")
        inner = {"agent_id": f"a{uuid.uuid4().hex[:16]}", "agent_type": "general-purpose"}
        yield Hook("SubagentStart", inner, "general-purpose")
        return given, call, inner

    def _subagent(self, ms: int, step: Json) -> Script:
        given, call, inner = yield from self._agent_call("Sub task", step)
        tool = self._about("Bash", {"command": "ls"}, f"toolu_{uuid.uuid4().hex[:20]}")
        yield Sleep(ms / 2000)
        yield Hook("PreToolUse", {**tool, **inner}, "Bash")
        yield Hook("PostToolUse", {**tool, **inner, "tool_response": {"stdout": "a"}, "duration_ms": 5}, "Bash")
        yield Sleep(ms / 2000)
        yield Hook("SubagentStop", {**inner, **self._agent.subagent_end(inner["agent_id"])}, "general-purpose")
        response = {"status": "completed", "agentId": inner["agent_id"], "totalDurationMs": ms}
        yield from self._result("Agent", given, call, response, "Sub agent result", ms)

    def _background(self, ms: int, step: Json) -> Script:
        given, call, inner = yield from self._agent_call("Background task", step)
        self.background.append({"id": inner["agent_id"], "type": "subagent", "status": "running"})
        self._agent.in_background(ms / 1000, inner)
        yield from self._result("Agent", given, call, {"status": "async_launched"}, "Launched in the background")

    def _garbage(self, count: int, step: Json) -> Script:
        self._agent.scribble(random.Random(step.get("seed", 1)).randbytes(count))
        yield Sleep(step.get("ms", 500) / 1000)

    def _hang(self, seconds: float, step: Json) -> Script:
        self._agent.hang(seconds)
        yield Sleep(0)

    def _exit(self, code: int, step: Json) -> Script:
        self._agent.leave(code)
        yield Sleep(60)

    def _kill(self, number: int, step: Json) -> Script:
        self._agent.kill(number)
        yield Sleep(60)
