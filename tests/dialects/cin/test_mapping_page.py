"""docs/mapping.md against the projection: each event's row names just the facts that it is made of."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, get_args

import msgspec
import pytest

from dragoman.dialects.cin.projection import _TELLERS, TOLD_TAGS, Story
from dragoman.hub.events import AnyFact, Event, decode_fact, tag_of
from tests.hub.test_events import FIRST_RELEASE
from tests.test_mapping import PAGE, Row, rows

VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "hook.answered": ({"hook": "start"}, {"hook": "end"}, {"hook": "stop"}, {"hook": "stop", "verdict": "blocked"}),
    "message.added": ({"role": "user"}, {"role": "assistant"}, {"role": "user", "turn": "t"}),
    "context.compacted": ({"phase": "started"}, {"phase": "done"}),
}
"""Forms of a fact that are told differently; all others are told alike, whatever they say."""


def facts(tag: str) -> list[AnyFact]:
    """The fact, in each of its forms."""
    line = msgspec.json.decode(FIRST_RELEASE[tag])
    return [decode_fact(msgspec.json.encode({"type": tag, **line, **more})) for more in VARIANTS.get(tag, ({},))]


def told(tag: str) -> set[str]:
    """The types of the events that this fact is told as, in a session of any kind."""
    found = set()
    for kind in ("native", "hooked"):
        for fact in facts(tag):
            event = Story(session="s", kind=kind, agent="claude", cwd="/").tell(Event(1, 1, "e", fact))
            if event is not None:
                found.add(str(event.__struct_config__.tag))
    return found


def on_the_page() -> dict[str, set[str]]:
    """By event type: the facts of its row, in the order of the page."""
    page = PAGE.read_text("utf-8")
    found = {}
    for row in rows(page):
        if row.dialect == "cin" and row.names[0].startswith("event "):
            found[row.names[0].removeprefix("event ")] = set(re.findall(r"`([a-z_.]+)`", row.cells[1]))
    return found


def test_each_event_is_made_of_the_facts_that_its_row_names() -> None:
    made: defaultdict[str, set[str]] = defaultdict(set)
    for kind in get_args(AnyFact):
        for event in told(tag_of(kind)):
            made[event].add(tag_of(kind))
    page = on_the_page()
    leans_on = {"post_tool_use": {"tool.called"}}
    assert {event: named - leans_on.get(event, set()) for event, named in page.items()} == made


def test_what_is_told_or_leaned_on_is_what_history_reads() -> None:
    assert {tag_of(kind) for kind in _TELLERS} == TOLD_TAGS
    assert {tag_of(kind) for kind in get_args(AnyFact) if told(tag_of(kind))} <= TOLD_TAGS


@pytest.mark.parametrize("name", ["cin:error", "cin:permission_resolved", "cin:tokens", "harness:test_started"])
def test_extensions_have_a_row(name: str) -> None:
    assert row_of(name).cells[2] != "absent"


def row_of(name: str) -> Row:
    found = [row for row in rows(PAGE.read_text("utf-8")) if row.dialect == "cin" and name in row.names]
    assert len(found) == 1, name
    return found[0]
