"""An adapter that breaks the port's promise fails its model call, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from dragoman.agents.native.model_call import call_model
from dragoman.agents.native.providers.conversation import ModelRequest, UserMessage
from dragoman.agents.native.providers.port import (
    CallMade,
    Finished,
    PartClosed,
    PartGrew,
    PartOpened,
    ProviderFailed,
    RawReceived,
    StreamEvent,
)
from dragoman.agents.native.settings import TurnLimits
from dragoman.hub.events import PartEnded, PartStarted, StepEnded

from .native_rig import native_hub, of, outcome

REQUEST = ModelRequest(model="m", system="", messages=(UserMessage("Hi"),))
OPENED = PartOpened("p", "text")
CALL = PartOpened("c", "tool_input", tool="look")
END = Finished("stop")

BROKEN: dict[str, tuple[list[StreamEvent], str]] = {
    "grows unopened": ([PartGrew("p", "x"), END], "a part grew that was not open"),
    "grows when closed": ([OPENED, PartClosed("p"), PartGrew("p", "x"), END], "a part grew that was not open"),
    "closed unopened": ([PartClosed("p"), END], "a part was closed that was not open"),
    "closed twice": ([OPENED, PartClosed("p"), PartClosed("p"), END], "a part was closed that was not open"),
    "opened twice": ([OPENED, OPENED, PartClosed("p"), END], "a part was opened twice"),
    "opened again": ([OPENED, PartClosed("p"), OPENED, PartClosed("p"), END], "a part was opened twice"),
    "a call of nothing": ([CallMade("c", "look", "{}"), END], "a call was made whose input was not complete"),
    "a call too early": ([CALL, CallMade("c", "look", "{}")], "a call was made whose input was not complete"),
    "a call twice": (
        [CALL, PartClosed("c"), CallMade("c", "look", "{}"), CallMade("c", "look", "{}")],
        "a call was made twice",
    ),
    "ends with an open part": ([OPENED, END], "it ended while a part was open"),
    "goes on after the end": ([END, OPENED], "something came after the end"),
    "ends twice": ([END, END], "something came after the end"),
    "has no end": ([OPENED, PartClosed("p")], "it had no end"),
    "is nothing": ([], "it had no end"),
}


class Careless:
    """A provider whose adapter gives these events."""

    name = "careless"
    searches = False

    def __init__(self, events: Sequence[StreamEvent]) -> None:
        self._events = events

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        for event in self._events:
            yield event

    async def close(self) -> None:
        """There is no connection."""


async def heard(events: Sequence[StreamEvent]) -> list[StreamEvent]:
    taken: list[StreamEvent] = []

    async def take(event: StreamEvent) -> None:
        taken.append(event)

    await call_model(Careless(events), REQUEST, TurnLimits(), on_event=take, on_retry=lambda *_: None)
    return taken


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_promise_is_a_failed_model_call(name: str) -> None:
    events, how = BROKEN[name]
    with pytest.raises(ProviderFailed, match=how) as failed:
        await heard(events)
    assert (failed.value.cause, failed.value.retryable) == ("failed", False)


async def test_what_was_promised_is_taken_as_it_is() -> None:
    kept: list[StreamEvent] = [OPENED, CALL, PartGrew("p", "x"), PartClosed("c"), CallMade("c", "look", "{}")]
    kept += [PartClosed("p"), END, RawReceived({})]
    assert await heard(kept) == kept


@pytest.mark.parametrize("name", BROKEN)
async def test_the_turn_ends_as_one_whose_provider_failed(name: str, tmp_path: Path) -> None:
    events, how = BROKEN[name]
    async with native_hub(tmp_path, provider=Careless(events)) as hub:
        facts = await hub.turn(await hub.session(), "Hi")
    assert outcome(facts) == "failed"
    problem = of(facts, StepEnded)[-1].problem
    assert problem.code == "provider_failed"
    assert how in problem.message
    assert len(of(facts, PartStarted)) == len(of(facts, PartEnded))
