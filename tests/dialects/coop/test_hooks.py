"""The routes of the stop and start hooks and of their configuration, and who may use them (spec 5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.events import AgentStarted
from dragoman.hub.limits import HubLimits
from dragoman.hub.ports import StopVerdict
from dragoman.hub.standing import StopSignal

from .driven import Play

HOOKS = ("hooks/stop", "hooks/stop/resolve", "stop/resolve", "hooks/start")


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Play]:
    """A server with a token, and an agent that runs."""
    play = Play(tmp_path, token="server-token")
    await play.start()
    play.record(AgentStarted(pid=1))
    await play.durable()
    yield play
    await play.stop()


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        (StopVerdict(type="allowed"), {}),
        (StopVerdict(type="allowed", last_message="Done."), {"last_message": "Done."}),
        (StopVerdict(type="signaled", last_message="Done."), {"last_message": "Done."}),
        (StopVerdict(type="safety_valve"), {}),
        (
            StopVerdict(type="blocked", reason="Go on.", last_message="Done."),
            {"decision": "block", "reason": "Go on.", "last_message": "Done."},
        ),
        (StopVerdict(type="blocked", reason="Go on."), {"decision": "block", "reason": "Go on."}),
    ],
)
async def test_a_verdict_in_the_agents_own_form(play: Play, verdict: StopVerdict, says: dict[str, str]) -> None:
    play.factory.verdict = verdict
    async with play.link() as link:
        reply = await play.post("hooks/stop", {"event": "stop", "data": {"stop_hook_active": True, "session_id": "s"}})
        assert (reply.status, reply.json) == (200, says)
        assert await link.receive() == {
            "event": "stop",
            "type": verdict.type,
            "signal": None,
            "error_detail": None,
            "seq": 0,
        }
    assert play.factory.stops == [{"stop_hook_active": True, "session_id": "s"}]


@pytest.mark.parametrize("route", ["hooks/stop", "hooks/start"])
async def test_a_hook_that_brings_too_many_values(play: Play, route: str) -> None:
    many = [{}] * HubLimits().hook_values
    status, code, message = (await play.post(route, {"data": {"x": many}})).error
    assert (status, code) == (400, "BAD_REQUEST")
    assert "hub.hook_values" in message
    assert play.factory.stops == []


@pytest.mark.parametrize("body", [{"event": "stop"}, {}, {"event": "stop", "data": None}])
async def test_a_hook_without_data_is_one(play: Play, body: Any) -> None:
    assert (await play.post("hooks/stop", body)).json == {}
    assert play.factory.stops == [{}]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"event":1}', b'{"data":[]}', b"[" * 5000])
async def test_a_hook_that_is_none_is_refused(play: Play, body: bytes) -> None:
    """Invariant 8."""
    assert (await play.post("hooks/stop", body)).error[:2] == (400, "BAD_REQUEST")


async def test_the_start_hook_gets_its_script(play: Play) -> None:
    play.factory.script = "echo hello"
    async with play.link() as link:
        reply = await play.post("hooks/start", {"event": "start", "data": {"source": "resume"}})
        assert (reply.status, reply.body) == (200, b"echo hello")
        assert reply.headers["content-type"].startswith("text/plain")
        assert await link.receive() == {
            "event": "start",
            "source": "resume",
            "session_id": None,
            "injected": True,
            "seq": 0,
        }
    assert play.factory.starts == [{"source": "resume"}]


@pytest.mark.parametrize("path", ["hooks/stop/resolve", "stop/resolve"])
@pytest.mark.parametrize("body", [{"status": "done"}, [], "x", 0, None, False])
async def test_any_json_allows_the_next_stop(play: Play, path: str, body: Any) -> None:
    reply = await play.post(path, b"null" if body is None else body)
    assert (reply.status, reply.json) == (200, {"accepted": True})
    assert play.session.shown.stop_signal == StopSignal(body)


@pytest.mark.parametrize("body", [b"", b"{", b'"' + b"x" * 70_000 + b'"', b"[" * 300 + b"]" * 300])
async def test_a_signal_that_cannot_be_kept_is_refused(play: Play, body: bytes) -> None:
    assert (await play.post("hooks/stop/resolve", body)).error[:2] == (400, "BAD_REQUEST")
    assert play.session.shown.stop_signal is None


# Configuration


async def test_the_configuration_goes_round(play: Play) -> None:
    empty = {"mode": "allow", "prompt": None, "schema": None}
    assert (await play.http("GET", "config/stop")).json == empty
    fields = {"outcome": {"enum": ["done"], "descriptions": {"done": "All is well"}}, "note": {"required": True}}
    given = {"mode": "signal", "prompt": "Test it.", "schema": {"fields": fields}}
    assert (await play.http("PUT", "config/stop", given)).json == {"updated": True}
    back = (await play.http("GET", "config/stop")).json
    assert (back["mode"], back["prompt"]) == ("signal", "Test it.")
    assert back["schema"]["fields"] == {
        "outcome": {"required": False, "enum": ["done"], "descriptions": {"done": "All is well"}, "description": None},
        "note": {"required": True, "enum": None, "descriptions": None, "description": None},
    }
    assert (await play.http("PUT", "config/stop", {})).json == {"updated": True}
    assert (await play.http("GET", "config/stop")).json == empty


async def test_the_start_configuration_goes_round(play: Play) -> None:
    assert (await play.http("GET", "config/start")).json == {"text": None, "shell": [], "event": {}}
    given = {"text": "Hello", "shell": ["ls"], "event": {"clear": {"text": None, "shell": []}}}
    assert (await play.http("PUT", "config/start", given)).json == {"updated": True}
    assert (await play.http("GET", "config/start")).json == given


@pytest.mark.parametrize("which", ["stop", "start"])
@pytest.mark.parametrize("body", [b"", b"[]", b'{"mode":"never","text":1}', b'{"prompt":1,"shell":"ls"}'])
async def test_a_configuration_that_cannot_be_one_changes_nothing(play: Play, which: str, body: bytes) -> None:
    before = (await play.http("GET", f"config/{which}")).json
    assert (await play.http("PUT", f"config/{which}", body)).error[:2] == (400, "BAD_REQUEST")
    assert (await play.http("GET", f"config/{which}")).json == before


async def test_without_hooks_there_is_nobody_to_ask(play: Play) -> None:
    play.factory.hooked = False
    for path in HOOKS:
        assert (await play.post(path, {})).error[:2] == (404, "NO_DRIVER")


# Who


@pytest.mark.parametrize("path", HOOKS)
async def test_a_hook_shows_the_secret_of_its_session(guarded: Play, path: str) -> None:
    """Invariant 10 and 11: the seed's open routes are open to the agent itself, and to whoever has the token."""
    prefix = f"/session/{guarded.session.id}/api/v1/"
    for address in (path, prefix + path):
        for proof in (
            {"X_Dragoman_Hook": "hook-secret"},
            {"Authorization": "Bearer hook-secret"},
            {"Authorization": "Bearer server-token"},
        ):
            assert (await guarded.post(address, {}, **proof)).status == 200
    for proof in ({}, {"X_Dragoman_Hook": "other"}, {"Authorization": "Bearer other"}, {"X_Dragoman_Hook": ""}):
        refused = await guarded.post(path, {}, **proof)
        assert refused.error == (401, "UNAUTHORIZED", "unauthorized")
    assert guarded.factory.told == []


async def test_the_secret_opens_nothing_else(guarded: Play) -> None:
    proof = {"X_Dragoman_Hook": "hook-secret", "Authorization": "Bearer hook-secret"}
    for method, path in (("POST", "input"), ("POST", "agent/nudge"), ("GET", "config/stop"), ("PUT", "config/stop")):
        assert (await guarded.http(method, path, {}, **proof)).status == 401, path
    assert (await guarded.post(f"hooks/stop?session={guarded.session.id}", {}, **proof)).status == 200


async def test_a_session_that_is_not_there_looks_like_a_wrong_secret(guarded: Play) -> None:
    """Invariant 12."""
    for address in ("/session/nobody/api/v1/hooks/stop", "/api/v1/hooks/stop?session=nobody"):
        refused = await guarded.post(address, {}, X_Dragoman_Hook="hook-secret")
        assert refused.error == (401, "UNAUTHORIZED", "unauthorized")


async def test_who_gave_the_signal_is_in_the_log(guarded: Play) -> None:
    await guarded.post("hooks/stop/resolve", {}, X_Dragoman_Hook="hook-secret")
    await guarded.post("hooks/stop/resolve", {}, Authorization="Bearer server-token")
    assert [event.fact.by for event in (await guarded.session.read(0))[-2:]] == ["agent", "token"]  # type: ignore[union-attr]


async def test_without_a_token_hooks_are_open_on_this_machine(play: Play) -> None:
    for path in HOOKS:
        assert (await play.post(path, {})).status == 200
