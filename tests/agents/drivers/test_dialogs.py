"""However many sources tell of a dialog, and in whatever order: one decision, announced once, ended once."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from dragoman.agents.common.observation import Dialog, Sighting
from dragoman.agents.terminal.drivers.dialogs import GHOST, GONE_AFTER, HOOK_ALONE, UNSEEN, Dialogs
from dragoman.agents.terminal.tui.reading import Row, ScreenDialog
from dragoman.hub.events import DecisionOpened, DecisionRevised


def shown(command: str, *, kind: str = "permission") -> ScreenDialog:
    rows = tuple(
        Row(label=label, line=line, number=line, key=None, selected=line == 1)
        for line, label in enumerate(("Yes", "No"), 1)
    )
    return ScreenDialog(
        kind=cast("Any", kind), subtype=None, text="Proceed?", body=command, rows=rows, identity=command
    )


def hooked(command: str, call: str | None = None) -> Sighting:
    about = Dialog(kind="permission", tool="Bash", input={"command": command}, call=call)
    return Sighting(source="hook", state="prompt", cause="hook:prompt(permission)", dialog=about)


BLOCKED = Sighting(source="status", state="prompt", cause="status:prompt(permission)", dialog=Dialog(kind="permission"))


class Log:
    """A session as far as dialogs need one, and what was recorded in it."""

    def __init__(self) -> None:
        self.opened: list[DecisionOpened] = []
        self.revised: list[DecisionRevised] = []
        self.ended: list[str] = []
        ids = itertools.count(1)
        self.state = SimpleNamespace(turn=None, decisions={})
        self.ids = lambda: f"d{next(ids)}"
        self.dialogs = Dialogs(cast("Any", self), record=self._record, changed=lambda: None)
        self.dialogs.screen_known = True

    def _record(self, fact: object) -> None:
        if isinstance(fact, DecisionOpened):
            self.opened.append(fact)
            self.state.decisions[fact.decision] = fact
        elif isinstance(fact, DecisionRevised):
            self.revised.append(fact)

    def settle_decision(self, decision: str, **_: object) -> bool:
        self.ended.append(decision)
        return self.state.decisions.pop(decision, None) is not None

    cancel_decision = settle_decision


async def test_a_hook_and_the_screen_are_one_decision_in_either_order() -> None:
    for hook_first in (True, False):
        log = Log()
        steps = [lambda log=log: log.dialogs.told(hooked("touch a"), 0.0)]
        steps.append(lambda log=log: log.dialogs.on_screen(shown("touch a"), 0.1, at_rest=False))
        for step in steps if hook_first else reversed(steps):
            step()
        assert len(log.opened) == 1
        joined = log.opened[0]
        for revision in log.revised:
            changes = {name: value for name in ("tool", "input") if (value := getattr(revision, name)) is not None}
            joined = msgspec.structs.replace(joined, **changes)
        assert (joined.tool, joined.input) == ("Bash", {"command": "touch a"})
        assert [option.label for option in joined.options] == ["Yes", "No"]


async def test_a_status_report_announces_before_the_screen_is_drawn() -> None:
    log = Log()
    log.dialogs.told(BLOCKED, 0.0)
    assert [opened.ready for opened in log.opened] == [False]
    log.dialogs.on_screen(shown("touch a"), 0.1, at_rest=False)
    assert len(log.opened) == 1
    assert log.revised[-1].ready


async def test_a_hook_alone_is_believed_after_a_while_unless_the_screen_denies_it() -> None:
    for at_rest, announced in ((False, 1), (True, 0)):
        log = Log()
        log.dialogs.told(hooked("touch a"), 0.0)
        log.dialogs.tick(HOOK_ALONE / 2, at_rest=at_rest)
        assert not log.opened
        log.dialogs.tick(HOOK_ALONE, at_rest=at_rest)
        assert len(log.opened) == announced


TITLED = Sighting(source="title", state="prompt", cause="title:prompt", dialog=None)


async def test_a_dialog_that_only_a_title_told_of_is_over_once_the_screen_has_denied_it() -> None:
    for sighting, over in ((TITLED, True), (BLOCKED, False)):
        log = Log()
        log.dialogs.told(sighting, 0.0)
        log.dialogs.on_screen(None, 1.0, at_rest=True)
        log.dialogs.tick(1.0 + UNSEEN / 2, at_rest=True)
        assert log.dialogs.open is not None
        log.dialogs.on_screen(None, 1.0 + UNSEEN, at_rest=True)
        log.dialogs.tick(1.0 + UNSEEN, at_rest=True)
        assert (log.dialogs.open is None) == over  # a program's own word counts for more than its picture


async def test_a_denial_that_is_taken_back_ends_nothing() -> None:
    log = Log()
    log.dialogs.told(TITLED, 0.0)
    log.dialogs.on_screen(None, 1.0, at_rest=True)
    log.dialogs.on_screen(None, 1.1, at_rest=False)
    log.dialogs.on_screen(None, 1.0 + UNSEEN, at_rest=True)
    log.dialogs.tick(1.2 + UNSEEN, at_rest=True)
    assert log.dialogs.open is not None


async def test_a_hook_that_comes_after_its_dialog_opens_none() -> None:
    log = Log()
    log.dialogs.on_screen(shown("touch a"), 0.0, at_rest=False)
    log.dialogs.end("screen")
    log.dialogs.told(hooked("touch a"), 0.5)
    log.dialogs.on_screen(None, 0.6, at_rest=True)
    log.dialogs.tick(0.5 + HOOK_ALONE, at_rest=True)
    assert len(log.opened) == 1


async def test_a_dialog_that_flickers_is_still_the_same() -> None:
    log = Log()
    log.dialogs.on_screen(shown("touch a"), 0.0, at_rest=False)
    log.dialogs.on_screen(None, 0.1, at_rest=False)
    log.dialogs.on_screen(shown("touch a"), 0.1 + GONE_AFTER / 2, at_rest=False)
    log.dialogs.tick(1.0, at_rest=False)
    assert (len(log.opened), log.ended) == (1, [])


async def test_a_dialog_that_left_the_screen_is_over() -> None:
    log = Log()
    log.dialogs.on_screen(shown("touch a"), 0.0, at_rest=False)
    log.dialogs.on_screen(None, 0.1, at_rest=False)
    log.dialogs.tick(0.1 + GONE_AFTER, at_rest=False)
    assert log.ended == ["d1"]


async def test_another_dialog_in_its_place_ends_it_and_opens_one() -> None:
    log = Log()
    log.dialogs.on_screen(shown("touch a"), 0.0, at_rest=False)
    log.dialogs.on_screen(shown("touch b"), 0.1, at_rest=False)
    assert (len(log.opened), log.ended) == (2, ["d1"])


async def test_the_same_command_asked_again_is_a_new_decision() -> None:
    """The program reports that it went on; what stands on the screen for a moment more is no second dialog."""
    log = Log()
    now = asyncio.get_running_loop().time()
    log.dialogs.told(BLOCKED, now)
    log.dialogs.on_screen(shown("touch a"), now, at_rest=False)
    log.dialogs.no_longer_asked(now)
    log.dialogs.on_screen(shown("touch a"), now + GHOST / 2, at_rest=False)
    assert len(log.opened) == 1, "a ghost"
    log.dialogs.told(BLOCKED, now + GHOST / 2)
    assert len(log.opened) == 2


async def test_of_two_that_were_told_of_the_one_that_is_shown_is_meant() -> None:
    """Hooks run beside each other, so the one that is shown first may be heard of last."""
    log = Log()
    log.dialogs.told(hooked("touch b", "2"), 0.0)
    log.dialogs.told(hooked("touch a", "1"), 0.0)
    log.dialogs.on_screen(shown("touch a"), 0.1, at_rest=False)
    log.dialogs.on_screen(shown("touch b"), 0.3, at_rest=False)
    assert [(opened.call, opened.input) for opened in log.opened] == [
        ("1", {"command": "touch a"}),
        ("2", {"command": "touch b"}),
    ]


async def test_a_tool_that_ran_needs_no_answer_any_more() -> None:
    log = Log()
    log.dialogs.told(hooked("touch a", "1"), 0.0)
    log.dialogs.on_screen(shown("touch a"), 0.1, at_rest=False)
    log.dialogs.tool_ended("2", "Bash", {"command": "touch b"})
    assert log.ended == []
    log.dialogs.tool_ended("1", "Bash", {"command": "touch a"})
    assert log.ended == ["d1"]


async def test_what_is_told_of_a_dialog_that_has_been_answered_revises_nothing() -> None:
    log = Log()
    log.dialogs.on_screen(shown("touch a"), 0.0, at_rest=False)
    log.settle_decision("d1")
    log.dialogs.told(hooked("touch a"), 0.1)
    assert not log.revised
