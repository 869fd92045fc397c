"""The end of a turn of a program that we drive: told by the turn, and by the program's own log, which is read late."""

from __future__ import annotations

import pytest

from dragoman.dialects.cin.projection import Story
from dragoman.hub.events import AnyFact, Event, HookAnswered, Origin, TurnEnded, TurnStarted


def told(story: Story, *facts: tuple[int, AnyFact]) -> list[str]:
    events = [story.tell(Event(seq, at, "epoch", fact)) for seq, (at, fact) in enumerate(facts, 1)]
    return [str(event.__struct_config__.tag) for event in events if event is not None]


def by_log(at: int) -> HookAnswered:
    return HookAnswered(hook="stop", origin=Origin(source="log", at=at))


BEGUN = TurnStarted(turn="t", prompt="p")
ENDED = TurnEnded(turn="t", outcome="completed")
AGAIN = TurnStarted(turn="u", prompt="q")


@pytest.mark.parametrize(
    ("facts", "stops"),
    [
        ([(10, BEGUN), (20, ENDED)], 1),
        ([(10, BEGUN), (15, by_log(14)), (20, ENDED)], 1),
        ([(10, BEGUN), (20, ENDED), (25, by_log(19))], 1),
        ([(10, BEGUN), (20, ENDED), (30, AGAIN), (35, by_log(19))], 1),
        ([(10, BEGUN), (20, ENDED), (30, AGAIN), (35, by_log(34))], 2),
        ([(10, by_log(9))], 1),
    ],
)
def test_a_turn_of_ours_stops_once(facts: list[tuple[int, AnyFact]], stops: int) -> None:
    story = Story(session="s", kind="terminal", agent="codex", cwd="/")
    assert told(story, *facts).count("stop") == stops


def test_agents_elsewhere_have_no_turns_of_ours() -> None:
    story = Story(session="s", kind="hooked", agent="codex", cwd="/")
    assert told(story, (10, by_log(9)), (20, by_log(19))).count("stop") == 2
