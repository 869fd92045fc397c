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
from dragoman.hub.events import AnyFact, DecisionOpened, DecisionRevised, Json, Option, Origin
from dragoman.hub.session import Session

from .same_dialog import (
    but_for_typing,
    dialog_shown,
    fits,
    is_about,
    is_next_page,
    joined,
    looks_like,
    may_be_same,
    names,
    same,
    takes_secret,
    with_page,
)

HOOK_ALONE = 1.0
"""Seconds after which a dialog that only a hook has told of is believed in."""

GONE_AFTER = 0.12
"""Seconds for which a dialog must be off the screen to be over: a program may draw it in two steps."""

UNSEEN = 1.5
"""Seconds for which the screen must deny a dialog that it never showed, and that only a hook or a title told of."""

STALE_STATUS = 10.0
"""The same, for one that the program's own status told of."""

GHOST = 1.0
"""Seconds for which a dialog that is known to be over may stand on the screen."""

LATE = 2.0
"""Seconds after a dialog's end in which a hook may still tell of it."""

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
        self.size: tuple[int, int] = (0, 0)
        """Columns and rows of the screen when it was last seen there."""
        self.being_answered = False
        """Whether an answer is on its way to it."""
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
        self._last: tuple[Dialog | None, float] = (None, 0.0)
        """What the dialog that was over last was about, as it was shown, and when that was."""
        self.open: OpenDialog | None = None
        self.screen_known = False
        """Whether the screen can be read at all: without a model hooks must be believed at once."""

    # What sources tell

    def told(self, sighting: Sighting, now: float) -> None:
        """A hook, a log, a title or a status report says that something is asked."""
        about = sighting.dialog
        if self.open is not None:
            if about is not None and not self._revise(about):
                self._announce(about, sighting.cause, now)
            return
        if sighting.source in ("status", "title") or not self.screen_known:
            self._ghost = None
            known = self._take_announced(about)
            self._begin(known or about or Dialog(kind="permission"), sighting.cause, now)
        elif about is not None:
            self._announce(about, sighting.cause, now)

    def _announce(self, about: Dialog, cause: str, now: float) -> None:
        last, ended = self._last
        if last is not None and now < ended + LATE and fits(about, last):
            return  # news of the one that is over
        if not any(same(about, other) for other, _, _ in self._announced):
            self._announced.append((about, cause, now))

    def tool_ended(self, call: str | None, tool: str | None, input_: Json) -> None:
        """A tool has run: whatever was asked about it is over."""
        self._announced = deque(
            (entry for entry in self._announced if not is_about(entry[0], call, tool, input_)), maxlen=MAX_ANNOUNCED
        )
        if self.open is not None and is_about(self.open.about, call, tool, input_):
            self.end("hook")

    def no_longer_asked(self, now: float, *, by_itself: bool = True) -> None:
        """The program no longer waits: it says so itself, or only a hook or a log does, whose news may be late.

        What the screen still shows, only the program's own word ends.
        """
        self._announced.clear()
        if self.open is not None and (by_itself or not self._stands(self.open)):
            self.end("status")
            if self._ghost is not None:
                self._ghost = (self._ghost[0], now)

    @staticmethod
    def _stands(current: OpenDialog) -> bool:
        return current.shown is not None and current.missing_since is None

    def on_screen(
        self,
        dialog: ScreenDialog | None,
        now: float,
        *,
        at_rest: bool,
        resized: bool = False,
        size: tuple[int, int] = (0, 0),
    ) -> None:
        """What the screen shows now. ``at_rest``: it shows work or an input box, so that nothing is asked."""
        self.screen_known = True
        if dialog is None:
            self._ghost = None
            self._off_screen(now, at_rest=at_rest, size=size)
            return
        self._on_screen(dialog, now, resized=resized)
        if self.open is not None:
            self.open.size = size

    def _on_screen(self, dialog: ScreenDialog, now: float, *, resized: bool) -> None:
        current = self.open
        if current is None:
            if not self._is_ghost(dialog, now):
                self._begin_shown(dialog, now)
        elif current.shown is None:
            self._show(current, dialog, now)
        elif current.shown.identity == dialog.identity or self._is_same(current.shown, dialog, resized=resized):
            current.shown, current.missing_since = dialog, None
        elif is_next_page(current.shown, dialog) and (current.being_answered or self._is_open(current)):
            self._turn_page(current, dialog, now)
        else:
            self.end("screen")
            self._ghost = None
            self._begin_shown(dialog, now)

    @staticmethod
    def _is_same(shown: ScreenDialog, dialog: ScreenDialog, *, resized: bool) -> bool:
        return but_for_typing(shown, dialog) or (resized and looks_like(shown, dialog))

    def _is_open(self, current: OpenDialog) -> bool:
        return current.decision in self._session.state.decisions

    def look_again(self, now: float) -> float | None:
        """Seconds until time alone may change something here; None when it cannot."""
        if self.open is not None:
            ends = self._over_at(self.open)
            return None if ends is None else max(0.0, ends - now)
        waits = [max(0.0, self._announced[0][2] + HOOK_ALONE - now)] if self._announced else []
        if self._ghost is not None:
            waits.append(max(0.0, self._ghost[1] + GHOST - now))
        return min(waits, default=None)

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
        if current.refuted_since is None:
            return None
        # A program's own word counts for more than its picture, but not for ever.
        return current.refuted_since + (STALE_STATUS if current.cause.startswith("status") else UNSEEN)

    # Ends

    def end(self, by: str) -> None:
        """The open dialog is gone. If nobody answered through us, somebody did at the terminal."""
        current, self.open = self.open, None
        if current is None:
            return
        now = asyncio.get_running_loop().time()
        if current.shown is not None:
            self._ghost = (current.shown.identity, now)
            self._last = (dialog_shown(current.shown), now)
        self._session.settle_decision(current.decision, reason=f"answered at the terminal ({by})")
        self._changed()

    def ask_again(self, decision: str) -> None:
        """An answer did not get to its dialog, which still stands: that is a new decision, from its present page on."""
        current = self.open
        if current is None or current.decision != decision or current.shown is None or not self._stands(current):
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
            self._revised(
                DecisionRevised(
                    decision=current.decision, options=FALLBACK, options_fallback=True, ready=True, cause="enriched"
                )
            )

    # Inside

    def _begin_shown(self, dialog: ScreenDialog, now: float) -> None:
        seen = dialog_shown(dialog)
        known = self._take_announced(seen)
        about = seen if known is None else joined(known, seen)
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
                secret=takes_secret(about, shown),
                auth_url=about.auth_url,
                origin=Origin(source="screen" if shown is not None else cause.partition(":")[0]),
            )
        )
        self.open = current
        self._changed()
        return current

    def _show(self, current: OpenDialog, dialog: ScreenDialog, now: float) -> None:
        seen = dialog_shown(dialog)
        before = current.about
        if not fits(before, seen):
            # Something else is asked than what was told of.
            cause = current.cause
            self.open = None
            self._session.cancel_decision(current.decision, "another dialog is shown")
            self._announce(before, cause, now)
            self._begin_shown(dialog, now)
            return
        current.shown, current.shown_at, current.refuted_since = dialog, now, None
        current.about = about = joined(before, seen)
        self._revised(
            DecisionRevised(
                decision=current.decision,
                kind=about.kind if about.kind != before.kind else None,
                text=about.text if about.text != before.text else None,
                tool=about.tool if about.tool != before.tool else None,
                input=about.input if about.input != before.input else None,
                subtype=about.subtype if about.subtype != before.subtype else None,
                auth_url=about.auth_url if about.auth_url != before.auth_url else None,
                options=about.options or None,
                questions=about.questions if about.questions != before.questions else None,
                ready=True,
                secret=takes_secret(about, dialog),
                cause="enriched",
            )
        )
        self._changed()

    def _revised(self, fact: DecisionRevised) -> None:
        """Record it, unless the decision was answered meanwhile and its dialog is only about to go."""
        if fact.decision in self._session.state.decisions:
            self._record(fact)

    def _revise(self, about: Dialog) -> bool:
        """Add what is told to the open dialog; False when it is about another one."""
        current = self.open
        assert current is not None
        seen = current.about if current.shown is None else dialog_shown(current.shown)
        if not may_be_same(current.about, about) or (current.shown is not None and not fits(about, seen)):
            return False
        before, after = current.about, joined(about, current.about)
        current.about = after
        changes = {
            name: getattr(after, name)
            for name in ("kind", "text", "tool", "input", "call", "subtype", "auth_url", "questions")
            if getattr(after, name) != getattr(before, name)
        }
        if changes:
            self._revised(DecisionRevised(decision=current.decision, cause="enriched", **changes))
        return True

    def _turn_page(self, current: OpenDialog, dialog: ScreenDialog, now: float) -> None:
        """The dialog's next question, or its review."""
        current.shown, current.shown_at, current.missing_since = dialog, now, None
        total = len(current.about.questions) or len(dialog.tabs)
        position = next((at for at, tab in enumerate(dialog.tabs) if tab.current), total)
        current.given = page = total if dialog.review else min(position, total)
        known = with_page(current.about.questions, dialog, position)
        opened = self._session.state.decisions.get(current.decision)
        # What is recorded runs ahead of the screen while answers are typed; else a person has turned the page.
        turned = opened is not None and (
            opened.question_current < page or (opened.question_current > page and not current.being_answered)
        )
        if opened is not None and (turned or known != current.about.questions):
            self._revised(
                DecisionRevised(
                    decision=current.decision,
                    question_current=page if turned else None,
                    questions=known if known != current.about.questions else None,
                    cause="",
                )
            )
        current.about = msgspec.structs.replace(current.about, questions=known)

    def _off_screen(self, now: float, *, at_rest: bool, size: tuple[int, int]) -> None:
        if at_rest:
            self._drop_refuted(now)
        current = self.open
        if current is None:
            return
        if current.shown is not None:
            if at_rest or size == current.size:  # else it may only have lost the room to be recognised
                current.missing_since = current.missing_since or now
        elif not at_rest:
            current.refuted_since = None
        else:
            current.refuted_since = current.refuted_since or now

    def _drop_refuted(self, now: float) -> None:
        """What hooks told of, and the screen has had time to show and does not."""
        while self._announced and now >= self._announced[0][2] + HOOK_ALONE:
            self._announced.popleft()

    def _take_announced(self, about: Dialog | None) -> Dialog | None:
        found = [entry for entry in self._announced if about is None or fits(entry[0], about)]
        if not found:
            return None
        best = next((entry for entry in found if about is not None and names(about, entry[0])), None)
        if best is None and len(found) > 1:
            return None  # nobody can tell which of them is meant
        best = best or found[0]
        self._announced.remove(best)
        return best[0]

    def _is_ghost(self, dialog: ScreenDialog, now: float) -> bool:
        return self._ghost is not None and self._ghost[0] == dialog.identity and now - self._ghost[1] < GHOST
