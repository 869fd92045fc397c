"""What the server says has the shape and the order of what the originals sent (spec §6)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.dialects.windie import messages as said
from dragoman.dialects.windie.client_manifest import RejectedTool, validate_manifest

from . import recordings

TURN = said.Turn(user_id="u", session_id="s", conversation_ref="c", turn_ref="t")


def _kinds(base: type[said.Payload]) -> dict[str, type[said.Payload]]:
    return {kind.TYPE: kind for kind in base.__subclasses__()}


STREAMED, REPLIES, STARTUP = map(_kinds, (said.StreamPayload, said.ReplyPayload, said.StartupPayload))
REPLIED = {**REPLIES, "error": said.Error}


def _whole(frame: dict[str, Any]) -> dict[str, Any]:
    """The frame with what only the contract's own server says, which the recording's stand-in left out."""
    payload = json.loads(json.dumps(frame["payload"]))
    if frame["type"] == "user-message-full":
        payload["metadata"] |= {"has_screenshot": False, "has_memory": False}
    if frame["type"] == "client-tool-manifest":
        accepted, _ = validate_manifest({"tools": payload["accepted"]})
        payload["accepted"] = list(msgspec.to_builtins(accepted))
    return frame | {"payload": payload}


def _again(frame: dict[str, Any]) -> bytes:
    """The same frame from our own types."""
    kind, payload = frame["type"], frame["payload"]
    if "id" not in frame:
        return said.encode_startup(msgspec.convert(payload, STARTUP[kind]))
    if "sequence" not in frame:
        return said.encode_reply(frame["id"], msgspec.convert(payload, REPLIED[kind]))
    turn = msgspec.convert(frame, said.Turn)
    event = msgspec.convert(payload, STREAMED[kind])
    return said.encode_event(turn, event, timestamp=frame["timestamp"], sequence=frame["sequence"])


@recordings.recorded
@pytest.mark.parametrize("name", recordings.names())
def test_every_recorded_frame_is_one_of_ours_key_for_key(name: str) -> None:
    # Without a number there are events that the recording's stand-in sent wrong, to see what a client does.
    frames = [
        _whole(frame) for frame in recordings.frames(name, "s2c") if "sequence" in frame or "turn_ref" not in frame
    ]
    assert frames
    for frame in frames:
        ours = json.loads(_again(frame))
        assert list(ours) == list(frame)
        assert ours | {"event_id": frame.get("event_id")} == frame | {"event_id": frame.get("event_id")}
        assert list(ours["payload"]) == list(frame["payload"])


def test_an_event_and_how_it_is_named() -> None:
    event = said.encode_event(TURN, said.StreamingResponse(text="hi"), timestamp="2025-01-20T10:00:00Z", sequence=17)
    assert event == (
        b'{"id":"t","type":"streaming-response","payload":{"text":"hi"},"user_id":"u","session_id":"s",'
        b'"conversation_ref":"c","turn_ref":"t","timestamp":"2025-01-20T10:00:00Z",'
        b'"event_id":"t-evt-000017-streaming-response","sequence":17}'
    )


def test_replies_take_no_number() -> None:
    assert said.encode_reply(None, said.Error(message="Malformed JSON")) == (
        b'{"id":null,"type":"error","payload":{"message":"Malformed JSON"}}'
    )
    ack = said.StopQueryAck(status="not-running", canceled=False, conversation_ref=None, turn_ref=None)
    assert said.encode_reply("m", ack) == (
        b'{"id":"m","type":"stop-query-ack","payload":'
        b'{"status":"not-running","canceled":false,"conversation_ref":null,"turn_ref":null}}'
    )


def test_a_startup_event_has_type_and_payload_only() -> None:
    manifest = said.ClientToolManifest(accepted=(), rejected=(RejectedTool(name="x", reason="why"),))
    assert said.encode_startup(manifest) == (
        b'{"type":"client-tool-manifest","payload":{"accepted":[],"rejected":[{"name":"x","reason":"why"}]}}'
    )


def test_tokens_that_nobody_has_counted_are_null_and_what_may_be_left_out_is() -> None:
    count = said.TokenCount(
        prompt_tokens=1,
        visible_output_tokens=2,
        thinking_tokens=None,
        output_tokens_total=2,
        total_tokens=3,
        conversation_tokens=3,
        usage_source="estimated",
    )
    payload = json.loads(said.encode_event(TURN, count, timestamp="", sequence=1))["payload"]
    assert payload["thinking_tokens"] is None
    assert "cached_tokens" not in payload
