"""The terminal of ``dragoman chat``: a prompt at the bottom that takes what is typed at any time, the talk above it.

Imported late: prompt_toolkit is heavy. Rows go above the prompt as they become full; the row that still grows, and the
tools that run, are drawn with the prompt.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style

from .chat_commands import COMMANDS, MODES, command, is_command, is_known, offered, standing
from .chat_decisions import Decision, hint
from .chat_talk import Talk
from .chat_text import PROMPT, Line, clean, fit, whole, wrap

TWICE = 2.0
"""Seconds within which a second Ctrl-C leaves."""

FLUSH = 0.02
"""Seconds for which rows are gathered before they are drawn."""

FAREWELL = 2.0
"""Seconds that what is still being sent may take when one leaves."""

NARROWEST = 20

_STYLE = Style.from_dict(
    {
        "dim": "fg:ansibrightblack",
        "bold": "bold",
        "you": "bold fg:ansicyan",
        "good": "fg:ansigreen",
        "bad": "fg:ansired",
        "warn": "fg:ansiyellow",
        "danger": "bold fg:ansired",
        "bottom-toolbar": "noreverse fg:ansibrightblack",
        "bottom-toolbar.text": "",
    }
)


class Terminal:
    """See the module. ``history`` is the file of what was typed, None for none."""

    def __init__(self, history: Path | None) -> None:
        self._rows: list[Line] = []
        self._flush: asyncio.TimerHandle | None = None
        self._talk: Talk | None = None
        self._draft = ""
        self._asking: Decision | None = None
        self._interrupted = float("-inf")
        self._sending: set[asyncio.Task[object]] = set()
        kept: History = InMemoryHistory() if history is None else FileHistory(str(history))
        self._history = _Prompts(kept, self._is_prompt)
        self._depth = ColorDepth.MONOCHROME if os.environ.get("NO_COLOR") else None
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            key_bindings=self._keys(),
            completer=_Commands(lambda: self._talk),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            bottom_toolbar=self._toolbar,
            prompt_continuation="  ",
            history=self._history,
            is_password=Condition(self._secret),
            erase_when_done=True,
            style=_STYLE,
            color_depth=self._depth,
        )

    # What is shown

    def columns(self) -> int:
        """How wide a row may be now."""
        return max(NARROWEST, self._session.app.output.get_size().columns - 1)

    def show(self, lines: list[Line]) -> None:
        """Put lines above the prompt, soon; without any, draw again what may have changed."""
        self._rows += [row for line in lines for row in wrap(line, self.columns())]
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH, self._draw)

    def _draw(self) -> None:
        self._flush = None
        rows, self._rows = self._rows, []
        app = self._session.app
        if rows:
            if app.is_running:
                app.renderer.erase()
            text = FormattedText([piece for row in rows for piece in (*_styled(row), ("", "\n"))])
            print_formatted_text(app.output, text, _STYLE, color_depth=self._depth)
            if app.is_running:
                app.renderer.request_absolute_cursor_position()
        # Only now: the prompt asks for an answer once the question stands above it.
        self._follow_decision()
        app.invalidate()

    def _message(self) -> FormattedText:
        talk = self._talk
        assert talk is not None
        pieces: list[tuple[str, str]] = []
        for row in talk.view.tail():
            pieces += [*_styled(row), ("", "\n")]
        if self._asking is not None:
            pieces += [("class:warn", fit(hint(self._asking), self.columns())), ("", "\n")]
        return FormattedText([*pieces, ("class:you", "? " if self._asking is not None else PROMPT)])

    def _toolbar(self) -> FormattedText:
        talk = self._talk
        assert talk is not None
        engine = "/".join(word for name in ("provider", "model") if (word := standing(talk, name)))
        words = [talk.session[:8], str(talk.row.get("kind", "")), engine, standing(talk, "mode"), self._doing()]
        return FormattedText([("", fit(" " + " · ".join(word for word in words if word), self.columns()))])

    def _doing(self) -> str:
        talk = self._talk
        assert talk is not None
        if not talk.client.connected:
            return "the server is away"
        if talk.asking is not None:
            return "waits for you"
        return "working (Ctrl-C cancels)" if talk.busy else ""

    # What is typed

    async def run(self, talk: Talk) -> None:
        """Take what is typed until the person leaves, or there is nothing to talk with. ``talk`` shows here."""
        self._talk = talk
        watching = asyncio.get_running_loop().create_task(self._leave_with(talk), name="end of the talk")
        try:
            while not self._gone():
                try:
                    typed = await self._session.prompt_async(default=self._take_draft())
                except EOFError:
                    break
                self._enter(talk, whole(typed))
        finally:
            watching.cancel()
            await self._finish()

    def _gone(self) -> bool:
        return self._talk is None or self._talk.left or self._talk.over is not None

    async def _leave_with(self, talk: Talk) -> None:
        await talk.until(self._gone)
        self._leave()

    def _leave(self) -> None:
        if self._talk is not None and not self._talk.left:
            self._talk.leave()
        app = self._session.app
        if app.is_running and not app.is_done:
            app.exit(exception=EOFError())

    async def _finish(self) -> None:
        """Let go what is still being sent, and draw what is still to be drawn."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=FAREWELL)
        for task in self._sending:
            task.cancel()
        if self._flush is not None:
            self._flush.cancel()
            self._draw()

    def _enter(self, talk: Talk, typed: str) -> None:
        if self._asking is not None and not is_known(typed):
            # What counts is the question that was on the screen.
            if _name(talk.asking) == _name(self._asking):
                self._start(talk.answer(typed))
            else:
                talk.say("· not sent: it is no longer asked", "warn")
        elif not typed.strip():
            return
        else:
            talk.echo(typed)
            self._start(command(talk, typed) if is_command(typed) else talk.submit(typed))

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[object]) -> None:
        self._sending.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler({"message": "a command failed", "exception": problem})

    def _follow_decision(self) -> None:
        """A question takes the prompt: what was half typed comes back after it, and is never taken for its answer."""
        before, self._asking = self._asking, self._talk.asking if self._talk is not None else None
        if _name(before) == _name(self._asking):
            return
        buffer = self._session.default_buffer
        if before is None:
            self._draft = buffer.text
        buffer.reset()
        if self._asking is None:
            buffer.insert_text(self._take_draft())

    def _take_draft(self) -> str:
        if self._asking is not None:
            return ""
        draft, self._draft = self._draft, ""
        return draft

    def _is_prompt(self) -> bool:
        return self._asking is None

    def _secret(self) -> bool:
        return self._asking is not None and bool(self._asking.get("secret"))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            self._interrupt(event)

        @keys.add("c-d", filter=Condition(lambda: not self._session.default_buffer.text))
        def _(_: KeyPressEvent) -> None:
            self._leave()

        return keys

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Ctrl-C: empties the line, or cancels the turn, or (twice) leaves."""
        talk, now = self._talk, asyncio.get_running_loop().time()
        assert talk is not None
        again = now - self._interrupted < TWICE
        if again:
            self._leave()
            return
        if event.current_buffer.text and not talk.busy:
            event.current_buffer.reset()
            return
        self._interrupted = now
        if talk.busy:
            talk.say("· cancelling; Ctrl-C again leaves")
            self._start(talk.cancel())
        else:
            talk.say("· Ctrl-C again leaves")


class _Prompts(History):
    """Keeps what was typed as a prompt; answers are for nobody to find again."""

    def __init__(self, kept: History, is_prompt: Any) -> None:
        super().__init__()
        self._kept = kept
        self._is_prompt = is_prompt

    def append_string(self, string: str) -> None:
        if self._is_prompt():
            super().append_string(string)

    def load_history_strings(self) -> Iterable[str]:
        return self._kept.load_history_strings()

    def store_string(self, string: str) -> None:
        self._kept.store_string(string)


class _Commands(Completer):
    """Completes slash commands, also those of the session's folder, and the modes behind ``/mode``."""

    def __init__(self, talk: Callable[[], Talk | None]) -> None:
        self._talk = talk

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        typed = document.text_before_cursor
        if typed.startswith("/mode "):
            word = typed.removeprefix("/mode ")
            yield from (Completion(mode, -len(word)) for mode in MODES if mode.startswith(word))
        elif is_command(typed) and " " not in typed:
            talk = self._talk()
            known = {name: does for name, (does, _) in COMMANDS.items()}
            known |= offered(talk) if talk is not None else {}
            for name, does in known.items():
                if name.startswith(typed):
                    yield Completion(name, -len(typed), display_meta=does)


def _name(decision: Decision | None) -> str | None:
    return None if decision is None else str(decision["decision"])


def _styled(row: Line) -> list[tuple[str, str]]:
    return [(f"class:{style}" if style else "", clean(text)) for style, text in row]
