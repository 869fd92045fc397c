"""Conversations that outgrow their model: shortened in time, by hand, or when the provider says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.native.compaction import newest, transcript
from dragoman.agents.native.providers.conversation import (
    AssistantMessage,
    Call,
    Message,
    ModelRequest,
    Reasoning,
    Text,
    ToolMessage,
    UserMessage,
)
from dragoman.agents.native.providers.port import ProviderFailed, StreamEvent
from dragoman.agents.native.providers.scripted import Scripted
from dragoman.agents.native.settings import ContextLimits
from dragoman.agents.native.tokens import count_messages
from dragoman.hub.errors import HubError
from dragoman.hub.events import Compacted, TurnEnded, UsageReported
from dragoman.hub.permissions import LOCAL

from .native_rig import QUICK, native_hub, of, outcome, script
from .validity import faults

LONG = "word " * 400


class Summing(Scripted):
    """Sums up in a few words; gives up, if it is told to, on what is longer than it takes."""

    def __init__(self, takes: int | None = None) -> None:
        self.requests: list[ModelRequest] = []
        self.summaries = 0
        self.takes = takes
        self.fails = False

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        assert not faults(request.messages), faults(request.messages)
        if request.system.startswith("Sum up"):
            self.summaries += 1
            if self.fails:
                raise ProviderFailed("no summary today")
            request = msgspec.structs.replace(request, messages=(UserMessage(script("say in short")),))
        else:
            self.requests.append(request)
            if self.takes is not None and count_messages(request.messages) > self.takes:
                raise ProviderFailed("too many tokens", cause="too_long")
        async for event in super().stream(request, raw=raw):
            yield event


WINDOW = 8000


async def test_a_conversation_is_shortened_before_it_fills_the_window(tmp_path: Path) -> None:
    model = Summing()
    async with native_hub(tmp_path, provider=model, window=WINDOW) as hub:
        session = await hub.session()
        for _ in range(12):
            assert outcome(await hub.turn(session, LONG)) == "completed"
        reports = of(await hub.facts(session), Compacted)
        assert {report.phase for report in reports} == {"started", "done"}
        assert model.summaries == len(reports) / 2
        assert all(report.reason == "threshold" and report.turn for report in reports)
        for begun, done in zip(reports[::2], reports[1::2], strict=True):
            assert begun.compaction == done.compaction
            assert done.tokens_after < begun.tokens_before
            assert done.messages_after < done.messages_before
        assert all(count_messages(request.messages) < WINDOW for request in model.requests)
        assert "in short" in model.requests[-1].messages[0].text  # type: ignore[union-attr]


async def test_a_shortened_conversation_is_the_same_after_a_restart(tmp_path: Path) -> None:
    model = Summing()
    async with native_hub(tmp_path, provider=model, window=WINDOW) as hub:
        session = await hub.session()
        for _ in range(8):
            await hub.turn(session, LONG)
        assert model.summaries
        before = model.summaries
        await hub.turn(session, "short")
        live = model.requests[-1].messages
        await hub.restart()
        session = await hub.get(session)
        await hub.turn(session, "again")
        assert model.requests[-1].messages[: len(live)] == live
        assert model.summaries == before


async def test_a_provider_that_finds_it_too_long_gets_it_shortened(tmp_path: Path) -> None:
    model = Summing(takes=2500)
    settings = msgspec.structs.replace(QUICK, context=ContextLimits(keep=0.2))
    async with native_hub(tmp_path, provider=model, window=100_000, settings=settings) as hub:
        session = await hub.session()
        for _ in range(6):
            facts = await hub.turn(session, LONG)
        assert outcome(facts) == "completed"
        assert "too_long" in {report.reason for report in of(await hub.facts(session), Compacted)}


async def test_what_is_too_long_and_cannot_be_shortened_fails_the_turn(tmp_path: Path) -> None:
    async with native_hub(tmp_path, provider=Summing(takes=10)) as hub:
        facts = await hub.turn(await hub.session(), LONG)
        assert of(facts, TurnEnded)[0].problem.code == "provider_too_long"


async def test_a_failed_summary_changes_nothing_and_the_turn_goes_on(tmp_path: Path) -> None:
    model = Summing()
    model.fails = True
    async with native_hub(tmp_path, provider=model, window=WINDOW) as hub:
        session = await hub.session()
        for _ in range(10):
            assert outcome(await hub.turn(session, LONG)) == "completed"
        reports = of(await hub.facts(session), Compacted)
        assert {report.phase for report in reports} == {"started", "failed"}
        assert reports[1].problem == "no summary today"


async def test_a_summary_costs_tokens_that_are_told_apart(tmp_path: Path) -> None:
    async with native_hub(tmp_path, provider=Summing(), window=WINDOW) as hub:
        session = await hub.session()
        for _ in range(8):
            await hub.turn(session, LONG)
        facts = await hub.facts(session)
        compactions = {report.compaction for report in of(facts, Compacted)}
        assert compactions <= {report.message for report in of(facts, UsageReported)}


async def test_it_can_be_asked_for(tmp_path: Path) -> None:
    model = Summing()
    async with native_hub(tmp_path, provider=model, window=WINDOW) as hub:
        session = await hub.session()
        for _ in range(4):
            await hub.turn(session, LONG)
        await session.compact(LOCAL)
        report = of(await hub.facts(session), Compacted)[-1]
        assert (report.phase, report.reason, report.turn) == ("done", "manual", None)
        await hub.turn(session, "go on")
        assert "in short" in model.requests[-1].messages[0].text  # type: ignore[union-attr]


async def test_nothing_to_shorten_is_said(tmp_path: Path) -> None:
    async with native_hub(tmp_path, provider=Summing()) as hub:
        session = await hub.session()
        with pytest.raises(HubError, match="could not be shortened"):
            await session.compact(LOCAL)


# What stays

_TEXTS = st.text("ab ", max_size=400)
_TURN = st.tuples(_TEXTS, st.lists(_TEXTS, max_size=3))


def conversation(turns: list[tuple[str, list[str]]]) -> list[Message]:
    messages: list[Message] = []
    for number, (said, results) in enumerate(turns):
        messages.append(UserMessage(said or "x"))
        for place, result in enumerate(results):
            call = f"{number}-{place}"
            messages += [AssistantMessage((Call(call, "read"),)), ToolMessage(call, "read", result)]
        messages.append(AssistantMessage((Text("done"),)))
    return messages


@settings(deadline=None)  # the first count loads the encoding
@given(turns=st.lists(_TURN, max_size=6), budget=st.integers(0, 600))
def test_what_stays_begins_with_a_person_and_is_valid(turns: list, budget: int) -> None:  # type: ignore[type-arg]
    messages = conversation(turns)
    kept = newest(messages, budget)
    tail = messages[len(messages) - kept :]
    assert kept < max(1, len(messages))
    assert not faults(tail)
    assert not tail or isinstance(tail[0], UserMessage)
    assert not tail or count_messages(tail) <= 2 * budget


def test_a_transcript_tells_everything_but_thoughts_and_long_results() -> None:
    answer = AssistantMessage((Reasoning("secret thought"), Text("I look"), Call("a", "read", {"filePath": "f"})))
    text = transcript([UserMessage("find it"), answer, ToolMessage("a", "read", "x" * 5000)])
    assert "PERSON: find it" in text
    assert "AGENT: I look" in text
    assert "AGENT CALLS read" in text
    assert "secret thought" not in text
    assert "3000 more characters" in text
