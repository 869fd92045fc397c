"""The HTTP routes: the same commands, one error form, and a document that describes them truly."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from dragoman.dialects.hub import HubDialectSettings, messages
from dragoman.dialects.hub.errors import STATUS
from dragoman.dialects.hub.openapi import document
from dragoman.dialects.hub.routes import ROUTES
from dragoman.hub import errors as hub_errors
from dragoman.hub.permissions import LOCAL

from .conftest import MakeRig
from .rig import Rig


async def make(rig: Rig) -> str:
    reply = await rig.http("POST", "/sessions", {"kind": "scripted", "cwd": str(rig.folder), "title": "mine"})
    assert reply.status == 201
    return str(reply.json["session"])


async def test_a_whole_conversation_over_http(rig: Rig) -> None:
    session = await make(rig)
    assert [row["title"] for row in (await rig.http("GET", "/sessions?kind=scripted")).json["sessions"]] == ["mine"]
    assert (await rig.http("GET", "/sessions?status=closed&limit=3")).json["sessions"] == []
    receipt = await rig.http("POST", f"/sessions/{session}/prompts", {"text": "permit ls\nsay bye"})
    assert (receipt.status, receipt.json["disposition"]) == (200, "started")
    found = await rig.registry.get(LOCAL, session)
    while not found.shown.decisions:
        await asyncio.sleep(0.005)
    (decision,) = (await rig.http("GET", f"/sessions/{session}")).json["decisions"]
    path = f"/sessions/{session}/decisions/{decision['decision']}"
    assert (await rig.http("POST", path, {"answer": {"accept": True}})).status == 200
    late = await rig.http("POST", path, {"answer": {"accept": False}})
    assert late.code == (409, "already_resolved")
    assert late.json["error"]["outcome"] == "answered"
    while found.shown.turn is not None:
        await asyncio.sleep(0.005)
    page = await rig.http("GET", f"/sessions/{session}/events?after=0&limit=500")
    assert [event["seq"] for event in page.json["events"]] == list(range(1, found.shown.seq + 1))
    assert page.headers["cache-control"] == "no-store"
    assert (await rig.http("PATCH", f"/sessions/{session}", {"settings": {"title": "yours"}})).status == 200
    assert (await rig.http("GET", f"/sessions/{session}")).json["title"] == "yours"
    assert len((await rig.http("GET", "/events?limit=5")).json["events"]) == 5
    assert (await rig.http("POST", f"/sessions/{session}/start")).status == 200
    assert (await rig.http("POST", f"/sessions/{session}/close")).status == 200
    assert (await rig.http("DELETE", f"/sessions/{session}")).status == 200
    assert (await rig.http("GET", f"/sessions/{session}")).code == (410, "gone")


async def test_cancel_and_withdraw_over_http(rig: Rig) -> None:
    session = await make(rig)
    turn = (await rig.http("POST", f"/sessions/{session}/prompts", {"text": "wait"})).json["turn"]
    assert (await rig.http("POST", f"/sessions/{session}/prompts", {"text": "no"})).code == (409, "busy")
    queued = await rig.http("POST", f"/sessions/{session}/prompts", {"text": "later", "when_busy": "queue"})
    assert (await rig.http("DELETE", f"/sessions/{session}/prompts/{queued.json['prompt']}")).status == 200
    assert (await rig.http("POST", f"/sessions/{session}/cancel", {"turn": "other"})).code == (404, "unknown_turn")
    assert (await rig.http("POST", f"/sessions/{session}/cancel")).json == {"turn": turn}


async def test_what_was_refused_is_said_in_one_form(rig: Rig) -> None:
    session = await make(rig)
    expected: list[tuple[str, str, Any, tuple[int, str]]] = [
        ("GET", "/nothing", None, (404, "not_found")),
        ("GET", "/sessions/", None, (404, "not_found")),
        ("PUT", "/sessions", None, (405, "method_not_allowed")),
        ("POST", "/health", None, (405, "method_not_allowed")),
        ("GET", "/sessions/nobody", None, (404, "unknown_session")),
        ("GET", "/sessions?limit=x", None, (400, "invalid_request")),
        ("GET", f"/sessions/{session}/events?after=-1", None, (400, "invalid_request")),
        ("GET", f"/sessions/{session}/events?after=99999", None, (400, "invalid_request")),
        ("POST", "/sessions", b"{", (400, "invalid_request")),
        ("POST", "/sessions", b"\xff\xfe", (400, "invalid_request")),
        ("POST", "/sessions", b"[" * 100_000, (400, "invalid_request")),
        ("POST", "/sessions", [], (400, "invalid_request")),
        ("POST", "/sessions", {"kind": "scripted"}, (400, "invalid_request")),
        ("POST", "/sessions", {"kind": "scripted", "cwd": "/", "typo": 1}, (400, "invalid_request")),
        (
            "POST",
            "/sessions",
            {"kind": "scripted", "cwd": "/", "options": {"x": "y" * 300_000}},
            (429, "limit_reached"),
        ),
        ("POST", f"/sessions/{session}/prompts", {}, (400, "invalid_request")),
        ("POST", f"/sessions/{session}/decisions/none", {"answer": {"accept": True}}, (404, "unknown_decision")),
        ("POST", f"/sessions/{session}/input", {"text": "x"}, (409, "not_running")),
        ("GET", f"/sessions/{session}/screen", None, (409, "not_running")),
        ("GET", f"/sessions/{session}/tape", None, (409, "not_running")),
    ]
    for method, path, body, code in expected:
        reply = await rig.http(method, path, body)
        assert reply.code == code, (method, path)
    wrong = await rig.http("PUT", "/sessions")
    assert {method.strip() for method in wrong.headers["allow"].split(",")} >= {"GET", "POST"}


async def test_a_body_over_the_limit_is_refused_and_the_server_goes_on(make_rig: MakeRig) -> None:
    rig = await make_rig(settings=HubDialectSettings(message_limit=10_000))
    session = await make(rig)
    reply = await rig.http("POST", f"/sessions/{session}/prompts", {"text": "x" * 20_000})
    assert reply.code == (413, "too_large")
    assert (await rig.http("GET", "/health")).json["status"] == "ok"


async def test_two_different_message_ids_in_one_request_are_refused(rig: Rig) -> None:
    session = await make(rig)
    path, body = f"/sessions/{session}/prompts", {"text": "hi", "client_message_id": "a"}
    assert (await rig.http("POST", path, body, {"Idempotency-Key": "b"})).code == (400, "invalid_request")
    assert (await rig.http("POST", path, {"text": "hi"}, {"Idempotency-Key": "k" * 300})).code == (
        400,
        "invalid_request",
    )
    assert (await rig.http("POST", path, body, {"Idempotency-Key": "a"})).json["duplicate"] is False
    assert (await rig.http("POST", path, {"text": "hi"}, {"Idempotency-Key": "a"})).json["duplicate"] is True


async def test_health_says_how_it_is(rig: Rig) -> None:
    await make(rig)
    health = await rig.http("GET", "/health")
    assert health.json == {"status": "ok", "epoch": rig.journal.epoch, "sessions": 1, "problem": None}


def test_every_refusal_of_the_hub_has_a_status() -> None:
    codes = {
        kind.code
        for kind in vars(hub_errors).values()
        if isinstance(kind, type) and issubclass(kind, hub_errors.HubError)
    }
    assert codes - STATUS.keys() == {"data_folder"}, "only what never reaches a client is not in the table"


async def test_the_document_describes_every_route_and_resolves(rig: Rig) -> None:
    reply = await rig.http("GET", "/openapi.json")
    spec = reply.json
    assert spec["openapi"] == "3.1.0"
    routes = {(route.path, route.method.lower()) for route in ROUTES}
    assert {(path, method) for path, item in spec["paths"].items() for method in item} == routes
    names = spec["components"]["schemas"].keys()
    assert set(re.findall(r'"#/components/schemas/([^"]+)"', reply.body.decode())) <= names
    operations = [operation["operationId"] for item in spec["paths"].values() for operation in item.values()]
    assert len(set(operations)) == len(operations)
    for route in ROUTES:
        declared = {p["name"] for p in spec["paths"][route.path][route.method.lower()].get("parameters", [])}
        assert set(re.findall(r"{(\w+)}", route.path)) <= declared
    assert len(spec["x-websocket"]["client"]["oneOf"]) == len(messages.MESSAGES)
    assert {"TurnStarted", "DecisionOpened", "Snapshot", "ErrorBody"} <= names


def test_the_document_is_the_same_every_time() -> None:
    assert json.loads(document(ROUTES)) == json.loads(document.__wrapped__(ROUTES))


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_reading_routes_answer_head_too(rig: Rig, method: str) -> None:
    assert (await rig.http(method, "/sessions")).status == 200
