"""The recorded conversations: the judges say what the clients in use showed, and find what is wrong on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from . import scenarios
from .scenarios import Conversation, Ids
from .sequence import faults

recorded = pytest.mark.skipif(not scenarios.there(), reason=f"no recordings in {scenarios.FOLDER}")

FAKE = (
    "metadata.has_screenshot: not there",
    "metadata.has_memory: not there",
    "accepted[0].schema: not in the contract",
    "no PCM of 16 bits",
    "it would show it twice",
    "no turn in its reach was open",
)
"""What the recorded server always says amiss: it was made to look at clients, and keeps the contract only roughly."""

HELLO = ("completed", "completed", "Hello world", ())
TOOL = ("completed", "completed", "Hello done", ("tool-call",))
BUNDLE = ("completed", "completed", "Hello done", ("tool-bundle",))
TYPESCRIPT = {
    "hello": HELLO,
    "usetool please": TOOL,
    "usebundle please": BUNDLE,
    "fail": ("failed", "failed", None, ()),
    "bareerror": ("failed", "failed", None, ()),
    "noident": ("failed", "completed", "Hello world", ()),
}
OUTCOMES = {
    "ts_direct": TYPESCRIPT,
    "ts_managed": TYPESCRIPT,
    "py": {"hello": HELLO, "usetool": TOOL, "usebundle": BUNDLE},
}
"""By the query's text: what the client made of it, what is wanted of a good server, the final text, the tools."""


def talk(name: str) -> Conversation:
    return scenarios.conversations(name)[0]


@recorded
@pytest.mark.parametrize("name", scenarios.NAMES)
def test_each_query_has_the_outcome_that_the_client_showed(name: str) -> None:
    seen = {query.text: (query.recorded, query.wanted, query.final, query.tools) for query in talk(name).queries}
    assert seen == OUTCOMES[name]


@recorded
@pytest.mark.parametrize("name", ["ts_direct", "ts_managed"])
def test_why_a_turn_failed(name: str) -> None:
    client = scenarios.replayed(talk(name).lines)
    problems = [turn.problem for turn in client.turns.values()]
    assert problems == [None, None, None, "boom", "bare boom", "missing event_id or sequence"]


@recorded
@pytest.mark.parametrize("name", ["ts_direct", "ts_managed"])
def test_our_client_gives_the_results_that_the_real_one_gave(name: str) -> None:
    conversation = talk(name)
    given = [step.said for step in conversation.steps if step.said["type"] in ("tool-result", "tool-bundle-result")]
    sent = scenarios.replayed(conversation.lines).sent
    assert [(frame["type"], frame["payload"]) for frame in sent] == [
        (frame["type"], frame["payload"]) for frame in given
    ]


@recorded
@pytest.mark.parametrize("name", scenarios.NAMES)
def test_what_is_wrong_on_purpose_is_found_and_nothing_else(name: str) -> None:
    conversation = talk(name)
    wrong = {}
    for each in faults(conversation.lines):
        place, what = each.split(": ", 1)
        if not any(known in what for known in FAKE):
            ident = conversation.lines[int(place)].frame["id"]
            wrong.setdefault(ident, set()).add(what.split(": ")[-1])
    texts = {query.ident: query.text for query in conversation.queries}
    bare = {f"no {key}" for key in ("conversation_ref", "event_id", "sequence", "session_id", "timestamp", "turn_ref")}
    expected = {"bareerror": bare | {"no user_id"}, "noident": {"no event_id", "no sequence"}}
    assert {texts[ident]: what for ident, what in wrong.items()} == (expected if name != "py" else {})


@recorded
@pytest.mark.parametrize("name", scenarios.NAMES)
def test_the_recorded_servers_own_faults_are_each_seen(name: str) -> None:
    """What is let pass above is really there, so that no entry outlives its reason."""
    found = "\n".join(faults(talk(name).lines))
    expected = FAKE if name != "py" else (*FAKE[:2], *FAKE[4:])
    assert [known for known in expected if known not in found] == []


@recorded
def test_a_handshake_without_a_token_is_closed() -> None:
    for name, refused in (("ts_direct", 1), ("ts_managed", 3)):
        first, *others = scenarios.conversations(name)
        assert (first.authorised, first.refused) == (True, False)
        assert [(each.authorised, each.refused, len(each.steps)) for each in others] == [(False, True, 1)] * refused


@recorded
def test_the_first_finished_turn_is_given_a_title() -> None:
    assert scenarios.requests("ts_direct") == [
        ("POST", "/api/install/register"),
        ("POST", "/api/semantic/title"),
        ("GET", "/api/sdk/models"),
    ]


@recorded
@pytest.mark.parametrize("name", scenarios.NAMES)
def test_no_frame_is_lost_in_reading(name: str) -> None:
    rows = (scenarios.FOLDER / f"{name}.jsonl").read_text().splitlines()
    read = sum(len(each.lines) for each in scenarios.conversations(name))
    assert read == sum(1 for row in rows if '"dir": "c2s"' in row or '"dir": "s2c"' in row) - sum(
        1 for row in rows if '"conn": "http"' in row
    )


def rows(*said: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"conn": "a", "dir": direction, "frame": frame} for direction, frame in said]


def test_frames_belong_to_the_message_before_them() -> None:
    (conversation,) = scenarios.read(
        [
            {"conn": "http", "dir": "c2s", "method": "GET", "path": "/"},
            {"conn": "a", "dir": "open", "path": "/ws", "headers": {"Authorization": "Bearer x"}, "frame": None},
            *rows(("c2s", {"type": "handshake"}), ("s2c", {"type": "x"}), ("s2c", {"type": "y"})),
            *rows(("c2s", {"id": "m1", "type": "list-models"})),
            {"conn": "a", "dir": "close", "code": 1000, "frame": None},
        ]
    )
    assert (conversation.path, conversation.authorised, conversation.closed) == ("/ws", True, 1000)
    assert [(step.said["type"], len(step.heard)) for step in conversation.steps] == [
        ("handshake", 2),
        ("list-models", 0),
    ]


def test_a_replay_has_ids_of_its_own_and_keeps_what_belongs_together() -> None:
    ids = Ids("2")
    query = {"id": "t1", "type": "query", "payload": {"text": "t1", "conversation_ref": "c1"}, "timestamp": "then"}
    assert ids.ours(query) == {"id": "t1-2", "type": "query", "payload": {"text": "t1", "conversation_ref": "c1-2"}}
    stop = {"id": "s1", "type": "stop-query", "payload": {"conversation_ref": "c1", "turn_ref": "t1"}}
    assert ids.ours(stop)["payload"] == {"conversation_ref": "c1-2", "turn_ref": "t1-2"}
    bare = {"id": "s2", "type": "stop-query", "payload": {"conversation_ref": "c1", "turn_ref": None}}
    assert ids.ours(bare)["payload"]["turn_ref"] is None


def test_a_result_names_the_request_that_the_server_made() -> None:
    ids = Ids("2")
    result = {"id": "m1", "type": "tool-result", "payload": {"request_id": "req-1", "success": True}}
    with pytest.raises(KeyError):
        ids.ours(result)
    ids.learn({"payload": {"request_id": "req-1"}}, {"payload": {"request_id": "opaque"}})
    assert ids.ours(result)["payload"] == {"request_id": "opaque", "success": True}


@recorded
@pytest.mark.parametrize("name", scenarios.NAMES)
def test_a_whole_recording_can_be_said_again(name: str) -> None:
    """With a server that makes up its own requests and bundles, each of which is learnt before it is answered."""
    ids, renamed = Ids("again"), 0
    for step in talk(name).steps:
        frame = ids.ours(step.said)
        renamed += frame.get("id", "") == f"{step.said.get('id')}-again"
        for heard in step.heard:
            own = {key: f"{heard['payload'][key]}-ours" for key in scenarios.SERVERS_OWN if key in heard["payload"]}
            ids.learn(heard, {"payload": own})
        if frame["type"] in ("tool-result", "tool-bundle-result"):
            assert any(str(value).endswith("-1-ours") for value in frame["payload"].values())
    assert renamed == len(talk(name).steps) - 1
