"""A history that a client claims, as the model has it: with its calls, their results and its pictures, and valid
whatever the client says."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.native.history import NO_RESULT
from dragoman.agents.native.providers.conversation import (
    AssistantMessage,
    Call,
    Message,
    Picture,
    Text,
    ToolMessage,
    UserMessage,
)
from dragoman.hub.events import AnyFact, ArtifactStored, HistoryCall, HistoryMerged, HistoryMessage, TurnStarted

from .test_history import called, ended, folded, prompt, step, told
from .validity import faults

ONE, TWO = "1" * 64, "2" * 64
PICTURE = Picture(ONE, "image/png", "shot.png", 5)
STORED = (
    ArtifactStored(artifact=ONE, media_type="image/png", size=5, sha256=ONE, name="shot.png"),
    ArtifactStored(artifact=TWO, media_type="application/pdf", size=5, sha256=TWO, name="a.pdf"),
)


def merged(*messages: HistoryMessage, replace: bool = True) -> HistoryMerged:
    return HistoryMerged(messages=messages, replace=replace, by="me", via="test")


def claimed(*messages: HistoryMessage) -> tuple[Message, ...]:
    """What the model has of these."""
    return told(*STORED, merged(*messages))


def answer(*calls: str, text: str = "") -> HistoryMessage:
    return HistoryMessage(
        "assistant", text, calls=tuple(HistoryCall(call, "web search", {"q": call}) for call in calls)
    )


def result(call: str | None, text: str = "found") -> HistoryMessage:
    return HistoryMessage("tool", text, tool="web search", call=call)


def test_a_call_and_its_result_stay_linked() -> None:
    messages = claimed(HistoryMessage("user", "look"), answer("c", text="I look."), result("c"), answer(text="Done."))
    assert messages == (
        UserMessage("look"),
        AssistantMessage((Text("I look."), Call("c", "web_search", {"q": "c"}))),
        ToolMessage("c", "web_search", "found"),
        AssistantMessage((Text("Done."),)),
    )


def test_results_stand_behind_their_answer_in_the_order_of_its_calls() -> None:
    user = HistoryMessage("user", "well?")
    messages = claimed(answer("a", "b"), result("b", "B"), user, result("a", "A"))
    assert messages[1:] == (
        ToolMessage("a", "web_search", "A"),
        ToolMessage("b", "web_search", "B"),
        UserMessage("well?"),
    )


def test_a_result_without_its_call_never_reaches_the_model() -> None:
    messages = claimed(HistoryMessage("user", "look"), result("nobody"), result(None), answer("c"), result("c"))
    assert [message for message in messages if isinstance(message, ToolMessage)] == [
        ToolMessage("c", "web_search", "found")
    ]


def test_a_call_without_its_result_is_said_to_have_been_cut_off() -> None:
    assert claimed(answer("c"))[1:] == (ToolMessage("c", "web_search", NO_RESULT, failed=True),)


def test_of_two_calls_of_one_id_and_of_two_results_the_first_counts() -> None:
    messages = claimed(answer("c", "c"), result("c", "one"), result("c", "two"), answer("c", text="again"))
    assert messages == (
        AssistantMessage((Call("c", "web_search", {"q": "c"}),)),
        ToolMessage("c", "web_search", "one"),
        AssistantMessage((Text("again"),)),
    )


def test_a_call_of_the_log_is_not_claimed_a_second_time() -> None:
    before = (prompt(), TurnStarted(turn="t", prompt="p"), step(), called("c"), ended("c"))
    appended = told(*before, merged(answer("c", "d"), result("d"), replace=False))
    assert [part for message in appended if isinstance(message, AssistantMessage) for part in message.parts] == [
        Call("c", "read", {"filePath": "c"}),
        Call("d", "web_search", {"q": "d"}),
    ]
    replaced = told(*before, merged(answer("c"), result("c", "theirs")))
    assert replaced[-1] == ToolMessage("c", "web_search", "theirs"), "the client's own calls come back to it"
    assert "d" in folded(merged(answer("d"))).calls, "nor does a later call take its id"


def test_pictures_of_people_and_of_results_are_shown_and_nothing_else() -> None:
    def shown(role: str, *artifacts: str, **more: str) -> HistoryMessage:
        return HistoryMessage(role, "see", artifacts=artifacts, **more)

    messages = claimed(
        shown("user", ONE, TWO, "3" * 64),
        answer("c"),
        shown("tool", ONE, call="c"),
        HistoryMessage("user", "", artifacts=(ONE,)),
    )
    assert messages == (
        UserMessage("see", pictures=(PICTURE,)),
        AssistantMessage((Call("c", "web_search", {"q": "c"}),)),
        ToolMessage("c", "web_search", "see", pictures=(PICTURE,)),
        UserMessage("", pictures=(PICTURE,)),
    )


_IDS = st.sampled_from([*"abc", ""])
_MESSAGES = st.builds(
    HistoryMessage,
    role=st.sampled_from(["user", "assistant", "tool", "system"]),
    content=st.one_of(st.text(string.ascii_lowercase, max_size=3), st.just({"a": 1})),
    call=st.one_of(st.none(), _IDS),
    artifacts=st.lists(st.sampled_from([ONE, TWO]), max_size=2).map(tuple),
    calls=st.lists(st.builds(HistoryCall, call=_IDS, tool=st.just("t t"), input=st.just("{")), max_size=3).map(tuple),
)


@given(
    first=st.lists(_MESSAGES, max_size=8),
    then=st.lists(_MESSAGES, max_size=8),
    replace=st.booleans(),
)
def test_whatever_a_client_claims_the_conversation_is_valid(
    first: list[HistoryMessage], then: list[HistoryMessage], replace: bool
) -> None:
    facts: list[AnyFact] = [*STORED, merged(*first), merged(*then, replace=replace)]
    messages = told(*facts, prompt(text="go on"), TurnStarted(turn="t", prompt="p"))
    # A picture alone says something, too; which of them are shown is known to the gallery only.
    wrong = [fault for fault in faults(messages) if "says nothing" not in fault]
    assert not wrong
    assert isinstance(last := messages[-1], UserMessage)
    assert last.text.endswith("go on")
