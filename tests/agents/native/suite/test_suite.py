"""The same turns through every adapter and API give the same events, but for the written table of what differs.

Each way plays four sessions: answers and tools, clients and faults, a cancel at every point of a turn, and a prompt
that steers at every point.
"""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai")

from dragoman.hub.events import (
    Event,
    PromptSubmitted,
    PromptTaken,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)
from dragoman.hub.permissions import LOCAL
from tests.agents.native.model_server import serving
from tests.agents.native.model_server.heard import User
from tests.agents.native.model_server.journal import Entry

from .capabilities import DOCUMENT, TABLE, expected, fails, written
from .events import Line, out_of_order, shown, transcript
from .stage import Stage, staged
from .turns import (
    ANSWERS,
    CLICK,
    FAULTS,
    LINK,
    POINTS,
    RETRYING,
    Turn,
    cancelled,
    steered,
    steered_then_cancelled,
    wish,
)
from .ways import REFERENCE, WAYS, Way, reaching

STEERED = tuple(steered(point) for point in POINTS)
CANCELLED = tuple(turn for point in (*POINTS, RETRYING) for turn in cancelled(point))
STEERED_THEN_CANCELLED = tuple(steered_then_cancelled(point) for point in POINTS)

Played = dict[str, list[Line]]
"""Transcripts by turn."""

_PLAYED: dict[str, dict[str, Played]] = {}
"""Transcripts by way and by session, each played once for all tests."""


@asynccontextmanager
async def stage_for(way: Way, folder: Path) -> AsyncIterator[Stage]:
    """A stage whose model is reached in this way. Afterwards its log is valid, and so was every request."""
    async with serving() as server, reaching(way, server, folder) as hub:
        stage = await staged(hub, server)
        yield stage
        log = await hub.check(stage.session)
        assert out_of_order(log) == []
        assert server.violations == []
        assert lost_prompts(log) == []


async def play(stage: Stage, way: Way, turn: Turn) -> list[Line]:
    """Play a turn, hold it to what is expected of it alone, and return its transcript."""
    asked = len(stage.server.journal)
    events = await stage.play(turn)
    failed = fails(way, turn)
    wanted = "failed" if failed else turn.outcome
    assert outcomes(events)[0] == wanted, "\n".join(shown(transcript(events, hide={})))
    if turn.calls and not failed and (way == REFERENCE or not turn.unfinished):
        assert results(events) == list(turn.calls)
    if turn.streaming:
        assert any(entry.left.is_set() for entry in stage.server.journal[asked:]), "the connection was not closed"
    return transcript(events, hide=hidden(stage, way))


def hidden(stage: Stage, way: Way) -> dict[str, str]:
    """What is particular to a run."""
    return {
        stage.session.state.cwd: "CWD",
        stage.server.url.removeprefix("http://"): "HOST",
        f"^{way.model}$": "MODEL",
        f"^{way.provider}$": "PROVIDER",
        f"the connection to {way.provider} ": "the connection to PROVIDER ",
    }


def outcomes(events: Sequence[Event]) -> list[str]:
    """How the turns ended."""
    return [event.fact.outcome for event in events if isinstance(event.fact, TurnEnded)]


def results(events: Sequence[Event]) -> list[tuple[str, str]]:
    """The agent's own calls with their results, in the order of the calls."""
    facts = [event.fact for event in events]
    ends = {fact.call: fact.status for fact in facts if isinstance(fact, ToolEnded)}
    return [(fact.tool, ends[fact.call]) for fact in facts if isinstance(fact, ToolCalled) and fact.parent is None]


def lost_prompts(log: Sequence[Event]) -> list[str]:
    """Prompts that were acknowledged, and that no turn took."""
    facts = [event.fact for event in log]
    taken = [fact.prompt for fact in facts if isinstance(fact, TurnStarted | PromptTaken)]
    assert len(set(taken)) == len(taken), "a prompt was taken twice"
    return [fact.text for fact in facts if isinstance(fact, PromptSubmitted) and fact.prompt not in taken]


async def play_answers(stage: Stage, way: Way) -> Played:
    return {turn.name: await play(stage, way, turn) for turn in ANSWERS}


async def play_faults(stage: Stage, way: Way) -> Played:
    return {turn.name: await play(stage, way, turn) for turn in FAULTS}


async def play_cancelled(stage: Stage, way: Way) -> Played:
    await stage.session.declare_tools(LOCAL, LINK, (CLICK,))
    played = {}
    for turn in CANCELLED:
        played[turn.name] = await play(stage, way, turn)
        assert stage.session.state.turn is None
        assert not stage.session.state.calls
        assert not stage.session.state.decisions
    return played


async def play_steered(stage: Stage, way: Way) -> Played:
    await stage.session.declare_tools(LOCAL, LINK, (CLICK,))
    played = {}
    for turn in STEERED:
        asked = len(stage.server.journal)
        played[turn.name] = await play(stage, way, turn)
        assert seen_in_one_place(stage.server.journal[asked:], wish(turn.name), stage.asked_before) == []
    return played


def seen_in_one_place(entries: Sequence[Entry], text: str, before: int) -> list[str]:
    """What is wrong with how the model saw a steering prompt in a turn's requests. ``before``: those until it came."""
    own = [entry for entry in entries if (entry.script or "").startswith("steer-")]
    places = [list(_places(entry, text)) for entry in own]
    if any(list(_places(entry, text)) for entry in entries if entry not in own):
        return ["a sub-agent saw it"]
    since = sum(entry.number >= before for entry in own)
    if not since:
        return ["no request followed it"]
    if any(places[:-since]) or len(places[-1]) != 1 or any(found != places[-1] for found in places[-since:]):
        return [f"it is not in the same one place in the last {since} requests, and only there: {places}"]
    return []


def _places(entry: Entry, text: str) -> Iterator[int]:
    """The messages that have a text, once for each time that they have it."""
    for number, message in enumerate(entry.asked.messages):
        if isinstance(message, User):
            yield from [number] * message.text.count(text)


SESSIONS = {"answers": play_answers, "faults": play_faults, "cancel": play_cancelled, "steer": play_steered}
SCRIPTS: dict[str, tuple[Turn, ...]] = {
    "answers": ANSWERS,
    "faults": FAULTS,
    "cancel": CANCELLED,
    "steer": STEERED,
}


async def played_by(way: Way, session: str, folder: Path) -> Played:
    """The transcripts of a session, played if it was not yet."""
    known = _PLAYED.setdefault(way.name, {})
    if session not in known:
        place = folder / way.api / way.adapter / session
        place.mkdir(parents=True)
        async with stage_for(way, place) as stage:
            known[session] = await SESSIONS[session](stage, way)
    return known[session]


@pytest.mark.slow
@pytest.mark.parametrize("session", list(SESSIONS))
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
async def test_the_same_turns_give_the_same_events(way: Way, session: str, tmp_path: Path) -> None:
    reference = await played_by(REFERENCE, session, tmp_path)
    played = await played_by(way, session, tmp_path)
    found: list[str] = []
    for turn in SCRIPTS[session]:
        wanted, _ = expected(reference[turn.name], turn, TABLE[way.name])
        found += difference(turn.name, shown(wanted), shown(played[turn.name]))
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
async def test_every_written_difference_is_one(way: Way, tmp_path: Path) -> None:
    used: set[str] = set()
    for session, turns in SCRIPTS.items():
        reference = await played_by(REFERENCE, session, tmp_path)
        for turn in turns:
            used |= expected(reference[turn.name], turn, TABLE[way.name])[1]
    assert [it.name for it in TABLE[way.name] if it.name not in used] == []


def difference(name: str, wanted: Sequence[str], got: Sequence[str]) -> list[str]:
    """Both transcripts, line by line, where they are not the same."""
    if wanted == got:
        return []
    return list(difflib.unified_diff(wanted, got, f"{name}, as the table has it", f"{name}, as it went", lineterm=""))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
async def test_what_is_said_before_a_cancel_is_not_lost(way: Way, tmp_path: Path) -> None:
    async with stage_for(way, tmp_path) as stage:
        await stage.session.declare_tools(LOCAL, LINK, (CLICK,))
        for turn in STEERED_THEN_CANCELLED:
            events = await stage.play(turn)
            assert outcomes(events) == ["cancelled", "completed"], turn.name


async def test_the_reference_plays_every_turn_as_scripted(tmp_path: Path) -> None:
    assert list(await played_by(REFERENCE, "answers", tmp_path)) == [turn.name for turn in ANSWERS]


def test_the_document_has_the_table() -> None:
    document = DOCUMENT.read_text()
    assert document == written(document), "run: python -m tests.agents.native.suite.capabilities"


def test_there_are_as_many_points_as_were_asked_for() -> None:
    assert len(ANSWERS) + len(FAULTS) >= 40
    assert len(POINTS) >= 20
    names = [turn.name for turns in SCRIPTS.values() for turn in turns]
    assert len(set(names)) == len(names)
