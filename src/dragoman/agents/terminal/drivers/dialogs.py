"""One dialog at a time as one decision, however many sources tell of it.

Hooks know what a dialog is about, and may come before it, late, or never; the screen knows its options, and whether it
is still there. A dialog is announced when the screen shows it or the program reports that it is blocked; a hook alone
is believed only after ``HOOK_ALONE`` seconds in which the screen has shown nothing that contradicts it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from dragoman.agents.common.observation import Dialog, Sighting
from dragoman.agents.terminal.tui.reading import ScreenDialog
from dragoman.hub.events import AnyFact, DecisionOpened, DecisionRevised, Json, Option, Origin, Question
from dragoman.hub.session import Session

HOOK_ALONE = 1.0
"""Seconds after which a dialog that only a hook has told of is believed in."""

GONE_AFTER = 0.12
"""Seconds for which a dialog must be off the screen to be over: a program may draw it in two steps."""

UNSEEN = 1.5
"""Seconds for which the screen must deny a dialog that it never showed, and that only a hook or a title told of."""

GHOST = 1.0
"""Seconds for which a dialog that is known to be over may stand on the screen."""

MAX_ANNOUNCED = 16
"""Dialogs that hooks told of and that have not been shown yet."""

FALLBACK = (Option("Accept"), Option("Cancel"))
"""The options of a dialog whose own cannot be read."""


class OpenDialog:
    """The dialog that is open now."""

    def __init__(self, decision: str, about: Dialog, cause: str, opened: float) -> None:
        self.decision = decision
        self.about = about
        self.cause = cause
        self.opened = opened
        self.shown: ScreenDialog | None = None
        self.shown_at = opened
        """When its present page was first seen on the screen."""
        self.missing_since: float | None = None
        self.refuted_since: float | None = None
        """Since when the screen, which has never shown it, shows that nothing is asked."""
        self.given = 0
        """Questions, of a dialog that has several, that lie behind the page on the screen."""
        self.asked_again = False
        """Whether an answer to it has failed before: nobody but a client answers it now."""


class Dialogs:
    """Opens, revises and ends the decisions of one session's terminal. ``changed`` is called when one began, was first
    seen on the screen, or ended.

    ``clock`` is the loop's.
    """

    def __init__(self, session: Session, *, record: Callable[[AnyFact], object], changed: Callable[[], None]) -> None:
        self._session = session
        self._record = record
        self._changed = changed
        self._announced: deque[tuple[Dialog, str, float]] = deque(maxlen=MAX_ANNOUNCED)
        self._ghost: tuple[str, float] | None = None
        self.open: OpenDialog | None = None
        self.screen_known = False
        """Whether the screen can be read at all: without a model hooks must be believed at once."""

    # What sources tell

    def told(self, sighting: Sighting, now: float) -> None:
        """A hook, a log, a title or a status report says that something is asked."""
        about = sighting.dialog
        if self.open is not None:
            if about is not None and not self._revise(about):
                self._announced.append((about, sighting.cause, now))
            return
        if sighting.source in ("status", "title") or not self.screen_known:
            self._ghost = None
            known = self._take_announced(about)
            self._begin(known or about or Dialog(kind="permission"), sighting.cause, now)
        elif about is not None and not any(_same(about, other) for other, _, _ in self._announced):
            self._announced.append((about, sighting.cause, now))

    def tool_ended(self, call: str | None, tool: str | None, input_: Json) -> None:
        """A tool has run: whatever was asked about it is over."""
        self._announced = deque(
            (entry for entry in self._announced if not _is_about(entry[0], call, tool, input_)), maxlen=MAX_ANNOUNCED
        )
        if self.open is not None and _is_about(self.open.about, call, tool, input_):
            self.end("hook")

    def no_longer_asked(self, now: float) -> None:
        """The program itself says that it no longer waits."""
        self._announced.clear()
        if self.open is not None:
            self.end("status")
            if self._ghost is not None:
                self._ghost = (self._ghost[0], now)

    def on_screen(self, dialog: ScreenDialog | None, now: float, *, at_rest: bool, resized: bool = False) -> None:
        """What the screen shows now. ``at_rest``: it shows work or an input box, so that nothing is asked."""
        self.screen_known = True
        if dialog is None:
            self._ghost = None
            self._off_screen(now, at_rest=at_rest)
            return
        current = self.open
        if current is None:
            if not self._is_ghost(dialog, now):
                self._begin_shown(dialog, now)
        elif current.shown is None:
            self._show(current, dialog, now)
        elif current.shown.identity == dialog.identity or (resized and _looks_like(current.shown, dialog)):
            current.shown, current.missing_since = dialog, None
        elif _is_next_page(current.shown, dialog):
            self._turn_page(current, dialog, now)
        else:
            self.end("screen")
            self._ghost = None
            self._begin_shown(dialog, now)

    def look_again(self, now: float) -> float | None:
        """Seconds until time alone may change something here; None when it cannot."""
        if self.open is not None:
            ends = self._over_at(self.open)
            return None if ends is None else max(0.0, ends - now)
        return max(0.0, self._announced[0][2] + HOOK_ALONE - now) if self._announced else None

    def tick(self, now: float, *, at_rest: bool) -> None:
        """Time has passed."""
        current = self.open
        if current is not None:
            ends = self._over_at(current)
            if ends is not None and now >= ends:
                self.end("screen")
        elif self._announced and now >= self._announced[0][2] + HOOK_ALONE:
            about, cause, _ = self._announced.popleft()
            if not at_rest:
                self._begin(about, cause, now)

    @staticmethod
    def _over_at(current: OpenDialog) -> float | None:
        """When it is over, unless the screen shows it before."""
        if current.missing_since is not None:
            return current.missing_since + GONE_AFTER
        return None if current.refuted_since is None else current.refuted_since + UNSEEN

    # Ends

    def end(self, by: str) -> None:
        """The open dialog is gone. If nobody answered through us, somebody did at the terminal."""
        current, self.open = self.open, None
        if current is None:
            return
        if current.shown is not None:
            self._ghost = (current.shown.identity, asyncio.get_running_loop().time())
        self._session.settle_decision(current.decision, reason=f"answered at the terminal ({by})")
        self._changed()

    def ask_again(self, decision: str) -> None:
        """An answer did not get to its dialog, which still stands: that is a new decision, from its present page on."""
        current = self.open
        if current is None or current.decision != decision or current.shown is None:
            return
        self._session.cancel_decision(decision, "its answer did not reach the agent")
        again = self._begin(current.about, current.cause, current.opened, current.shown, asked_again=True)
        if current.shown.tabs:
            self._turn_page(again, current.shown, current.shown_at)

    def void(self, reason: str) -> None:
        """The program is gone, and its dialogs with it."""
        current, self.open = self.open, None
        self._announced.clear()
        if current is not None:
            self._session.cancel_decision(current.decision, reason)

    def give_up_on_options(self) -> None:
        """The open dialog's options cannot be read."""
        current = self.open
        if current is not None and current.shown is None and not current.about.options:
            current.about = msgspec.structs.replace(current.about, options=FALLBACK)
            self._record(
                DecisionRevised(
                    decision=current.decision, options=FALLBACK, options_fallback=True, ready=True, cause="enriched"
                )
            )

    # Inside

    def _begin_shown(self, dialog: ScreenDialog, now: float) -> None:
        seen = _about(dialog)
        known = self._take_announced(seen)
        about = seen if known is None else _joined(known, seen)
        cause = f"screen:{about.kind}" if known is None else f"hook:prompt({about.kind})"
        self._begin(about, cause, now, dialog)

    def _begin(
        self, about: Dialog, cause: str, now: float, shown: ScreenDialog | None = None, *, asked_again: bool = False
    ) -> OpenDialog:
        session = self._session
        current = OpenDialog(session.ids(), about, cause, now)
        current.shown, current.asked_again = shown, asked_again
        turn = session.state.turn
        text = about.text or (shown.body if shown is not None else "") or about.tool or about.kind
        self._record(
            DecisionOpened(
                decision=current.decision,
                kind=about.kind,
                text=text,
                turn=turn.turn if turn is not None else None,
                call=about.call,
                tool=about.tool,
                input=about.input,
                options=about.options,
                questions=about.questions,
                ready=bool(about.options or about.questions) or shown is not None,
                subtype=about.subtype,
                secret=_takes_secret(about, shown),
                auth_url=about.auth_url,
                origin=Origin(source="screen" if shown is not None else cause.partition(":")[0]),
            )
        )
        self.open = current
        self._changed()
        return current

    def _show(self, current: OpenDialog, dialog: ScreenDialog, now: float) -> None:
        current.shown, current.shown_at, current.refuted_since = dialog, now, None
        seen = _about(dialog)
        before = current.about
        current.about = about = _joined(before, seen)
        self._record(
            DecisionRevised(
                decision=current.decision,
                kind=about.kind if about.kind != before.kind else None,
                text=about.text if about.text != before.text else None,
                tool=about.tool if about.tool != before.tool else None,
                subtype=about.subtype if about.subtype != before.subtype else None,
                auth_url=about.auth_url if about.auth_url != before.auth_url else None,
                options=about.options or None,
                questions=about.questions if about.questions != before.questions else None,
                ready=True,
                secret=_takes_secret(about, dialog),
                cause="enriched",
            )
        )
        self._changed()

    def _revise(self, about: Dialog) -> bool:
        """Add what is told to the open dialog; False when it is about another one."""
        current = self.open
        assert current is not None
        if not _may_be_same(current.about, about):
            return False
        before, after = current.about, _joined(about, current.about)
        current.about = after
        changes = {
            name: getattr(after, name)
            for name in ("kind", "text", "tool", "input", "call", "subtype", "auth_url", "questions")
            if getattr(after, name) != getattr(before, name)
        }
        if changes:
            self._record(DecisionRevised(decision=current.decision, cause="enriched", **changes))
        return True

    def _turn_page(self, current: OpenDialog, dialog: ScreenDialog, now: float) -> None:
        """The dialog's next question, or its review."""
        current.shown, current.shown_at, current.missing_since = dialog, now, None
        total = len(current.about.questions) or len(dialog.tabs)
        position = next((at for at, tab in enumerate(dialog.tabs) if tab.current), total)
        current.given = page = total if dialog.review else min(position, total)
        known = _with_page(current.about.questions, dialog, position)
        opened = self._session.state.decisions.get(current.decision)
        ahead = opened is not None and opened.question_current < page
        if opened is not None and (ahead or known != current.about.questions):
            self._record(
                DecisionRevised(
                    decision=current.decision,
                    question_current=page if ahead else None,
                    questions=known if known != current.about.questions else None,
                    cause="",
                )
            )
        current.about = msgspec.structs.replace(current.about, questions=known)

    def _off_screen(self, now: float, *, at_rest: bool) -> None:
        if at_rest:
            self._drop_refuted(now)
        current = self.open
        if current is None:
            return
        if current.shown is not None:
            current.missing_since = current.missing_since or now
        elif not at_rest or current.cause.startswith("status"):
            current.refuted_since = None  # a program's own word counts for more than its picture
        else:
            current.refuted_since = current.refuted_since or now

    def _drop_refuted(self, now: float) -> None:
        """What hooks told of, and the screen has had time to show and does not."""
        while self._announced and now >= self._announced[0][2] + HOOK_ALONE:
            self._announced.popleft()

    def _take_announced(self, about: Dialog | None) -> Dialog | None:
        fits = [entry for entry in self._announced if about is None or _may_be_same(entry[0], about)]
        if not fits:
            return None
        best = next((entry for entry in fits if about is not None and _names(about, entry[0])), fits[0])
        self._announced.remove(best)
        return best[0]

    def _is_ghost(self, dialog: ScreenDialog, now: float) -> bool:
        return self._ghost is not None and self._ghost[0] == dialog.identity and now - self._ghost[1] < GHOST


def _takes_secret(about: Dialog, shown: ScreenDialog | None) -> bool:
    """Whether what is typed into it may be a code or a key: a field of a set-up dialog, or nobody knows what yet."""
    if shown is None:
        return about.kind == "setup" or (about.tool is None and not about.text)
    return about.kind == "setup" and not shown.rows and not shown.enter_only


def _about(dialog: ScreenDialog) -> Dialog:
    options = tuple(Option(row.label, description=row.description or None) for row in dialog.rows)
    questions: tuple[Question, ...] = ()
    if dialog.kind == "question" and not dialog.review:
        questions = (Question(dialog.text, options, multiple=dialog.multiple),)
        if dialog.tabs:  # the others are not on the screen yet
            questions = tuple(
                questions[0] if tab.current else Question(tab.label, header=tab.label) for tab in dialog.tabs
            )
    return Dialog(
        kind=dialog.kind,
        text=dialog.text,
        subtype=dialog.subtype,
        tool=dialog.tool,
        input={"text": dialog.body} if dialog.kind == "permission" and dialog.body else None,
        auth_url=dialog.auth_url,
        options=options,
        questions=questions,
    )


def _with_page(questions: tuple[Question, ...], dialog: ScreenDialog, position: int) -> tuple[Question, ...]:
    """The questions, with the one that stands on the screen now; its rows were not known before it did."""
    if dialog.review or position >= len(questions) or questions[position].options:
        return questions
    options = tuple(Option(row.label, description=row.description or None) for row in dialog.rows)
    shown = Question(dialog.text, options, header=questions[position].header, multiple=dialog.multiple)
    return (*questions[:position], shown, *questions[position + 1 :])


def _joined(told: Dialog, seen: Dialog) -> Dialog:
    """What a hook told and the screen shows: the hook knows better what it is about, the screen how it looks."""
    return msgspec.structs.replace(
        told,
        kind=seen.kind if told.kind == "permission" and told.tool is None else told.kind,
        text=told.text or seen.text,
        subtype=told.subtype or seen.subtype,
        tool=told.tool or seen.tool,
        input=told.input if told.input is not None else seen.input,
        call=told.call or seen.call,
        auth_url=told.auth_url or seen.auth_url,
        options=seen.options or told.options,
        questions=told.questions or seen.questions,
    )


def _may_be_same(one: Dialog, other: Dialog) -> bool:
    if one.call is not None and other.call is not None and one.call != other.call:
        return False
    if one.kind != other.kind and "permission" not in (one.kind, other.kind):
        return False
    if one.kind != other.kind and (one.tool is not None and other.tool is not None):
        return False
    if one.tool is not None and other.tool is not None and one.tool != other.tool:
        return False
    return not (_by_program(one) and _by_program(other)) or one.input == other.input


def _names(seen: Dialog, told: Dialog) -> bool:
    """Whether what the screen shows names what a hook told of: the command, the file."""
    if not isinstance(seen.input, dict) or not isinstance(told.input, dict):
        return False
    shown = "".join(str(seen.input.get("text", "")).split())
    return any(
        isinstance(value, str) and value.strip() and "".join(value.split()) in shown for value in told.input.values()
    )


def _by_program(dialog: Dialog) -> bool:
    """Whether its input came from the program, not from what the screen shows."""
    return dialog.input is not None and not (isinstance(dialog.input, dict) and set(dialog.input) == {"text"})


def _same(one: Dialog, other: Dialog) -> bool:
    return (one.kind, one.tool, one.input) == (other.kind, other.tool, other.input)


def _is_about(dialog: Dialog, call: str | None, tool: str | None, input_: Json) -> bool:
    if dialog.call is not None and call is not None:
        return dialog.call == call
    return dialog.tool is not None and dialog.tool == tool and (not _by_program(dialog) or dialog.input == input_)


def _is_next_page(old: ScreenDialog, new: ScreenDialog) -> bool:
    if old.kind != "question" or new.kind != "question":
        return False
    if new.review or old.review:
        return bool(old.tabs or new.tabs) or new.review
    return bool(old.tabs) and [tab.label for tab in old.tabs] == [tab.label for tab in new.tabs]


def _looks_like(old: ScreenDialog, new: ScreenDialog) -> bool:
    return old.kind == new.kind and [row.label for row in old.rows] == [row.label for row in new.rows]
