"""What a step tells of its parts and its end, beside what the model said."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

from dragoman.agents.native.providers.conversation import ModelRequest
from dragoman.agents.native.providers.port import (
    CallMade,
    Finished,
    PartClosed,
    PartGrew,
    PartOpened,
    ProviderFailed,
    StreamEvent,
)
from dragoman.hub.events import (
    AnyFact,
    LogWritten,
    MessageAdded,
    PartDelta,
    PartEnded,
    PartStarted,
    StepEnded,
    ToolCalled,
    ToolEnded,
)

from .native_rig import native_hub, of, outcome

DONE: list[StreamEvent | ProviderFailed] = [
    PartOpened("q", "text"),
    PartGrew("q", "Done."),
    PartClosed("q"),
    Finished("stop"),
]


class Playing:
    """A provider that gives one list of events a call; an exception among them is raised."""

    name = "playing"
    searches = False

    def __init__(self, *calls: list[StreamEvent | ProviderFailed]) -> None:
        self._calls = list(calls)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        self.requests.append(request)
        for event in self._calls.pop(0):
            if isinstance(event, ProviderFailed):
                raise event
            yield event

    async def close(self) -> None:
        """There is no connection."""


async def facts_of(folder: Path, provider: Playing) -> list[AnyFact]:
    async with native_hub(folder, provider=provider) as hub:
        return await hub.turn(await hub.session(), "Go.")


async def test_a_text_that_only_was_announced_is_closed_and_tried_again(tmp_path: Path) -> None:
    lost = ProviderFailed("the connection failed", cause="network", retryable=True)
    provider = Playing([PartOpened("p", "text"), lost], [*DONE])
    facts = await facts_of(tmp_path, provider)
    told = [type(fact) for fact in facts if isinstance(fact, PartStarted | PartDelta | PartEnded | LogWritten)]
    assert told == [PartStarted, PartEnded, LogWritten, PartStarted, PartDelta, PartEnded]
    assert [fact.text for fact in of(facts, MessageAdded)] == ["Done."]
    assert outcome(facts) == "completed"


async def test_an_id_that_the_next_try_gives_again_is_another_part(tmp_path: Path) -> None:
    lost = ProviderFailed("the connection failed", cause="network", retryable=True)
    facts = await facts_of(tmp_path, Playing([PartOpened("q", "text"), lost], [*DONE]))
    assert len({fact.part for fact in of(facts, PartStarted)}) == 2
    assert outcome(facts) == "completed"


async def test_a_thought_that_was_announced_is_not_tried_again(tmp_path: Path) -> None:
    lost = ProviderFailed("the connection failed", cause="network", retryable=True)
    provider = Playing([PartOpened("p", "reasoning"), lost])
    assert outcome(await facts_of(tmp_path, provider)) == "failed"
    assert len(provider.requests) == 1


async def test_what_only_watchers_want_goes_no_further_than_the_log(tmp_path: Path) -> None:
    call = PartOpened("c", "tool_input", tool="glob", metadata={"item": "fc"})
    first: list[StreamEvent | ProviderFailed] = [
        PartOpened("p", "text", metadata={"item": "msg"}),
        PartGrew("p", "Look."),
        PartClosed("p"),
        call,
        PartGrew("c", '{"pattern":"*"}'),
        PartClosed("c"),
        CallMade("c", "glob", '{"pattern":"*"}'),
        Finished("tool_calls", None, {"id": "r"}, {"response_id": "r"}),
    ]
    provider = Playing(first, [*DONE])
    facts = await facts_of(tmp_path, provider)
    assert [fact.provider_metadata for fact in of(facts, PartStarted)] == [{"item": "msg"}, {"item": "fc"}, None]
    assert [fact.provider_metadata for fact in of(facts, StepEnded)] == [{"response_id": "r"}, None]
    assert [fact.provider_metadata for fact in of(facts, MessageAdded)] == [None, None]
    assert "fc" not in str(provider.requests[1].messages)


async def test_a_call_that_cannot_be_run_has_its_end_at_once(tmp_path: Path) -> None:
    calls: list[StreamEvent | ProviderFailed] = []
    for call in ("a", "b"):
        calls += [PartOpened(call, "tool_input", tool="nothing"), PartClosed(call), CallMade(call, "nothing", "{}")]
    facts = await facts_of(tmp_path, Playing([*calls, Finished("tool_calls")], [*DONE]))
    told = [(type(fact), fact.call) for fact in facts if isinstance(fact, ToolCalled | ToolEnded)]
    assert told == [(ToolCalled, "a"), (ToolEnded, "a"), (ToolCalled, "b"), (ToolEnded, "b")]
    assert [fact.duration_ms for fact in of(facts, ToolEnded)] == [0, 0]
