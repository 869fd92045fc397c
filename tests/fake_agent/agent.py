"""A scripted program that behaves on a terminal like Claude Code 2.1.332, and records what is true of it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import termios
import time
import traceback
import tty
import uuid
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.fake_agent import picture, scenarios
from tests.fake_agent.dialogs import CHEVRON, RULE, Dialog, Trust
from tests.fake_agent.hooks import Clock, Hooks, Results, block_reason, permission
from tests.fake_agent.keys import Key, Keys
from tests.fake_agent.picture import Picture
from tests.fake_agent.record import Record
from tests.fake_agent.session_log import VERSION, SessionLog, place
from tests.fake_agent.turn import Ask, Hook, Request, Sleep, Turn

Json = dict[str, Any]

ESCAPE_WAIT = 0.03
"""Seconds after which a lone ESC is the Escape key."""

REPLY_WAIT = 0.4
"""Seconds to wait for the terminal's answers at the start."""

BURST = 0.015
"""Seconds after text within which an Enter belongs to a paste, with ``--paste-like-codex``."""

QUERIES = "\x1b[>0q\x1b[?u\x1b[c"
BLOCKED = {"permission": "permission", "plan": "permission", "question": "question"}


class Agent:
    """The program: what it shows, what it was told, and the turn it is in."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.cwd, self.home = str(Path.cwd()), os.environ.get("HOME", "/")
        self.session = options.resume or options.session_id or str(uuid.uuid4())
        self.record = Record(options.record)
        self.record.state("starting", pid=os.getpid())
        self.clock = Clock()
        self.picture = Picture(sys.stdout.fileno())
        path = place(self.home, self.cwd, self.session)
        self.log = SessionLog(
            self.clock,
            path,
            self.cwd,
            self.session,
            none=options.no_log,
            delay_ms=options.delay_log,
            split=options.split_log,
        )
        self.hooks = self._hooks(options)
        self.state = "starting"
        self.note = ""
        self.error_name = "server_error"
        self._keys = Keys()
        self._early: list[Key] = []
        self._flush: int | None = None
        self._status = False
        self._queries_open = False
        self._transcript: list[str] = []
        self._box = ""
        self._collapsed: dict[str, str] = {}
        self._queue: list[tuple[str, str]] = []
        self._dialog: Dialog | None = None
        self._serial = 0
        self._turn: Turn | None = None
        self._began = 0.0
        self._frame = 0
        self._tip = 0
        self._swallow = options.swallow_enters
        self._typed_at = 0.0
        self._interrupts = 0.0
        self._notice: int | None = None
        self._hang = dict([options.hang]) if options.hang else {}
        self._code: int | None = None
        self._leaving = False

    def _hooks(self, options: argparse.Namespace) -> Hooks:
        settings = json.loads(_text(options.settings)) if options.settings else {}
        env = {
            **os.environ,
            "CLAUDE_PROJECT_DIR": self.cwd,
            "CLAUDE_CODE_SESSION_ID": self.session,
            "CLAUDE_PID": str(os.getpid()),
            "CLAUDECODE": "1",
        }
        return Hooks(
            self.clock,
            settings,
            env,
            lost=options.lose_hook,
            none=options.no_hooks,
            delay_ms=options.delay_hooks,
            seed=options.seed,
        )

    # the process

    def run(self) -> int:
        """Until it ends; the exit code."""
        before = termios.tcgetattr(0)
        tty.setraw(0)
        self._signals()
        self.clock.watch(0, self._readable)
        try:
            self._start()
            while self._code is None:
                self.clock.turn()
        except Exception:
            self.record.effect("crashed", text=traceback.format_exc())
            raise
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, before)
        return self._code

    def _signals(self) -> None:
        inner, outer = os.pipe()
        os.set_blocking(outer, False)
        signal.set_wakeup_fd(outer, warn_on_full_buffer=False)
        for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

        def came() -> None:
            for number in os.read(inner, 64):
                if number == signal.SIGWINCH:
                    self._draw()
                elif number == signal.SIGTERM:
                    self.end(143, "other")
                elif number == signal.SIGHUP:
                    self.leave(129)

        self.clock.watch(inner, came)

    def _start(self) -> None:
        time.sleep(self.options.start_delay / 1000)
        asked = "" if self.options.no_7501 else "\x1b]7501;?\x1b\\"
        self._queries_open = True
        self.picture.write(asked + QUERIES)
        self.clock.after(REPLY_WAIT, self._ready)

    def _ready(self) -> None:
        if not self._queries_open:
            return
        self._queries_open = False
        self.picture.write(picture.ENTER)
        if self.options.trust == "none":
            self._begin()
            return
        self._show_dialog(Trust(self.cwd, numbered=self.options.trust == "197"))
        self._take_early()

    def _begin(self) -> None:
        source = "resume" if self.options.resume else "startup"
        self._hook("SessionStart", {"source": source, "model": "claude-opus-5-5"}, self._started, source)

    def _started(self, answers: Results) -> None:
        self.log.other("mode", mode="normal")
        self.log.other("permission-mode", permissionMode="default")
        for answer in answers:
            added = (answer.get("hookSpecificOutput") or {}).get("additionalContext") or answer.get("text")
            if added:
                self.log.other("attachment", attachment={"type": "hook_additional_context", "content": added})
        self._transcript = [*picture.BANNER, f"  ▘▘ ▝▝    {self.cwd}", ""]
        self._enter("idle")
        self.clock.after(self.options.spinner / 1000, self._tick)
        if self.options.chatter:
            self.clock.after(self.options.chatter / 1000, self._chat)
        self._take_early()
        if self.options.prompt:
            self._submit(self.options.prompt)

    def _take_early(self) -> None:
        early, self._early = self._early, []
        for key in early:
            self._key(key)

    def end(self, code: int, reason: str) -> None:
        """End in order: the SessionEnd hook first."""
        if self._leaving:
            return
        self._leaving = True
        self._hook("SessionEnd", {"reason": reason}, lambda _: self.leave(code), reason)

    def leave(self, code: int) -> None:
        """Give the terminal back and end."""
        with contextlib.suppress(OSError):
            self.picture.write((picture.status("clear") if self._status else "") + picture.LEAVE)
        self.record.state("exited", code=code, signal=None)
        self._code = code

    def kill(self, number: int) -> None:
        """End by a signal of our own."""
        self.record.state("exited", code=None, signal=number)
        signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), number)

    def hang(self, seconds: float) -> None:
        """Neither draw nor answer."""
        self._draw()
        time.sleep(seconds)

    # hooks

    def _hook(self, event: str, more: Json, done: Any, subject: str = "") -> None:
        inside = self._turn.fields() if self._turn is not None else {}
        common = {"session_id": self.session, "transcript_path": str(self.log.path), "cwd": self.cwd}
        self.hooks.run(event, {**common, **inside, "hook_event_name": event, **more}, done, subject=subject)

    def aside(self, event: str, more: Json, subject: str = "") -> None:
        """Run a hook that nothing waits for."""
        self._hook(event, more, lambda _: None, subject)

    def subagent_end(self, agent: str) -> Json:
        """What SubagentStop adds."""
        folder = self.log.path.with_suffix("") / "subagents"
        return {
            "stop_hook_active": False,
            "agent_transcript_path": str(folder / f"agent-{agent}.jsonl"),
            "last_assistant_message": "Sub agent result",
            "background_tasks": [],
            "session_crons": [],
        }

    def in_background(self, seconds: float, inner: Json) -> None:
        """Let another agent work on after the turn, and report."""
        tool = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": f"toolu_{uuid.uuid4().hex[:20]}"}

        def works() -> None:
            self.aside("PreToolUse", {**tool, **inner}, "Bash")
            self.clock.after(0.1, worked)

        def worked() -> None:
            self.aside("PostToolUse", {**tool, **inner, "tool_response": {"stdout": "a"}, "duration_ms": 100}, "Bash")

        def over() -> None:
            self.aside("SubagentStop", {**inner, **self.subagent_end(inner["agent_id"])}, "general-purpose")
            report = f"<task-notification>\n<task-id>{inner['agent_id']}</task-id>\n<status>completed</status>\n"
            self._put_in(f"{report}</task-notification>\n[[say:The task is done.]]", by="agent")

        self.clock.after(seconds / 2, works)
        self.clock.after(seconds, over)

    # turns

    @property
    def elapsed(self) -> float:
        """Seconds in this turn."""
        return time.monotonic() - self._began

    def say(self, *lines: str) -> None:
        """More of the conversation."""
        self._transcript += lines
        del self._transcript[:-400]
        self._draw()

    def _put_in(self, text: str, by: str) -> None:
        if self._turn is None and self._dialog is None:
            self._submit(text, by)
        else:
            self._queue.append((text, by))

    def _submit(self, text: str, by: str = "person") -> None:
        self.clock.drop(self._notice)
        self.record.effect("submitted", text=text, by=by)
        self._began, self.note = time.monotonic(), ""
        self._transcript += [
            "",
            *(f"{CHEVRON if n == 0 else ' '} {line}" for n, line in enumerate(text.split("\n"))),
            "",
        ]
        self._enter("working")
        self._turn = Turn(self, text)
        self._advance(self._turn, None)

    def _advance(self, turn: Turn, value: Any) -> None:
        if self._turn is not turn or self._code is not None:
            return
        try:
            request: Request = turn.script.send(value)
        except StopIteration:
            return
        if isinstance(request, Sleep):
            self.clock.after(request.seconds, lambda: self._advance(turn, None))
        elif isinstance(request, Hook):
            self._ask_hook(turn, request)
        elif isinstance(request, Ask):
            self._show_dialog(request.dialog)

    def _ask_hook(self, turn: Turn, hook: Hook) -> None:
        if not (self.hooks.permuted and hook.event == "Stop"):
            self._hook(hook.event, hook.more, lambda answers: self._advance(turn, answers), hook.subject)
            return

        def late(answers: Results) -> None:
            reason = block_reason(answers)
            if reason is not None:
                self._put_in(f"Stop hook feedback:\n{reason}", by="agent")

        self._hook("Stop", hook.more, late)
        self._advance(turn, [])

    def finished(self) -> None:
        """The turn came to its end."""
        if self.elapsed >= 2:
            self._transcript.append(f"✻ Brewed for {int(self.elapsed)}s")
        self._idle("idle", "done")

    def interrupted(self) -> None:
        """The turn was ended by the user."""
        self._transcript.append("  ⎿  Interrupted · What should Claude do instead?")
        self._idle("idle", "idle")

    def failed(self, text: str, name: str) -> None:
        """The turn was ended by a failure."""
        self._idle("error", "error", detail=text, category=name)

    def _idle(self, state: str, status: str, **more: Any) -> None:
        self._turn = None
        self.note = ""
        if self._queue:
            self._submit(*self._queue.pop(0))
            return
        self._enter(state, (status,), **more)
        self._notice = self.clock.after(self.options.idle_after, self._notify_idle)

    def _notify_idle(self) -> None:
        self._notify("Claude is waiting for your input", "idle_prompt")

    def _notify(self, message: str, kind: str) -> None:
        self.aside("Notification", {"message": message, "notification_type": kind}, kind)

    # dialogs

    def _show_dialog(self, dialog: Dialog) -> None:
        self._serial += 1
        dialog.serial = self._serial
        self._dialog = dialog
        self._enter("prompt", ("blocked", BLOCKED[dialog.kind], dialog.message), **dialog.describe())
        if dialog.tool is None:
            return
        asked: Json = {"tool_name": dialog.tool, "tool_input": dialog.input}
        if dialog.kind == "permission":
            asked["permission_suggestions"] = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]

        def decided(answers: Results) -> None:
            by_hook = permission(answers)
            if by_hook is not None and self._dialog is dialog and dialog.kind == "permission":
                result = {"allow": "allowed", "deny": "denied"}[by_hook]
                self._over(dialog, {"effect": "permission", "result": result, "option": None, "by": "hook"})

        self._hook("PermissionRequest", asked, decided, dialog.tool)
        self._notice = self.clock.after(
            self.options.notify_after, lambda: self._notify("Claude needs your permission", "permission_prompt")
        )

    def _over(self, dialog: Dialog, effect: Json) -> None:
        self._dialog = None
        self.clock.drop(self._notice)
        effect = {**effect, "dialog": dialog.serial, "tool": dialog.tool, "input": dialog.input}
        self.record.effect(effect.pop("effect"), **effect)
        if isinstance(dialog, Trust):
            if effect["result"] == "allowed":
                self._resume_start()
            else:
                self.leave(1)
            return
        assert self._turn is not None
        ends = effect["result"] in ("denied", "rejected") and not effect.get("text")
        if not ends or self._goes_on():
            self._enter("working")
        self._advance(self._turn, effect)

    def _resume_start(self) -> None:
        self.record.state("starting")
        self.state = "starting"
        self._begin()

    def _goes_on(self) -> bool:
        """Whether a refusal does not end this turn."""
        turn = self._turn
        steps = scenarios.steps(turn.prompt, self.options.scenario) if turn is not None else []
        return any(step.get("on_deny") == "continue" for step in steps)

    # keys

    def _readable(self) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if not data:
            self.clock.unwatch(0)
            self.leave(129)
            return
        self.clock.drop(self._flush)
        self._flush = None
        keys = self._keys.feed(data)
        if self.options.paste_like_codex:
            keys = self._as_codex(keys)
        self._handle(keys)
        if self._keys.pending:
            self._flush = self.clock.after(ESCAPE_WAIT, lambda: self._handle(self._keys.flush()))

    def _as_codex(self, keys: list[Key]) -> list[Key]:
        now = time.monotonic()
        text = sum(len(key.text) for key in keys if key.name == "text") > 1
        pasted = text or now - self._typed_at < BURST
        if any(key.name == "text" for key in keys):
            self._typed_at = now
        return [Key("newline") if key.name == "enter" and pasted else key for key in keys]

    def _handle(self, keys: list[Key]) -> None:
        for key in keys:
            if key.name == "status-reply":
                self._status = self._queries_open and not self.options.no_7501
            elif key.name == "attributes-reply":
                self._ready()
            elif self.state == "starting":
                self._early.append(key)
            else:
                self._key(key)

    def _key(self, key: Key) -> None:
        if self._code is not None or self._leaving:
            return
        if self._dialog is None:
            self._box_key(key)
            self._draw()
            return
        if key.name != "text":
            self._dialog_key(key)
            return
        for character in key.text:
            self._dialog_key(Key("text", character))

    def _dialog_key(self, key: Key) -> None:
        dialog = self._dialog
        if dialog is None:
            self._key(key)
            return
        effect = dialog.key(Key("esc") if key.name == "ctrl-c" else key)
        if effect is not None:
            self._over(dialog, effect)
        else:
            self._draw()

    def _box_key(self, key: Key) -> None:
        match key.name:
            case "text":
                self._box += key.text
            case "paste":
                self._box += self._collapse(key.text)
            case "newline":
                self._box += "\n"
            case "backspace":
                self._box = self._box[:-1]
            case "ctrl-u":
                self._box = ""
            case "enter":
                self._enter_key()
            case "esc":
                self._interrupt()
            case "ctrl-c":
                self._ctrl_c()
            case "ctrl-d" if not self._box and self._turn is None:
                self.end(0, "prompt_input_exit")

    def _collapse(self, text: str) -> str:
        lines = text.count("\n")
        if lines <= 2 and len(text) <= 800:
            return text
        number = len(self._collapsed) + 1
        name = f"[Pasted text #{number} +{lines} lines]" if lines else f"[Pasted text #{number}]"
        self._collapsed[name] = text
        return name

    def _enter_key(self) -> None:
        if self._swallow > 0:
            self._swallow -= 1
            return
        if self._box.endswith("\\"):
            self._box = self._box[:-1] + "\n"
            return
        text, self._box = self._box.strip(), ""
        for name, whole in self._collapsed.items():
            text = text.replace(name, whole)
        if text == "/exit":
            self.end(0, "prompt_input_exit")
        elif text:
            self._put_in(text, "person")

    def _ctrl_c(self) -> None:
        if self._turn is not None:
            self._interrupt()
        elif self._box:
            self._box = ""
        elif time.monotonic() - self._interrupts < 1:
            self.end(0, "prompt_input_exit")
        else:
            self._interrupts = time.monotonic()

    def _interrupt(self) -> None:
        turn = self._turn
        if turn is None:
            return
        self._turn = None
        turn.script.close()
        self.record.effect("interrupted", text=turn.prompt)
        if not turn.produced and not self._box:
            self._box = turn.prompt
        self.log.interrupted()
        self.interrupted()

    # the screen

    def _enter(self, state: str, status: tuple[str | None, ...] = (), **more: Any) -> None:
        """Show the state, say it, record it. ``status`` is state, kind and message for OSC 7501."""
        self.state = state
        before = ""
        if self._status:
            before = picture.status(*(status or (state,)))
            if not self._frame:
                before += picture.title("Claude Code")
        elif not self.options.no_titles:
            before = picture.title(f"{'◐' if state == 'working' else '✳'} Claude Code")
        self._frame += 1
        self._draw(before)
        self.record.state(state, **more)
        if seconds := self._hang.pop(state, 0):
            time.sleep(seconds)

    def _tick(self) -> None:
        self.clock.after(self.options.spinner / 1000, self._tick)
        if self.state != "working":
            return
        self._frame += 1
        busy = not self._status and not self.options.no_titles and self._frame % 4 == 0
        sign = picture.BUSY[self._frame // 4 % len(picture.BUSY)]
        self._draw(picture.title(f"{sign} Claude Code") if busy else "")

    def _chat(self) -> None:
        self.clock.after(self.options.chatter / 1000, self._chat)
        self._tip += 1
        self._draw()

    def scribble(self, data: bytes) -> None:
        """Throw bytes at the terminal, then draw everything anew."""
        self.picture.write(data + b"\x18\x1b\\\x1bc")
        self.picture.write(picture.ENTER)
        self.picture.forget()
        self._draw()

    def _draw(self, before: str = "") -> None:
        if self.state == "starting" or self._code is not None:
            return
        cols = self.picture.size[0]
        above = list(self._transcript)
        if self._dialog is not None:
            lines = [*above, "", *self._dialog.lines(cols)]
            self.picture.show(lines, (len(lines) - 1, 0), before)
            return
        if self.state == "working":
            above += ["", self._spinner()]
        above += ["", *(f"\x1b[2m  queued: {text}\x1b[22m" for text, _ in self._queue)]
        box = picture.wrap(self._box, cols - 3)
        drawn = [f"{CHEVRON if number == 0 else ' '} {line}" for number, line in enumerate(box)]
        lines = [*above, RULE * cols, *drawn, RULE * cols, f"\x1b[2m  {self._footer()}\x1b[22m"]
        self.picture.show(lines, (len(above) + len(box), picture.width(box[-1]) + 2), before)

    def _spinner(self) -> str:
        star = picture.STAR[self._frame % len(picture.STAR)]
        tokens = int(self.elapsed * 7)
        counted = f"\x1b[2m({int(self.elapsed)}s · ↓ {tokens} tokens · esc to interrupt)\x1b[22m"
        return f"\x1b[38;5;174m{star} Thinking…\x1b[39m {self.note or counted}"

    def _footer(self) -> str:
        if time.monotonic() - self._interrupts < 1:
            return "Press Ctrl-C again to exit"
        return f"? for shortcuts · tip {self._tip}" if self._tip else "? for shortcuts"


def _text(settings: str) -> str:
    return settings if settings.lstrip().startswith("{") else Path(settings).read_text()


def _state_seconds(text: str) -> tuple[str, float]:
    state, _, seconds = text.partition(":")
    return state, float(seconds)


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line; flags of the real program that mean nothing here are ignored."""
    parser = argparse.ArgumentParser(prog="agent.py", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("prompt", nargs="?", help="submit this at the start")
    add("--version", "-v", action="version", version=f"{VERSION} (Claude Code)")
    add("--session-id", metavar="UUID")
    add("--resume", metavar="UUID")
    add("--settings", metavar="FILE", help="hooks, in Claude's own shape: a file or the JSON itself")
    add("--mcp-config", metavar="FILE")
    add("--permission-mode", default="default")
    add("--scenario", default="hello", metavar="NAME", help="what a prompt without directives does (scenarios.py)")
    add("--record", metavar="FILE", help="append what is true to this file")
    add("--trust", choices=("none", "332", "197"), default="none", help="ask for trust first, as that version does")
    add("--start-delay", type=int, default=0, metavar="MS")
    add("--spinner", type=int, default=200, metavar="MS", help="how often it turns")
    add("--notify-after", type=float, default=6, metavar="S", help="the permission_prompt notification")
    add("--idle-after", type=float, default=60, metavar="S", help="the idle_prompt notification")
    add("--paste-like-codex", action="store_true", help="text and CR in one read is a paste")
    add("--swallow-enters", type=int, default=0, metavar="N", help="lose the first N Enters in the input box")
    add("--seed", type=int, default=0, help="of --delay-hooks")
    add("--lose-hook", action="append", default=[], metavar="EVENT[:SUBJECT]")
    add("--delay-hooks", type=int, default=0, metavar="MS", help="each by itself, at a random time within MS")
    add("--no-hooks", action="store_true")
    add("--split-log", action="store_true", help="the second half of each line 150 ms after the first")
    add("--delay-log", type=int, default=0, metavar="MS")
    add("--no-log", action="store_true")
    add("--no-7501", action="store_true", help="no program status")
    add("--no-titles", action="store_true")
    add("--chatter", type=int, default=0, metavar="MS", help="draw something this often, also while idle")
    add("--hang", type=_state_seconds, metavar="STATE:S", help="hang once, when the state begins")
    options, _ = parser.parse_known_args(argv)
    return options


if __name__ == "__main__":
    sys.exit(Agent(parse(sys.argv[1:])).run())
