"""A whole server is given a provider's key: it lies in the key store, and is nowhere else that anybody could look."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from .http_rig import Socket, WindieServer

KEY = "sk-live-0123456789abcdef"
GIVEN = {"provider_api_keys": {"openai": {"enabled": True, "api_key": KEY}}, "model_provider": "openai"}


async def answer(socket: Socket, kind: str, payload: object) -> object:
    """The payload of a message's answer."""
    await socket.say({"id": kind, "type": kind, "payload": payload})
    while True:
        heard = await socket.heard()
        assert KEY not in str(heard)
        if heard.get("id") == kind:
            return heard["payload"]


async def test_a_key_is_told_to_nobody_and_written_nowhere_else(
    open_server: WindieServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_server.socket() as socket:
        assert await answer(socket, "update-settings", GIVEN) == {
            "updated_keys": ["model_provider", "provider_api_keys"]
        }
        loaded = await answer(socket, "load-settings", {})
        assert isinstance(loaded, dict)
        assert loaded["config"]["provider_api_keys"] == {"openai": {"enabled": True, "api_key": ""}}
        await answer(socket, "list-models", {})
        too_much = {"provider_api_keys": {"openai": {"api_key": KEY, "secret": KEY}}}
        refused = await answer(socket, "update-settings", too_much)
        assert isinstance(refused, dict)
        assert "message" in refused
    models = await open_server.get("/api/sdk/models")
    assert models.status == 200
    assert KEY.encode() not in models.body
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("dragoman")]
    assert any("PARSE_VALIDATION_ERROR" in line for line in ours)
    assert not [line for line in ours if KEY in line]
    files = [path for path in open_server.data.rglob("*") if path.is_file()]
    assert [path for path in files if path.name == "user-settings.db"], "settings were kept"
    having = [path.relative_to(open_server.data) for path in files if KEY.encode() in path.read_bytes()]
    assert having == [Path("keys/providers.json")]
    assert (open_server.data / having[0]).stat().st_mode & 0o077 == 0


async def test_an_install_cannot_set_the_servers_keys(closed_server: WindieServer) -> None:
    token = (await closed_server.register())["install_token"]
    async with closed_server.socket(token) as socket:
        refused = await answer(socket, "update-settings", GIVEN)
        assert refused == {
            "message": "Invalid settings: provider_api_keys of this server are set by whoever runs it",
        }
        loaded = await answer(socket, "load-settings", {})
        assert isinstance(loaded, dict)
        assert loaded["config"]["provider_api_keys"] == {}
    files = [path for path in closed_server.data.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
