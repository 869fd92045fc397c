"""The hooks of a settings file, in Claude's own shape, and the faults that can befall them."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import os
import random
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

Json = dict[str, Any]
Results = list[Json]
Done = Callable[[Results], None]

LIMIT = 60.0
"""Seconds a hook may take when its settings do not say otherwise."""


class Clock:
    """Timers and readable files of one thread."""

    def __init__(self) -> None:
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._dropped: set[int] = set()
        self.selector = selectors.DefaultSelector()

    def after(self, seconds: float, call: Callable[[], None]) -> int:
        """Call it then. The number is for ``drop``."""
        number = next(self._count)
        heapq.heappush(self._timers, (time.monotonic() + seconds, number, call))
        return number

    def drop(self, number: int | None) -> None:
        """That timer will not fire."""
        if number is not None:
            self._dropped.add(number)

    def watch(self, file: int, call: Callable[[], None]) -> None:
        """Call it whenever the file can be read."""
        self.selector.register(file, selectors.EVENT_READ, call)

    def unwatch(self, file: int) -> None:
        """No more of that file."""
        self.selector.unregister(file)

    def turn(self) -> None:
        """Wait for whatever comes next, and do it."""
        wait = max(self._timers[0][0] - time.monotonic(), 0) if self._timers else None
        for key, _ in self.selector.select(wait):
            key.data()
        now = time.monotonic()
        due = []
        while self._timers and self._timers[0][0] <= now:
            due.append(heapq.heappop(self._timers))
        for _, number, call in due:
            if number in self._dropped:
                self._dropped.discard(number)
            else:
                call()


class Hooks:
    """Runs the commands of an event. ``lost`` names events (``Stop``, ``PreToolUse:Bash``) that nobody hears of.

    With ``delay_ms`` every command starts at a random time within it, by itself, and nothing waits for its answer:
    hooks overtake each other. ``seed`` makes the delays the same each time.
    """

    def __init__(
        self,
        clock: Clock,
        settings: Json,
        env: dict[str, str],
        *,
        lost: Sequence[str] = (),
        none: bool = False,
        delay_ms: int = 0,
        seed: int = 0,
    ) -> None:
        self._clock, self._env = clock, env
        self._settings: Json = {} if none else settings.get("hooks") or {}
        self._lost = set(lost)
        self._delay = delay_ms / 1000
        self._random = random.Random(seed)

    @property
    def permuted(self) -> bool:
        """Whether answers come too late to be waited for."""
        return self._delay > 0

    def run(self, event: str, payload: Json, done: Done, *, subject: str = "") -> None:
        """Run all commands for the event; ``done`` gets their answers, at once when there are none."""
        commands = self._commands(event, subject)
        waited = [command for command in commands if not command.get("async")]
        if not self.permuted:
            for command in commands:
                if command.get("async"):
                    Run(self._clock, command, payload, self._env, lambda _: None)
            Together(len(waited), done).start(self._clock, waited, payload, self._env)
            return
        for command in commands:
            self._later(command, payload, done if event == "Stop" else lambda _: None)
        if event != "Stop" or not commands:
            done([])

    def _later(self, command: Json, payload: Json, done: Done) -> None:
        def start() -> None:
            Run(self._clock, command, payload, self._env, lambda answer: done([answer]))

        self._clock.after(self._random.uniform(0, self._delay), start)

    def _commands(self, event: str, subject: str) -> list[Json]:
        if event in self._lost or f"{event}:{subject}" in self._lost:
            return []
        found = []
        for group in self._settings.get(event, ()):
            matcher = group.get("matcher") or ""
            if matcher in ("", "*") or re.fullmatch(matcher, subject):
                found += [hook for hook in group.get("hooks", ()) if hook.get("type", "command") == "command"]
        return found


class Together:
    """Several commands at once, and one call when the last has answered."""

    def __init__(self, count: int, done: Done) -> None:
        self._open, self._done = count, done
        self._answers: Results = []

    def start(self, clock: Clock, commands: list[Json], payload: Json, env: dict[str, str]) -> None:
        """Start them; with none of them it is over."""
        if not commands:
            self._done([])
        for command in commands:
            Run(clock, command, payload, env, self._answered)

    def _answered(self, answer: Json) -> None:
        self._answers.append(answer)
        self._open -= 1
        if not self._open:
            self._done(self._answers)


class Run:
    """One command. ``done`` gets its answer: the JSON it printed, its exit code, and its error text."""

    def __init__(
        self, clock: Clock, command: Json, payload: Json, env: dict[str, str], done: Callable[[Json], None]
    ) -> None:
        self._clock, self._done = clock, done
        self._output = b""
        self._process = subprocess.Popen(
            command["command"],
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(payload).encode())
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdin = None
        self._file = self._process.stdout.fileno()
        clock.watch(self._file, self._readable)
        self._limit = clock.after(float(command.get("timeout", LIMIT)), self._process.kill)

    def _readable(self) -> None:
        chunk = os.read(self._file, 65536)
        self._output += chunk
        if chunk:
            return
        self._clock.unwatch(self._file)
        self._clock.drop(self._limit)
        _, problem = self._process.communicate()
        self._done(self._answer(problem))

    def _answer(self, problem: bytes) -> Json:
        answer: Json = {}
        text = self._output.decode(errors="replace").strip()
        if text.startswith("{"):
            with contextlib.suppress(ValueError):
                answer = json.loads(text)
        answer.setdefault("text", text)
        return {**answer, "code": self._process.returncode, "problem": problem.decode(errors="replace").strip()}


def block_reason(answers: Results) -> str | None:
    """Why an answer of a Stop hook sends the agent on; None when it may stop."""
    for answer in answers:
        if answer.get("decision") == "block":
            return str(answer.get("reason", ""))
        if answer["code"] == 2:
            return str(answer["problem"])
    return None


def permission(answers: Results) -> str | None:
    """``allow`` or ``deny``, if a PreToolUse or PermissionRequest hook decided; else None."""
    for answer in answers:
        if answer["code"] == 2:
            return "deny"
        specific = answer.get("hookSpecificOutput") or {}
        decided = specific.get("permissionDecision") or (specific.get("decision") or {}).get("behavior")
        if decided in ("allow", "deny"):
            return str(decided)
    return None
