"""The checker itself: what is the same passes, and nothing that is not."""

from __future__ import annotations

import copy
import functools
import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from .canonical import canonical
from .compare import as_if_received, problems
from .player import Player
from .recording import CHUNK, FOLDER, SCENARIOS, Entry, Frame, Received, Sent, frames, kind, load
from .script import Step, script
from .showing import side_by_side

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the recordings of the original are not here")

SAMPLES = 6
"""Places at which one recording is damaged."""


def test_every_recording_is_played() -> None:
    assert tuple(sorted(path.stem for path in FOLDER.glob("*.jsonl"))) == SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_another_run_of_the_same_conversation_is_the_same(name: str) -> None:
    recorded = load(name)
    assert problems(canonical(recorded), canonical(_run_again(recorded))) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_lost_frame_is_seen(name: str) -> None:
    wanted = canonical(load(name))
    said = frames(wanted)
    for at in _places(len(said)):
        assert problems(wanted, _without(wanted, at)), f"frame {at} was lost: {said[at]}"


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_repeated_frame_is_seen(name: str) -> None:
    wanted = canonical(load(name))
    for at in _places(len(frames(wanted))):
        assert problems(wanted, _with_twice(wanted, at)), f"frame {at} was said twice"


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_changed_field_is_seen(name: str) -> None:
    wanted = canonical(load(name))
    said = frames(wanted)
    for at in _places(len(said)):
        for changed, path in _changes(said[at]):
            got = as_if_received(wanted, [*said[:at], changed, *said[at + 1 :]])
            assert problems(wanted, got), f"frame {at}: {path} was changed"


@pytest.mark.parametrize("name", SCENARIOS)
def test_two_frames_in_the_wrong_order_are_seen(name: str) -> None:
    wanted = canonical(load(name))
    said = frames(wanted)
    fixed = [at for at in range(len(said) - 1) if _ordered(said[at], said[at + 1])]
    for at in (fixed[place] for place in _places(len(fixed))):
        swapped = [*said[:at], said[at + 1], said[at], *said[at + 2 :]]
        assert problems(wanted, as_if_received(wanted, swapped)), f"frames {at} and {at + 1} were swapped"


def test_chunks_and_what_goes_beside_them_may_come_in_either_order() -> None:
    wanted = canonical(load("turn_bash_safe"))
    said = frames(wanted)
    log = next(at for at, frame in enumerate(said) if frame["type"] == "log")
    assert kind(said[log + 1]).startswith(CHUNK)
    swapped = [*said[:log], said[log + 1], said[log], *said[log + 2 :]]
    assert problems(wanted, as_if_received(wanted, swapped)) == []


def test_a_result_before_its_line_is_seen() -> None:
    wanted = canonical(load("turn_bash_safe"))
    said = frames(wanted)
    line = next(at for at, frame in enumerate(said) if frame.get("line", "").startswith("tool<"))
    assert kind(said[line + 1]) == f"{CHUNK} tool_result"
    swapped = [*said[:line], said[line + 1], said[line], *said[line + 2 :]]
    assert any("before its tool< line" in found for found in problems(wanted, as_if_received(wanted, swapped)))


def test_an_answer_that_nobody_waited_for_is_seen() -> None:
    wanted = canonical(load("turn_ask_free"))
    sent = next(at for at, entry in enumerate(wanted) if isinstance(entry, Sent) and entry.kind == "ask_response")
    early = [*wanted[:sent], wanted[sent + 1], wanted[sent], *wanted[sent + 2 :]]
    assert any("ask_response" in found for found in problems(wanted, early))


def test_a_time_that_does_not_stay_is_seen() -> None:
    recorded = load("harness_context")
    said = copy.deepcopy(frames(recorded))
    said[-1]["context"]["updatedAt"] = "2026-11-27T22:07:09.000Z"
    assert problems(canonical(recorded), canonical(as_if_received(recorded, said)))


def test_places_are_the_same_wherever_they_are() -> None:
    recorded = load("turn_memory")
    moved = json.loads(json.dumps(frames(recorded)).replace("/project", "/elsewhere/it is"))
    got = canonical(as_if_received(recorded, moved), [("/elsewhere/it is", "/project")])
    assert problems(canonical(recorded), got) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_step_of_a_recording_is_in_the_model_script(name: str) -> None:
    recorded = load(name)
    steps = [answer for answer in script(recorded).answers if isinstance(answer, Step)]
    raw = [frame for frame in frames(recorded) if frame.get("partType") == "raw"]
    tries = 3 if name == "turn_failed" else 1
    assert sum(len(step.events) for step in steps) == len(raw) * tries
    assert all(step.events[0]["type"] == "response.created" for step in steps)


async def test_a_server_that_repeats_the_recording_is_heard_word_for_word(tmp_path: Path) -> None:
    for name in SCENARIOS:
        recorded = load(name)
        heard: list[str] = []
        async with serve(functools.partial(_repeat, said=_run_again(recorded), heard=heard), "127.0.0.1", 0) as s:
            port = s.sockets[0].getsockname()[1]
            wanted = canonical(recorded)
            async with Player.linked(f"ws://127.0.0.1:{port}/ws") as player:
                await player.play(wanted, _as_it_is)
        got = canonical(player.entries)
        assert problems(wanted, got) == [], side_by_side(wanted, got)
        assert len(heard) == sum(isinstance(entry, Sent) for entry in recorded), name


async def _as_it_is(entry: Entry) -> Entry:
    return entry


async def _repeat(link: ServerConnection, said: Sequence[Entry], heard: list[str]) -> None:
    """A server with the recording's own answers: it waits for whatever the client said there."""
    for entry in said:
        if isinstance(entry, Received):
            await link.send(json.dumps(entry.frame))
        elif isinstance(entry, Sent):
            told = await link.recv()
            text = told if isinstance(told, str) else told.decode()
            wanted = entry.message
            assert text == wanted if isinstance(wanted, str) else json.loads(text) == wanted
            assert isinstance(told, bytes) == entry.binary
            heard.append(text)
    ping = json.loads(await link.recv())
    await link.send(json.dumps({**ping, "type": "pong"}))
    await link.wait_closed()


def _run_again(recorded: Sequence[Entry]) -> list[Entry]:
    """The same conversation with other ids, of the same form."""
    names: dict[str, str] = {}
    for frame in frames(recorded):
        for key in ("sessionId", "turnId", "requestId"):
            if len(str(frame.get(key, ""))) == 36:
                names.setdefault(frame[key], str(uuid.uuid4()))

    def renamed(text: str) -> str:
        for old, new in names.items():
            text = text.replace(old, new)
        return text

    made: list[Entry] = []
    for entry in recorded:
        if isinstance(entry, Received):
            made.append(Received(json.loads(renamed(json.dumps(entry.frame)))))
        elif isinstance(entry, Sent) and isinstance(entry.message, str):
            made.append(Sent(renamed(entry.message), entry.binary))
        elif isinstance(entry, Sent):
            made.append(Sent(json.loads(renamed(json.dumps(entry.message))), entry.binary))
        else:
            made.append(entry)
    return made


def _places(count: int) -> list[int]:
    """Some places of so many, the first and the last among them."""
    step = max(1, count // SAMPLES)
    return sorted({*range(0, count, step), count - 1})


def _without(entries: Sequence[Entry], at: int) -> list[Entry]:
    where = [place for place, entry in enumerate(entries) if isinstance(entry, Received)][at]
    return [*entries[:where], *entries[where + 1 :]]


def _with_twice(entries: Sequence[Entry], at: int) -> list[Entry]:
    where = [place for place, entry in enumerate(entries) if isinstance(entry, Received)][at]
    return [*entries[: where + 1], entries[where], *entries[where + 1 :]]


def _changes(frame: Frame) -> Iterator[tuple[Frame, str]]:
    """The frame with one leaf changed, and with one key left out, for each of its leaves and keys of the top."""
    for path in _leaves(frame):
        changed = copy.deepcopy(frame)
        value: Any = changed
        for key in path[:-1]:
            value = value[key]
        if isinstance(value[path[-1]], str) and "elided>" in value[path[-1]]:
            continue  # what was left out cannot be compared
        value[path[-1]] = _other(value[path[-1]])
        yield changed, ".".join(map(str, path))
    for key in frame:
        if key != "type":
            yield {name: value for name, value in frame.items() if name != key}, f"{key}, left out"


def _other(value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}!" if isinstance(value, str) else "something"


def _leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None or not value:
        if path and path != ("type",):
            yield path
        return
    for key, item in items:
        yield from _leaves(item, (*path, key))


def _ordered(one: Frame, other: Frame) -> bool:
    """Whether the order of two neighbours is fixed, so that its change has to be seen."""
    racing = ("provider_catalog", "provider_status")
    if one == other or (one["type"] == CHUNK) != (other["type"] == CHUNK):
        return False
    return one["type"] not in racing and other["type"] not in racing
