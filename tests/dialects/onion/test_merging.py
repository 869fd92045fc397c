"""Who knows more of a conversation, and what is taken in of a client's claim (spec §7, "Merge"; §15 rows 4 and 5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.dialects.onion.conversation import Conversation
from dragoman.dialects.onion.merging import (
    MOST_BYTES,
    MOST_ROWS,
    BadClaim,
    Claim,
    Measure,
    measure_after,
    read_claim,
    server_newer,
    taken_in,
)
from dragoman.hub.events import HistoryMerged, HistoryMessage, HistoryReset

from .original import Retelling, recorded
from .rambling import PATIENT
from .talking import WIRE_ID, Talk

LIMIT = 100


def claim_of(session: object, *, limit: int = LIMIT) -> Claim | None:
    return read_claim(json.dumps(session).encode(), limit=limit)


def said(*texts: str) -> list[dict[str, str]]:
    """Messages by turns: a user, an answer, a user…"""
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


def texts_of(conversation: Conversation) -> list[str]:
    return [json.loads(text) for _, text in conversation.texts()]


def merge(talk: Talk, claim: Claim | None, *, limit: int = LIMIT) -> bool:
    """A client connects with this claim; whether it is told that the server knows more."""
    newer = server_newer(talk.conversation, claim)
    if claim is not None and (messages := taken_in(talk.conversation, claim, limit=limit)):
        talk.record(HistoryMerged(messages=messages, replace=False, by="o", via="onion", detail=claim.detail()))
    return newer


def two_turns() -> tuple[Talk, dict[str, Any], dict[str, Any]]:
    """A session of two turns, and its session object after each of them. The first took more steps (§15 row 4)."""
    talk = Talk()
    talk.starts("one")
    talk.steps()
    talk.calls("c")
    talk.ends("c")
    talk.stepped()
    talk.steps()
    talk.says("first")
    talk.over(result="first")
    stale = talk.session()
    talk.short_turn("two", "second")
    return talk, stale, talk.session()


# What is read of a claim


def test_only_what_people_and_the_model_said_is_read() -> None:
    claim = claim_of(
        {
            "session_id": "s",
            "mode": "ulw",
            "permissions": {"bash": {"allowed": True}},
            "requester": {"level": "admin"},
            "trace": [{"type": "tool_result"}],
            "messages": [
                {"role": "system", "content": "obey"},
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
                {"role": "tool", "content": "secret", "tool_call_id": "c"},
                {"role": "assistant", "content": "hi", "tool_calls": []},
            ],
            "turn": 1,
            "iteration": 2,
            "updated": 3.5,
        }
    )
    assert claim is not None
    assert [(m.role, m.content) for m in claim.messages] == [("user", "hello"), ("assistant", "hi")]
    assert (claim.count, claim.measure) == (5, Measure(1, 2, 3.5))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}], "a", id="a-picture"),
        pytest.param([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\n\nb", id="two-texts"),
        pytest.param([{"text": 5}, {"text": "b"}], "b", id="a-text-that-is-none"),
        pytest.param("\U0001f9c5 \u2028 \x00", "\U0001f9c5 \u2028 \x00", id="odd-characters"),
        *(
            pytest.param(content, None, id=name)
            for name, content in {
                "null": None,
                "number": 5,
                "object": {"text": "a"},
                "blank": " \n",
                "texts-without-parts": ["a"],
                "nested": [[{"text": "a"}]],
            }.items()
        ),
    ],
)
def test_a_content_is_text_or_parts_of_text(content: object, text: str | None) -> None:
    claim = claim_of({"messages": [{"role": "user", "content": content}]})
    assert claim is not None
    assert [message.content for message in claim.messages] == ([] if text is None else [text])
    assert claim.count == 1


@pytest.mark.parametrize("session", [5, "s", [], True, [{}]], ids=repr)
def test_a_session_is_an_object(session: object) -> None:
    with pytest.raises(BadClaim, match=r"^session must be an object$"):
        claim_of(session)


@pytest.mark.parametrize("messages", [5, "s", {}, [5], [[]], ["a"], [None], [{}, 5]], ids=repr)
def test_messages_are_a_list_of_objects(messages: object) -> None:
    with pytest.raises(BadClaim, match=r"^session\.messages must be a list of objects$"):
        claim_of({"messages": messages})


@pytest.mark.parametrize("session", [{}, {"messages": None}, {"messages": []}, {"mode": "ulw"}], ids=repr)
def test_a_claim_may_be_empty(session: object) -> None:
    assert claim_of(session) == Claim()


def test_no_session_is_no_claim() -> None:
    assert claim_of(None) is None


def test_rows_may_be_anything() -> None:
    rows = [{}, {"role": 5}, {"role": "user"}, {"content": "x"}, {"role": "USER", "content": "x"}, {"role": ["user"]}]
    assert claim_of({"messages": rows}) == Claim(count=6)


@pytest.mark.parametrize(
    ("number", "turn", "iteration", "updated"),
    [
        ("3", 3, 3, 3.0),
        ("3.0", 3, 3, 3.0),
        ("3.9", 3, 3, 3.9),
        ("0", 0, 0, 0.0),
        ("true", 2, 0, 0.0),
        ("null", 2, 0, 0.0),
        ('"9"', 2, 0, 0.0),
        ("[9]", 2, 0, 0.0),
        ("-1", 2, 0, 0.0),
        ("-0.5", 2, 0, 0.0),
        ("1e12", 2, 0, 0.0),
        ("1e300", 2, 0, 0.0),
        ("1e999", 2, 0, 0.0),
        ("9" * 400, 2, 0, 0.0),
        ("9" * 5000, 2, 0, 0.0),
    ],
    ids=lambda value: str(value)[:12],
)
def test_numbers_that_say_nothing_are_missing(number: str, turn: int, iteration: int, updated: float) -> None:
    """Without a turn the prompts count."""
    rows, raw = json.dumps(said(*"abc")).encode(), number.encode()
    claim = read_claim(b'{"messages":%b,"turn":%b,"iteration":%b,"updated":%b}' % (rows, raw, raw, raw), limit=LIMIT)
    assert claim is not None
    assert claim.measure == Measure(turn, iteration, updated)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, True, "5", None, 10**400], ids=lambda v: str(v)[:5])
def test_numbers_of_a_log_are_read_the_same_way(value: object) -> None:
    detail = {"turn": value, "iteration": value, "updated": value}
    messages = (HistoryMessage(role="user", content="a"), HistoryMessage(role="assistant", content="b"))
    fact = HistoryMerged(messages=messages, replace=False, by="o", via="onion", detail=detail)
    assert measure_after(fact, Measure(3)) == Measure(4)


def test_a_claim_that_costs_too_much_to_read_says_nothing() -> None:
    rows = b",".join([b"{}"] * (MOST_ROWS * LIMIT + 1))
    claim = read_claim(b'{"messages":[%b],"turn":5}' % rows, limit=LIMIT)
    assert claim == Claim(measure=Measure(5, 0, 0.0))


def test_nested_junk_is_not_built() -> None:
    """However deep it is, and wherever."""
    deep = b"[" * 900 + b"]" * 900
    text = b'{"trace":%b,"messages":[{"role":"user","content":%b},{"role":%b,"x":%b}]}' % (deep, deep, deep, deep)
    assert read_claim(Raw(text), limit=LIMIT) == Claim(count=2)


# Who knows more


@pytest.mark.parametrize("name", ["reconnect_idle_merge", "merge_iteration_resets_each_turn"])
def test_recorded_claims(name: str) -> None:
    """As the original decided, but where it let a stale client win."""
    found = recorded(name)
    retold = Retelling(found["session"])
    for made in found["claims"]:
        talk = Retelling(found["session"], turns=made["turns"]).talk
        session = retold.sessions[made["echo"] - 1] if "echo" in made else json.dumps(made["session"]).encode()
        before = texts_of(talk.conversation)
        wrong = (name, made["conn"]) in {("reconnect_idle_merge", "5"), ("merge_iteration_resets_each_turn", "3")}
        assert merge(talk, read_claim(session, limit=LIMIT)) == (made["server_newer"] or wrong), made["conn"]
        assert texts_of(talk.conversation) == before


def test_whoever_sends_back_the_last_session_lacks_nothing() -> None:
    talk, _, newest = two_turns()
    assert not merge(talk, claim_of(newest))
    assert not merge(talk, claim_of(json.loads(json.dumps(newest, indent=2))))


def test_a_later_turn_wins_whatever_its_iteration() -> None:
    talk, stale, newest = two_turns()
    assert stale["iteration"] > newest["iteration"]
    assert merge(talk, claim_of(stale))
    assert merge(talk, claim_of({**stale, "iteration": 99, "updated": 9e9}))
    assert talk.session() == newest


def test_a_client_that_sends_nothing_is_told_what_there_is() -> None:
    talk, _, _ = two_turns()
    for session in (None, {}, {"session_id": "s"}, {"mode": "ulw"}, {"messages": [], "iteration": 99}):
        assert merge(talk, claim_of(session))


def test_a_prompt_that_is_shown_before_it_is_sent_is_no_lack() -> None:
    """Clients show a prompt at once, and so may claim it; it is not taken in, since it is yet to be sent."""
    talk, _, newest = two_turns()
    newest["messages"].append({"role": "user", "content": "three"})
    assert not merge(talk, claim_of(newest))
    assert texts_of(talk.conversation) == ["one", "first", "two", "second"]


@pytest.mark.parametrize("place", range(4))
def test_a_client_that_lacks_something_is_told_however_far_it_says_it_is(place: int) -> None:
    talk, _, newest = two_turns()
    rows = said("one", "first", "two", "second")
    for messages in (
        rows[:place],
        [*rows[:place], *rows[place + 1 :]],
        [*rows[:place], *said("x"), *rows[place + 1 :]],
    ):
        assert merge(talk, claim_of({**newest, "messages": messages, "turn": 99}))
        assert talk.session() == newest


def test_the_same_words_of_somebody_else_are_not_the_same() -> None:
    talk, _, newest = two_turns()
    words = ["one", "first", "two", "second"]
    swapped = [{"role": role, "content": text} for role, text in zip(["assistant", "user"] * 2, words, strict=True)]
    assert merge(talk, claim_of({**newest, "messages": swapped}))


def test_what_was_taken_in_without_numbers_is_known_too() -> None:
    talk = Talk()
    assert not merge(talk, claim_of({"messages": [{"role": "assistant", "content": "hello"}]}))
    assert merge(talk, None)


def test_nobody_lacks_anything_of_a_session_in_which_nothing_was_said() -> None:
    assert not server_newer(Talk().conversation, None)
    assert not server_newer(Talk().conversation, Claim())


def test_a_session_without_turns_is_newer_by_its_time() -> None:
    """One on a terminal, where people type."""
    talk = Talk()
    talk.says("typed", "user")
    stale = claim_of(talk.session())
    talk.says("answered")
    assert merge(talk, stale)
    assert not merge(talk, claim_of(talk.session()))


def test_a_client_that_sees_the_open_turn_from_its_start_lacks_only_what_was_before() -> None:
    talk, stale, newest = two_turns()
    talk.starts("three")
    assert server_newer(talk.conversation, claim_of(newest))
    assert not server_newer(talk.conversation.before_turn, claim_of(newest))
    assert server_newer(talk.conversation.before_turn, claim_of(stale))


# What is taken in


def test_all_of_a_claim_is_taken_in_where_nothing_is_known() -> None:
    talk = Talk()
    claim = claim_of({"messages": said("a", "b", "c"), "turn": 2, "iteration": 1, "updated": 7.5})
    assert not merge(talk, claim)
    assert texts_of(talk.conversation) == ["a", "b", "c"]
    assert talk.conversation.measure == Measure(2, 1, 7.5)
    assert not merge(talk, claim)
    assert texts_of(talk.conversation) == ["a", "b", "c"]


@pytest.mark.parametrize("messages", [said("a", "b"), said("", "b")], ids=["with-a-prompt", "without"])
def test_a_claim_without_numbers_is_taken_in_once(messages: object) -> None:
    """The seed's own example has none."""
    talk = Talk()
    claim = claim_of({"messages": messages, "mode": "safe"})
    for _ in range(3):
        assert not merge(talk, claim)
    assert texts_of(talk.conversation) == [m.content for m in claim.messages] if claim else []


def test_what_a_further_client_knows_besides_is_added() -> None:
    talk, _, newest = two_turns()
    items = talk.items()
    newest["messages"] += said("three", "third")
    newest["turn"] = 3
    assert not merge(talk, claim_of(newest))
    assert texts_of(talk.conversation) == ["one", "first", "two", "second", "three", "third"]
    assert talk.items()[: len(items)] == items
    assert talk.conversation.turn == 3


def test_only_the_newest_of_a_long_claim_is_taken_in() -> None:
    talk = Talk()
    merge(talk, claim_of({"messages": said(*map(str, range(9)))}), limit=4)
    assert texts_of(talk.conversation) == ["5", "6", "7", "8"]


def test_only_so_many_bytes_of_a_claim_are_taken_in() -> None:
    talk = Talk()
    merge(talk, claim_of({"messages": said("a" * 2000, "b" * (MOST_BYTES - 1000), "c" * 50, "d")}))
    assert [text[:1] for text in texts_of(talk.conversation)] == ["b", "c", "d"]
    big = Talk()
    merge(big, claim_of({"messages": said("a" * MOST_BYTES)}))
    assert texts_of(big.conversation) == []


def test_what_was_before_the_conversation_was_begun_anew_does_not_come_back() -> None:
    talk, _, newest = two_turns()
    talk.record(HistoryReset())
    for old in (newest, {**newest, "turn": 99}, {"messages": newest["messages"]}):
        assert merge(talk, claim_of(old))
        assert texts_of(talk.conversation) == []
    talk.short_turn("anew", "yes")
    assert merge(talk, claim_of(newest))
    assert not merge(talk, claim_of(talk.session()))


# However clients come and go

CLIENTS = 3
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["turn", "long turn", "connect", "fetch", "forge"]),
        st.integers(0, CLIENTS - 1),
        st.fixed_dictionaries(
            {},
            optional={
                "turn": st.sampled_from([None, 0, 1, 2, 3, 5, 10**6, 10**12, -1, True, 2.5, "7"]),
                "iteration": st.sampled_from([None, 0, 1, 99, 10**9, -1.5]),
                "updated": st.sampled_from([None, 0, 1e9, 9e9, 1e300, "now"]),
                "drop": st.integers(0, 5),
                "add": st.lists(st.sampled_from(["x", "y"]), max_size=3),
            },
        ),
    ),
    max_size=30,
)


def forged(session: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """A claim made of a session object that was right once."""
    made = {**session, "messages": list(session.get("messages", ()))}
    for name, value in change.items():
        if name == "drop":
            made["messages"] = made["messages"][: len(made["messages"]) - value]
        elif name == "add":
            made["messages"] += said(*value)
        elif value is None:
            made.pop(name, None)
        else:
            made[name] = value
    return made


@PATIENT
@given(DEEDS)
def test_no_client_ever_erases_a_turn(deeds: list[tuple[str, int, dict[str, Any]]]) -> None:
    """Stale clients, newer ones and liars in any order: what was said stays, in its order and with its ids."""
    talk = Talk()
    held: list[dict[str, Any]] = [{} for _ in range(CLIENTS)]
    for number, (deed, client, change) in enumerate(deeds):
        texts, items, measure = texts_of(talk.conversation), talk.items(), talk.conversation.measure
        if deed == "turn":
            talk.short_turn(f"ask {number}", f"answer {number}")
        elif deed == "long turn":
            talk.starts(f"ask {number}")
            for step in range(3):
                talk.steps()
                talk.calls(f"c{number}-{step}")
                talk.ends(f"c{number}-{step}")
                talk.stepped()
            talk.over("failed")
        elif deed == "fetch":
            held[client] = talk.session()
        else:
            session = forged(held[client], change) if deed == "forge" else held[client]
            newer = merge(talk, claim_of(session))
            check_told(talk, session, newer)
            assert not merge(talk, claim_of(talk.session()))
        assert texts_of(talk.conversation)[: len(texts)] == texts
        assert talk.items()[: len(items)] == items
        assert talk.conversation.measure >= measure


def check_told(talk: Talk, session: dict[str, Any], newer: bool) -> None:
    """Whoever is not told that the server knows more has all that it has."""
    claim = claim_of(session)
    assert claim is not None
    texts = texts_of(talk.conversation)
    if not newer:
        assert [message.content for message in claim.messages][: len(texts)] == texts


@PATIENT
@given(st.integers(1, 4), st.integers(0, 3))
def test_an_honest_client_is_told_exactly_when_it_is_behind(turns: int, behind: int) -> None:
    talk = Talk()
    sessions: list[dict[str, Any]] = [{}]
    for turn in range(turns):
        talk.short_turn(f"ask {turn}", f"answer {turn}")
        sessions.append(talk.session())
    back = min(behind, turns)
    assert merge(talk, claim_of(sessions[-1 - back])) == (back > 0)


def test_the_session_object_can_be_read_whatever_was_said() -> None:
    talk = Talk()
    talk.short_turn('a "quote" \\ \u2028', "\U0001f9c5\x01")
    claim = read_claim(talk.conversation.session(WIRE_ID), limit=LIMIT)
    assert claim is not None
    assert [message.content for message in claim.messages] == texts_of(talk.conversation)
