"""Hands: prompts and answers put into an agent's TUI key by key, each step seen to have worked before the next.

No dialog is answered by a fixed digit: the marker is moved to the wanted row, the screen is read again, and only then
comes Enter. No prompt counts as delivered before the agent has shown that it took it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from dragoman.agents.terminal.terminal import PtyTerminal
from dragoman.agents.terminal.tui.choose import find_row, keys_to, marked_row
from dragoman.agents.terminal.tui.reading import ScreenDialog
from dragoman.agents.terminal.tui.rows import plain_label
from dragoman.hub.errors import InvalidAnswer
from dragoman.hub.events import Answer

from .dialogs import OpenDialog
from .gate import InputGate
from .profile import Profile
from .settings import DriverSettings
from .watch import AgentWatch

PASTE_BEGIN, PASTE_END = b"\x1b[200~", b"\x1b[201~"

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""What a pasted text may not hold: keys, and the end of the paste."""

FIRST_BYTES = 256
"""Bytes of a prompt that need no more than the shortest delay."""

STEP = 1.0
"""Seconds for one step on the screen: a marker that moves, a page that turns."""

ENTER_AGAIN = (0.5, 1.0, 1.5)
"""Seconds after which an Enter that had no effect is pressed again."""

SETTLED = 0.3
"""Seconds for which a dialog must have stood before it is answered: some ignore keys that come too early."""

READ_WITHIN = 3.0
"""Seconds for the program to read what was typed before, and for the marker to move by one row."""

LOOK_AGAIN = 0.02
"""Seconds between two looks whether the program has read its input."""


def check_can_be_typed(answer: Answer) -> None:
    """Raise ``InvalidAnswer`` for an answer that is a text and nothing else, and leaves nothing to type."""
    for said in answer.answers or (answer,):
        chosen = said.option is not None or said.accept is not None or said.choices
        if said.text is not None and not chosen and not _typed(said):
            raise InvalidAnswer("an answer by text needs a text: there is nothing to type in this one")


def _typed(answer: Answer) -> str | None:
    """The text that an answer gives, if it gives one: some clients send an empty one beside an option."""
    return answer.text if answer.text is not None and _CONTROLS.sub("", answer.text).strip() else None


class NotDelivered(Exception):
    """What was to be put into the TUI did not get there. The message says why, for people."""


class Hands:
    """Types for one watch. Callers hold the input gate, except ``hand_over``, which takes it itself."""

    def __init__(
        self, watch: AgentWatch, gate: InputGate, terminal: PtyTerminal, profile: Profile, settings: DriverSettings
    ) -> None:
        self._watch = watch
        self._gate = gate
        self._terminal = terminal
        self._profile = profile
        self._settings = settings

    # Prompts

    async def hand_over(self, text: str) -> int:
        """Put a prompt into the input box and submit it; returns once the agent has evidently taken it.

        What it returns is ``AgentWatch.worked`` as it was before: what is more is work on this prompt.
        Raises ``NotDelivered`` or ``PersonTyping``.
        """
        watch = self._watch
        async with self._gate.delivery():
            if watch.state not in ("idle", "error"):
                raise NotDelivered(f"agent is {watch.state}")
            if not _CONTROLS.sub("", text).strip():
                raise NotDelivered("there is nothing in the prompt to submit")
            await self._check_box()
            await self._empty_box()
            await self._check_box()
            watch.ledger.expect_prompt(text)
            typed, came_back = self._gate.keys, watch.came_back
            data = self._as_input(text)
            self._terminal.deliver(data)
            if not await self._terminal.drained():
                raise NotDelivered("the program ended")
            stood_there = await self._pasted(len(data))
            await self._check_box()
            if self._gate.keys != typed:
                raise NotDelivered("someone types at the terminal: the prompt stands in the input box")
            worked = watch.worked
            await self._submit(typed, worked, came_back, stood_there=stood_there)
            return worked

    def _as_input(self, text: str) -> bytes:
        clean = _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
        data = clean.encode(errors="replace")
        screen = self._terminal.screen
        if screen is None or screen.bracketed_paste:
            return PASTE_BEGIN + data + PASTE_END
        return data

    async def _check_box(self) -> None:
        """Raise ``NotDelivered`` unless an input box stands there: in a dialog a prompt would be an answer."""
        watch = self._watch
        if self._terminal.screen is None:
            return
        watch.look()
        await watch.until(lambda: watch.reading.input_box is not None or watch.dialogs.open is not None, STEP)
        if watch.reading.dialog is not None or watch.dialogs.open is not None:
            raise NotDelivered("the agent asks something")
        if watch.reading.input_box is None:
            raise NotDelivered("the agent shows no input box")

    async def _empty_box(self) -> None:
        """Remove what was left in the input box: it would become a part of the prompt."""
        watch = self._watch
        for key in self._profile.clear:
            if not watch.look().input_box:
                return
            self._terminal.deliver_keys((key,))
            await watch.until(lambda: not watch.reading.input_box, 0.5)
        if watch.look().input_box:
            raise NotDelivered("the input box holds a draft that could not be cleared")

    async def _pasted(self, size: int) -> bool:
        """Give the agent time to take the paste in; whether it was then seen to stand in the box."""
        settings, watch = self._settings, self._watch
        delay = settings.input_delay + settings.input_delay_per_byte * max(0, size - FIRST_BYTES)
        await asyncio.sleep(min(delay, settings.input_delay_max))
        if watch.look().input_box is not None:
            await watch.until(lambda: bool(watch.reading.input_box) or watch.reading.input_box is None, STEP)
        return bool(watch.reading.input_box)

    async def _submit(self, typed: int, worked: int, came_back: int, *, stood_there: bool) -> None:
        watch = self._watch

        def taken() -> bool:
            if watch.came_back > came_back or not watch.running:
                return True
            # Work may also be its own, from before: then the text still stands in the box.
            moved = watch.worked > worked or watch.state in ("working", "prompt")
            return moved and not watch.reading.input_box

        def left_the_box() -> bool:
            return watch.reading.input_box == ""

        self._terminal.deliver(b"\r")
        for wait in ENTER_AGAIN:
            if await watch.until(taken, wait):
                break
            watch.look()
            if stood_there and left_the_box():
                return  # a command of the agent's own, that starts no work
            if self._gate.keys != typed:
                continue
            if watch.reading.input_box and not self._terminal.unread():
                self._terminal.deliver(b"\r")  # the first was swallowed: the text still stands there
        if not taken():
            rest = max(0.0, self._settings.nudge_timeout - sum(ENTER_AGAIN))
            await watch.until(taken, rest)
        if taken() or left_the_box():
            return
        await self._take_back()
        raise NotDelivered("the agent did not take the prompt: its Enter had no effect")

    async def _take_back(self) -> None:
        for key in self._profile.clear:
            if not self._watch.look().input_box:
                return
            self._terminal.deliver_keys((key,))
            await self._watch.until(lambda: not self._watch.reading.input_box, 0.5)

    # Answers

    async def answer(self, opened: OpenDialog, answer: Answer) -> None:
        """Answer a permission, a plan or a set-up dialog. Raises ``NotDelivered``."""
        dialog = await self._shown(opened)
        if dialog is None:
            await self._answer_unread(opened, accept=bool(answer.accept or answer.option == 1))
            return
        text = _typed(answer)
        if dialog.enter_only or (not dialog.rows and text is None):
            await self._confirm(opened, dialog, "escape" if answer.accept is False else "enter")
            return
        if dialog.rows:
            row = self._row_meant(opened, dialog, answer, text)
            await self._choose(opened, row)
            if text is not None and dialog.rows[row].free_text:
                await self._type(text)
            elif text is not None and opened.shown is not None and opened.shown.amendable:
                await self._open_field(opened, row)
                await self._type(text)
            elif text is not None and not answer.accept and answer.option is None and "mode" not in answer.values:
                # A no that says how it is meant is one without its remark too. Else the text may be all that was meant.
                raise NotDelivered("this dialog takes no text")
        else:  # a field to type into: a sign-in code
            await self._type(text or "")
        await self._confirm(opened, dialog)

    def _row_meant(self, opened: OpenDialog, dialog: ScreenDialog, answer: Answer, text: str | None) -> int:
        """A yes is a yes, whatever is said with it: only a no, or a row that takes text, has room for it."""
        free = _free_row(dialog)
        if text is not None and free is not None and answer.option is None and not answer.accept:
            return free
        return self._wanted(opened, dialog, answer)

    async def answer_questions(self, opened: OpenDialog, answers: Sequence[Answer], *, last: bool) -> None:
        """Answer a dialog of one or several questions, page by page. Raises ``NotDelivered``."""
        for answer in answers:
            dialog = await self._shown(opened)
            if dialog is None:
                raise NotDelivered("the dialog is not on the screen")
            await self._answer_page(opened, dialog, answer)
        if self._watch.dialogs.open is not opened:
            return  # some end with their last question, some with a page for review
        if last and (dialog := await self._shown(opened)) is not None:
            if not dialog.review:
                raise NotDelivered("the dialog shows one more question")
            if dialog.rows:
                submit = find_row(dialog, label=None, number=None, accept=True)
                if submit is None:
                    raise NotDelivered("the review of the answers shows no row that submits them")
                await self._choose(opened, submit)
            await self._confirm(opened, dialog)

    async def _answer_page(self, opened: OpenDialog, dialog: ScreenDialog, answer: Answer) -> None:
        text = _typed(answer)
        if text is not None and self._is_other(opened, dialog, answer.option):
            free = await self._row_for_text(opened, dialog)
            await self._choose(opened, free)
            await self._type(text)
            await self._confirm(opened, dialog)
            return
        if not (answer.choices or answer.option is not None or answer.accept is not None):
            raise NotDelivered("an earlier question is on the screen again, and what was said to it is not known")
        rows = [self._row_of_choice(dialog, choice) for choice in answer.choices]
        if not rows:
            rows = [self._wanted(opened, dialog, answer)]
        if dialog.multiple:
            await self._tick(opened, dialog, rows)
        else:
            await self._choose(opened, rows[0])
        await self._confirm(opened, dialog, "right" if dialog.multiple else "enter")

    async def _tick(self, opened: OpenDialog, dialog: ScreenDialog, rows: Sequence[int]) -> None:
        """Tick these rows and no others, each seen to have been ticked."""
        for at, row in enumerate(dialog.rows):
            wanted = at in rows
            if row.checked == wanted or row.number is None or (row.free_text and not wanted):
                continue
            await self._choose(opened, at)
            self._terminal.deliver(b"\r")

            def ticked(at: int = at, wanted: bool = wanted) -> bool:
                shown = opened.shown
                return shown is not None and at < len(shown.rows) and shown.rows[at].checked == wanted

            if not await self._watch.until(ticked, READ_WITHIN):
                raise NotDelivered("an option could not be ticked")

    def _is_other(self, opened: OpenDialog, dialog: ScreenDialog, option: int | None) -> bool:
        """Whether an answer with a text means the row for texts: no option, the one behind all others, or that row."""
        if option is None:
            return True
        labels = self._labels(opened, dialog)
        at = option - 1
        if at >= len(labels):
            return True
        row = dialog.rows[at] if at < len(dialog.rows) else None
        return row is not None and row.label == labels[at] and (row.free_text or row.key == "tab")

    def _labels(self, opened: OpenDialog, dialog: ScreenDialog) -> list[str]:
        """The options by whose places an answer counts, as they were announced."""
        questions = opened.about.questions
        if opened.about.kind == "question" and questions:
            page = next((at for at, tab in enumerate(dialog.tabs) if tab.current), 0)
            announced = questions[min(page, len(questions) - 1)].options or opened.about.options
        else:
            announced = opened.about.options
        return [option.label for option in announced]

    async def _row_for_text(self, opened: OpenDialog, dialog: ScreenDialog) -> int:
        """The row that takes a text; some show one only once its key was pressed at another row."""
        free = _free_row(dialog)
        if free is not None:
            return free
        at = next((at for at, row in enumerate(dialog.rows) if row.key == "tab"), None)
        if at is None:
            raise NotDelivered("this question takes no text")
        await self._choose(opened, at)
        return await self._open_field(opened, at)

    async def _open_field(self, opened: OpenDialog, row: int) -> int:
        """Turn the marked row into a field, or get one beside it; the place of the field."""
        self._terminal.deliver_keys(("tab",))
        await self._watch.until(lambda: opened.shown is not None and _free_row(opened.shown) is not None, STEP)
        free = None if opened.shown is None else _free_row(opened.shown)
        if free is None:
            raise NotDelivered(f"the field for a text did not come up at row {row + 1}")
        return free

    def _row_of_choice(self, dialog: ScreenDialog, choice: str) -> int:
        row = find_row(dialog, label=choice, number=None, accept=None)
        if row is None:
            raise NotDelivered(f"there is no option {choice!r}")
        return row

    def _wanted(self, opened: OpenDialog, dialog: ScreenDialog, answer: Answer) -> int:
        """The row that the answer means: by its label where the decision has shown labels."""
        row: int | None = None
        if answer.option is not None:
            labels = self._labels(opened, dialog)
            at = answer.option - 1
            if 0 <= at < min(len(labels), len(dialog.rows)) and dialog.rows[at].label == labels[at]:
                row = at  # where it was announced: two rows may say the same
            elif 0 <= at < min(len(labels), len(dialog.rows)) and dialog.rows[at].label == plain_label(labels[at]):
                row = at  # what looks like a mark or a key in a label is not in the row's
            elif 0 < answer.option <= len(labels):
                row = find_row(dialog, label=labels[answer.option - 1], number=None, accept=None)
            elif 0 < answer.option <= len(dialog.rows):
                row = answer.option - 1
        elif opened.about.kind == "setup" and answer.accept is None:
            row = 0
        else:
            row = find_row(dialog, label=None, number=None, accept=bool(answer.accept))
        if row is None:
            raise NotDelivered("the dialog shows no such option")
        return row

    async def _choose(self, opened: OpenDialog, row: int) -> None:
        """Move the marker to the row, key by key, and see it there. No key is sent twice: a slow program hears both."""
        meant: str | None = None
        while True:
            dialog = await self._shown(opened)
            if dialog is None or row >= len(dialog.rows):
                raise NotDelivered("the dialog changed before it was answered")
            label = dialog.rows[row].label
            if meant is not None and label != meant and not dialog.rows[row].free_text:
                raise NotDelivered("the dialog's options changed before it was answered")
            meant = label
            if dialog.rows[row].selected:
                return
            keys = keys_to(dialog, row)
            if not keys:
                raise NotDelivered("no row of the dialog is marked")
            await self._step(opened, dialog, keys[0])

    async def _step(self, opened: OpenDialog, dialog: ScreenDialog, key: str) -> None:
        """Move the marker by one row, and see it move by just that."""
        watch = self._watch
        before = marked_row(dialog)
        self._terminal.deliver_keys((key,))

        def moved() -> bool:
            shown = opened.shown
            return watch.dialogs.open is not opened or (shown is not None and marked_row(shown) not in (None, before))

        if not await watch.until(moved, READ_WITHIN):
            raise NotDelivered("the marker does not move to the wanted option")
        shown = opened.shown
        step = 1 if key in ("down", "right") else -1
        if watch.dialogs.open is opened and shown is not None and marked_row(shown) != (before or 0) + step:
            raise NotDelivered("somebody else moves the marker")

    async def _type(self, text: str) -> None:
        self._terminal.deliver(self._as_input(text))
        await self._terminal.drained()
        await asyncio.sleep(self._settings.input_delay)

    async def _confirm(self, opened: OpenDialog, dialog: ScreenDialog, key: str = "enter") -> None:
        """Press the key that ends this page, and wait until the page is gone.

        It is pressed again only where the program has read it and drawn nothing since: otherwise what stands there may
        be the same question asked anew, and nobody has answered that one.
        """
        watch, terminal = self._watch, self._terminal

        def gone() -> bool:
            shown = opened.shown
            return watch.dialogs.open is not opened or (shown is not None and shown.identity != dialog.identity)

        drawn = terminal.tape.end
        terminal.deliver_keys((key,))
        if await watch.until(gone, ENTER_AGAIN[-1]):
            return
        watch.look()
        if not gone() and terminal.tape.end == drawn and not terminal.unread():
            terminal.deliver_keys((key,))
        if not await watch.until(gone, self._settings.answer_timeout):
            raise NotDelivered("the dialog still stands: it did not take the answer, or the same was asked again")

    async def _answer_unread(self, opened: OpenDialog, *, accept: bool) -> None:
        """A dialog whose options could not be read: Enter is its yes, Escape its no."""
        self._terminal.deliver(b"\r" if accept else b"\x1b")
        if not await self._watch.until(lambda: self._watch.dialogs.open is not opened, STEP):
            self._watch.dialogs.end("unread")

    async def _shown(self, opened: OpenDialog) -> ScreenDialog | None:
        """The dialog as it stands on the screen, once it has settled; None when the screen does not show it."""
        watch = self._watch
        watch.look()

        def there() -> bool:
            return watch.dialogs.open is not opened or (opened.shown is not None and opened.missing_since is None)

        shown = await watch.until(there, STEP)
        if watch.dialogs.open is not opened:
            raise NotDelivered("the dialog is gone")
        if not shown:
            return None
        since = asyncio.get_running_loop().time() - opened.shown_at
        if since < SETTLED:
            await asyncio.sleep(SETTLED - since)
            return await self._shown(opened)
        if await self._caught_up():
            return await self._shown(opened)
        return opened.shown

    async def _caught_up(self) -> bool:
        """Wait until the program has read all that was typed, also by a person; whether it took a while.

        Until then the picture may be older than the keys. Raises ``NotDelivered`` when it reads nothing.
        """
        loop = asyncio.get_running_loop()
        if not self._terminal.unread():
            return False
        until = loop.time() + READ_WITHIN
        while self._terminal.unread():
            if loop.time() > until:
                raise NotDelivered("the agent does not read its input")
            await asyncio.sleep(LOOK_AGAIN)
        await asyncio.sleep(SETTLED)
        return True


def _free_row(dialog: ScreenDialog) -> int | None:
    return next((at for at, row in enumerate(dialog.rows) if row.free_text), None)
