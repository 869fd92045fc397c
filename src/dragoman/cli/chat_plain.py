"""A chat without a terminal to type at: one prompt (``--print``), or one line of standard input after the other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from .chat_commands import command, is_command
from .chat_decisions import Answer, Decision
from .chat_talk import NoCommand, Talk
from .chat_text import Line, clean, one_line, plain, sgr, wrap
from .main import complain

CANCELLED = 130
"""Exit code of a turn that was cancelled, as a shell says that Ctrl-C ended a program."""

PATIENCE = 10.0
"""Seconds without the server after which nobody waits any longer."""

NARROWEST = 20
NOBODY = "Nobody is there to answer. Decide by yourself, and say what you decided."
DENIED = "This is no person's answer: nobody is there to be asked; run with --mode all to permit it."
"""Sent with a refusal, as a person's words are: without it an agent tells its model that a person refused."""

READ_BYTES = 65536
WORDS = 100


class Printer:
    """Writes lines to a stream: with colours and wrapped where it is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._coloured = self._terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.broken = False
        """Whether nothing can be written any more."""
        self._problem = ""

    def columns(self) -> int | None:
        """How wide a row may be; None for a file or a pipe."""
        if not self._terminal:
            return None
        return max(NARROWEST, os.get_terminal_size(self._stream.fileno()).columns - 1)

    def __call__(self, lines: list[Line]) -> None:
        if not lines or self.broken:
            return
        rows = [row for line in lines for row in wrap(line, self.columns())]
        text = "".join((sgr(row) if self._coloured else plain(row)) + "\n" for row in rows)
        try:
            self._stream.buffer.write(text.encode(errors="replace"))
            self._stream.buffer.flush()
        except OSError as problem:
            self.broken = True
            if not isinstance(problem, BrokenPipeError):  # whoever stops reading has read enough
                self._problem = problem.strerror or str(problem)

    def ended(self, code: int) -> int:
        """The exit code of whoever wrote here: one of failure, said aloud, where something was lost."""
        if not self._problem:
            return code
        complain(f"it could not be written: {self._problem}")
        return code or 1


class Interrupts:
    """Ctrl-C while no prompt is on the screen: counted, and told."""

    def __init__(self, told: Callable[[], None]) -> None:
        self.count = 0
        self._told = told
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)

    def _interrupt(self) -> None:
        self.count += 1
        self._told()


async def print_once(talk: Talk, prompt: str, *, allow: bool) -> int:
    """One turn; its answer goes to stdout. The exit code: 0 completed, 1 failed, 130 cancelled."""
    interrupts = Interrupts(talk.wake)
    key = await _send(talk, prompt)
    if key is None:
        return 1
    await _through(talk, key, interrupts, allow=allow)
    if (outcome := talk.outcomes.get(key)) is None:
        return CANCELLED if interrupts.count else 1
    code = exit_code(outcome["outcome"])
    if code == 0:
        text = clean(str(outcome.get("result") or talk.view.answer))
        printer = Printer(sys.stdout)
        printer([[("", line)] for line in text.rstrip("\n").split("\n")])
        code = printer.ended(code)
    elif outcome["outcome"] != "cancelled":
        message = str((outcome.get("problem") or {}).get("message") or outcome["outcome"])
        talk.say(f"the turn failed: {message}", "")
    return code


async def _send(talk: Talk, prompt: str) -> str | None:
    """Send a prompt, or a slash command where the session's folder has it."""
    if is_command(prompt):
        name, _, words = prompt.strip().partition(" ")
        with contextlib.suppress(NoCommand):  # then it is a prompt like any other
            return await talk.run(name.removeprefix("/"), words.strip(), when_busy="queue")
    return await talk.submit(prompt, when_busy="queue")


async def _through(talk: Talk, key: str, interrupts: Interrupts, *, allow: bool) -> None:
    """Until that prompt has its outcome; whatever is asked meanwhile is answered by rule."""
    handled = 0

    def stirs() -> bool:
        return key in talk.outcomes or talk.over is not None or interrupts.count > handled or talk.asking is not None

    while key not in talk.outcomes and talk.over is None:
        await talk.until(stirs)
        if interrupts.count > handled:
            handled = interrupts.count
            if handled > 1 or not talk.busy:
                return
            await talk.cancel()
        elif (decision := talk.asking) is not None:
            answer, note = by_rule(decision, allow=allow)
            if note:
                talk.say(note, "")
            await talk.reply(decision, answer)


def by_rule(decision: Decision, *, allow: bool) -> tuple[Answer, str]:
    """What is answered where nobody is, and what is said of it."""
    kind, text = decision["kind"], one_line(str(decision["text"]), WORDS)
    if kind == "question":
        left = len(decision.get("questions") or ()) - decision.get("question_current", 0)
        answer = {"answers": [{"text": NOBODY}] * left} if left > 0 else {"text": NOBODY}
        return answer, f"not answered, nobody is there: {text}"
    if kind in ("permission", "plan") and allow:
        return {"accept": True}, ""
    # To a set-up dialog words would be typed.
    why = {"text": DENIED} if kind in ("permission", "plan") else {}
    hint = "; --mode all permits" if kind == "permission" else ""
    return {"accept": False, **why}, f"denied, nobody is there to ask{hint}: {text}"


def exit_code(outcome: str) -> int:
    """Of a turn that came out so."""
    return {"completed": 0, "cancelled": CANCELLED}.get(outcome, 1)


async def talk_by_lines(talk: Talk, *, allow: bool) -> int:
    """Each line of standard input is a prompt, a command, or the answer to what is asked. The last turn's exit code."""
    interrupts = Interrupts(talk.wake)
    lines = Lines(sys.stdin.fileno(), talk)
    code = 0
    while talk.over is None and not talk.left:
        line = await lines.next(lambda: interrupts.count > 0 or talk.over is not None)
        if line is None:
            break
        if not line.strip():
            continue
        if is_command(line):
            key = await command(talk, line)
            if key is None:
                continue
        else:
            key = await talk.submit(line)
        code = 1 if key is None else await _answered(talk, key, lines, interrupts, allow=allow)
        interrupts.count = 0
    if interrupts.count:
        return CANCELLED
    return code if talk.over is None else 1


async def _answered(talk: Talk, key: str, lines: Lines, interrupts: Interrupts, *, allow: bool) -> int:
    """Until that prompt has its outcome; what is asked meanwhile is answered by the next lines, then by rule."""
    handled = interrupts.count

    def broken_off() -> bool:
        return key in talk.outcomes or talk.over is not None or interrupts.count > handled

    while key not in talk.outcomes and talk.over is None:
        await talk.until(lambda: broken_off() or talk.asking is not None)
        if interrupts.count > handled:
            handled = interrupts.count
            await talk.cancel()
        elif (decision := talk.asking) is not None:
            await _answer(talk, decision, lines, broken_off, allow=allow)
    outcome = talk.outcomes.get(key)
    return 1 if outcome is None else exit_code(outcome["outcome"])


async def _answer(talk: Talk, decision: Decision, lines: Lines, broken_off: Callable[[], bool], *, allow: bool) -> None:
    def still() -> bool:
        return talk.asking is not None and talk.asking["decision"] == decision["decision"]

    line = await lines.next(lambda: broken_off() or not still())
    if line is not None and still():
        await talk.answer(line)
    elif line is None and lines.ended and still():
        answer, note = by_rule(decision, allow=allow)
        if note:
            talk.say(f"· {note}", "warn")
        await talk.reply(decision, answer)


class Lines:
    """Lines of a file descriptor that may block: read by threads that nobody has to wait for. A line that comes too
    late for what it was read for is the next one."""

    def __init__(self, descriptor: int, talk: Talk) -> None:
        self.ended = False
        """Whether there is no other line."""
        self._descriptor = descriptor
        self._talk = talk
        self._held = b""
        self._pieces: list[bytes] = []
        self._reading = False
        self._at_end = False

    async def next(self, stop: Callable[[], bool]) -> str | None:
        """The next line without its end; None at the end, or when ``stop`` came true first."""
        while b"\n" not in self._held and not self._at_end:
            if not self._reading:
                self._reading = True
                wake = self._talk.wake_from_afar()
                threading.Thread(target=self._read, args=(wake,), daemon=True).start()
            await self._talk.until(lambda: bool(self._pieces) or stop())
            if not self._pieces or stop():  # what came at the same moment is for whoever reads next
                return None
            piece = self._pieces.pop()
            self._reading = False
            self._held += piece
            self._at_end = not piece
        line, _, self._held = self._held.partition(b"\n")
        if not line and self._at_end and not self._held:
            self.ended = True
            return None
        return line.decode(errors="replace").rstrip("\r")

    def _read(self, wake: Callable[[], None]) -> None:
        try:
            piece = os.read(self._descriptor, READ_BYTES)
        except OSError:
            piece = b""
        self._pieces.append(piece)
        wake()
