"""Facts on disk: they come back as they were, and grow without breaking what lies there (invariants 1, 2)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.hub.events import Event, Origin, SessionCreated, TurnStarted, decode_fact, encode_fact
from dragoman.hub.memory import MemoryJournal
from dragoman.hub.sqlite import SqliteJournal
from dragoman.hub.state import SessionState

from .facts import KINDS, any_fact, any_of, tag

NAMES = [tag(kind) for kind in KINDS]

FIRST_RELEASE: dict[str, str] = {
    "session.created": '{"kind":"terminal","agent":"claude","cwd":"/","title":"t","owner":"local"}',
    "settings.changed": '{"changes":{"title":"x"}}',
    "session.closed": '{"reason":"closed"}',
    "agent.started": "{}",
    "agent.exited": '{"cause":"exit"}',
    "state.changed": '{"prev":"starting","next":"working","cause":"x"}',
    "history.merged": '{"messages":[{"role":"user","content":"hi"}],"replace":true,"by":"local","via":"onion"}',
    "history.reset": "{}",
    "prompt.submitted": '{"prompt":"p","text":"hi","by":"local","via":"cin"}',
    "prompt.taken": '{"prompt":"p","turn":"t"}',
    "prompt.withdrawn": '{"prompt":"p","reason":"withdrawn"}',
    "turn.started": '{"turn":"t","prompt":"p"}',
    "turn.cancel_requested": '{"turn":"t","by":"local","via":"cin"}',
    "turn.settled": '{"turn":"t","outcome":"completed"}',
    "turn.ended": '{"turn":"t","outcome":"completed"}',
    "step.started": '{"turn":"t","step":1}',
    "step.ended": '{"turn":"t","step":1,"finish_reason":"stop"}',
    "part.started": '{"turn":"t","part":"a","kind":"text"}',
    "part.delta": '{"turn":"t","part":"a","kind":"text","text":"x"}',
    "part.ended": '{"turn":"t","part":"a","kind":"text"}',
    "part.raw": '{"turn":"t","raw":{}}',
    "part.source": '{"turn":"t"}',
    "message.added": '{"message":"m","role":"assistant","text":"hi"}',
    "usage.reported": '{"message":"m"}',
    "context.compacted": '{"compaction":"c","phase":"started"}',
    "context.reported": '{"part":"system_prompt","content":"x"}',
    "log.written": '{"line":"x"}',
    "tool.called": '{"call":"c","tool":"t"}',
    "tool.progressed": '{"call":"c","output":1}',
    "tool.ended": '{"call":"c","tool":"t","status":"ok"}',
    "subagent.started": '{"subagent":"s"}',
    "subagent.ended": '{"subagent":"s"}',
    "client_tools.declared": '{"by":"local","accepted":[]}',
    "decision.opened": '{"decision":"d","kind":"permission","text":"rm"}',
    "decision.revised": '{"decision":"d"}',
    "decision.resolved": '{"decision":"d","outcome":"cancelled"}',
    "terminal.resized": '{"cols":80,"rows":24,"tape_offset":0}',
    "terminal.titled": '{"title":"x","tape_offset":0}',
    "terminal.reserved": '{"tape_reserved":1}',
    "hook.answered": '{"hook":"stop"}',
    "hook.signalled": '{"signal":{}}',
    "todos.changed": '{"todos":[{"content":"x","status":"pending","active_form":"xing"}]}',
    "notified": '{"message":"x"}',
    "artifact.stored": '{"artifact":"a","media_type":"image/png","size":1,"sha256":"00"}',
    "checkpoint.taken": '{"checkpoint":"c","trigger":"manual"}',
    "checkpoint.restored": '{"checkpoint":"c"}',
    "checkpoint.deleted": '{"checkpoint":"c"}',
}
"""What each fact needs at least. These lines are on people's disks: they may be added to, never changed."""


def test_every_fact_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_fact_comes_back_as_it_was(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    fact = data.draw(any_of(kind))
    stored = encode_fact(fact)
    assert decode_fact(stored) == fact
    assert msgspec.json.decode(stored)["type"] == tag(kind)
    assert encode_fact(decode_fact(stored)) == stored
    assert b"\n" not in stored


@given(fact=any_fact, later=st.dictionaries(st.sampled_from(["zzz", "added_later"]), st.just({"a": [1]}), min_size=1))
def test_fields_that_a_newer_program_wrote_are_passed_over(fact: Any, later: dict[str, Any]) -> None:
    stored = {**msgspec.json.decode(encode_fact(fact)), **later}
    assert decode_fact(msgspec.json.encode(stored)) == fact


@pytest.mark.parametrize("name", NAMES)
def test_a_log_of_the_first_release_stays_readable(name: str) -> None:
    """Whoever adds a fact adds its line above; whoever adds a field without a default fails here."""
    line = FIRST_RELEASE[name]
    stored = b'{"type":"%s"%s%s' % (name.encode(), b"" if line == "{}" else b",", line[1:].encode())
    fact = decode_fact(stored)
    assert tag(type(fact)) == name
    assert msgspec.json.decode(encode_fact(fact)) == msgspec.json.decode(stored)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_every_fact_can_say_where_it_was_seen(kind: type[msgspec.Struct]) -> None:
    line = msgspec.json.decode(FIRST_RELEASE[tag(kind)])
    fact = decode_fact(msgspec.json.encode({"type": tag(kind), **line, "origin": {"source": "hook", "id": "1"}}))
    assert fact.origin == Origin(source="hook", id="1")
    assert b'"origin":{"source":"hook","id":"1"}' in encode_fact(fact)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_facts_never_change(kind: type[msgspec.Struct]) -> None:
    line = msgspec.json.decode(FIRST_RELEASE[tag(kind)])
    fact = decode_fact(msgspec.json.encode({"type": tag(kind), **line}))
    with pytest.raises(AttributeError):
        fact.origin = None  # type: ignore[misc]


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"type":"no.such.fact"}',
        b'{"type":"turn.started"}',
        b'{"type":"turn.started","turn":1,"prompt":"p"}',
        b'{"type":"turn.ended","turn":"t","outcome":"won"}',
        b'{"type":"turn.started","turn":"t","prompt":"p"',
        b'{"type":"log.written","line":"\\ud800"}',
    ],
)
def test_what_is_no_fact_is_refused(stored: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, msgspec.ValidationError)):
        decode_fact(stored)


def test_defaults_take_no_room_on_disk() -> None:
    assert encode_fact(TurnStarted(turn="t", prompt="p")) == b'{"type":"turn.started","turn":"t","prompt":"p"}'
    created = SessionCreated(kind="k", agent="a", cwd="/", title="t", owner="o")
    assert (
        encode_fact(created) == b'{"type":"session.created","kind":"k","agent":"a","cwd":"/","title":"t","owner":"o"}'
    )


async def test_every_fact_comes_back_from_each_journal(tmp_path: Any) -> None:
    """Invariant 2: what is read later is what was recorded."""
    facts = [
        decode_fact(msgspec.json.encode({"type": name, **msgspec.json.decode(line)}))
        for name, line in FIRST_RELEASE.items()
    ]
    for journal in (MemoryJournal(), SqliteJournal(tmp_path / "journal.db")):
        await journal.open(lambda _: None)
        state = SessionState(session="s")
        events = [Event(seq, 1, "e", fact) for seq, fact in enumerate(facts, 1)]
        for event in events:
            state.seq = event.seq
            journal.append(event, state.row())
        await journal.flush()
        assert await journal.read("s", 0, 1000) == events
        await journal.close()
