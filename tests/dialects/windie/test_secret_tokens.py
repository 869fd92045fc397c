"""Tokens and keys of windie's users are found nowhere they should not be: in no log, answer or frame, and in no file
but the key store's (invariant 10; spec §2, §11 rows 20 and 21)."""

from __future__ import annotations

import asyncio
import http.client
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.faults.process import Served

SERVER_TOKEN = "server-5e1f3a77"
RUNS_KEY = "runs-9b2d61c0"
CONTROL_KEY = "control-4c7e8d15"
PROVIDER_KEY = "sk-provider-a1b2c3d4"
WRONG_KEY = "wrong-runs-key-77aa"
WRONG_TOKEN = "wnd_install_" + "W" * 43

LIMIT = 20.0


class Talking:
    """Requests and links to one server; everything that was heard is kept."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.heard: list[bytes] = []

    @property
    def port(self) -> int:
        return int(self.served.ready["port"])

    def ask(self, method: str, path: str, body: Any = None, *, kept: bool = True, **headers: str) -> tuple[int, bytes]:
        """Below ``/windie``; ``_`` in a header's name is ``-``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            data = None if body is None else json.dumps(body)
            connection.request(method, f"/windie{path}", data, {"content-type": "application/json", **given})
            answer = connection.getresponse()
            heard = answer.read()
            if kept:
                self.heard += [heard, str(answer.getheaders()).encode()]
            return answer.status, heard
        finally:
            connection.close()

    async def link(self, *messages: dict[str, Any], token: str | None, query: str = "", replies: int = 0) -> list[Any]:
        """The frames that are heard: the catalog and so many replies; none where it is not let in."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        address = f"ws://127.0.0.1:{self.port}/windie/ws{query}"
        frames: list[Any] = []
        async with (
            asyncio.timeout(LIMIT),
            connect(address, additional_headers=headers, proxy=None, max_size=None) as link,
        ):
            await link.send(json.dumps({"type": "handshake", "user_id": "somebody"}))
            for message in messages:
                await link.send(json.dumps(message))
            try:
                while len(frames) < 1 + replies:
                    said = await link.recv()
                    self.heard.append(said.encode() if isinstance(said, str) else said)
                    frames.append(json.loads(said))
            except ConnectionClosed as closed:
                self.heard.append(str(closed).encode())
        return frames


@pytest.fixture
async def talking(tmp_path: Path) -> AsyncIterator[Talking]:
    folder = tmp_path / "server"
    folder.mkdir()
    config = tmp_path / "config.toml"
    config.write_text(
        f'[installs]\nauth = "on"\n[dialects.windie]\nruns_key = "{RUNS_KEY}"\nruns_control_key = "{CONTROL_KEY}"\n'
    )
    served = Served(folder, "--config", str(config), "--log-level", "debug", env={"DRAGOMAN_TOKEN": SERVER_TOKEN})
    await served.start()
    try:
        yield Talking(served)
    finally:
        if served.process is not None:
            served.stop()


def register(talking: Talking, path: str = "/api/install/register", **headers: str) -> dict[str, Any]:
    """The one answer that tells a token is not kept among what was heard."""
    status, body = talking.ask("POST", path, {"operating_system": "Linux"}, kept=False, **headers)
    assert status == 200, body
    made: dict[str, Any] = json.loads(body)
    return made


async def everything(talking: Talking) -> tuple[str, ...]:
    """Say every secret wherever it can be said, rightly and wrongly; the tokens that were made."""
    mine = register(talking, authorization=f"Bearer {SERVER_TOKEN}")["install_token"]
    gone = register(talking, f"/api/install/register?token={SERVER_TOKEN}")["install_token"]
    keyed = {"x_windie_runs_key": RUNS_KEY, "x_windie_runs_control_key": CONTROL_KEY}
    assert talking.ask("DELETE", "/api/install/me", authorization=f"Bearer {gone}")[0] == 200
    for token in (mine, gone, WRONG_TOKEN, SERVER_TOKEN):
        bearer = {"authorization": f"Bearer {token}"}
        for path in ("/api/install/me", "/api/nothing", "/api/sdk/models", f"/api/install/me?token={token}"):
            talking.ask("GET", path, **bearer)
            talking.ask("GET", path, authorization=f"Basic {token}")
            talking.ask("GET", f"/api/runs/x?access_token={token}&token={token}", **bearer)
        for keys in (keyed, {"x_windie_runs_key": WRONG_KEY}, {"x_windie_runs_key": CONTROL_KEY}):
            talking.ask("POST", "/api/runs/", {"workspace_id": "w", "query": "q"}, **bearer, **keys)
            talking.ask("POST", "/api/runs/stop-all", {}, **bearer, **keys)
            talking.ask("POST", "/api/runs/", {"workspace_id": 5, "query": []}, **bearer, **keys)
        await talking.link(token=token)
        await talking.link(token=None, query=f"?token={token}")
    await settings_of(talking, mine)
    return mine, gone


async def settings_of(talking: Talking, token: str) -> None:
    """A user's key for a provider: set, and asked for; a fault in a message that has it is told without it."""
    keys = {"openai": {"enabled": True, "api_key": PROVIDER_KEY}}
    update = {"id": "a", "type": "update-settings", "payload": {"provider_api_keys": keys}}
    faulty = {
        "id": "b",
        "type": "update-settings",
        "payload": {"provider_api_keys": {"openai": {"api_key": [1, keys]}}},
    }
    wrong = {"id": "c", "type": "update-settings", "payload": {"model_mode": "sideways", "provider_api_keys": keys}}
    load = {"id": "d", "type": "load-settings", "payload": {}}
    models = {"id": "e", "type": "list-models", "payload": {}}
    await talking.link(update, token=token, replies=1)
    frames = await talking.link(faulty, wrong, load, models, token=token, replies=4)
    told = {frame.get("id"): frame["type"] for frame in frames[1:]}
    assert told == {"b": "error", "c": "error", "d": "settings-loaded", "e": "models-listed"}
    (loaded,) = [frame for frame in frames if frame["type"] == "settings-loaded"]
    for entry in loaded["payload"]["config"]["provider_api_keys"].values():
        assert entry["api_key"] == ""


async def test_no_secret_is_anywhere(talking: Talking) -> None:
    tokens = await everything(talking)
    assert talking.served.stop() == 0
    log = talking.served.log.read_bytes()
    data = talking.served.folder / "data"
    files = [each for each in data.rglob("*") if each.is_file()]
    assert len(log) > 5000, "it says much"
    secrets = (*tokens, SERVER_TOKEN, RUNS_KEY, CONTROL_KEY, PROVIDER_KEY, WRONG_KEY, WRONG_TOKEN)
    for secret in (each.encode() for each in secrets):
        assert secret not in log
        assert not [heard for heard in talking.heard if secret in heard]
        holding = [each for each in files if secret in each.read_bytes()]
        assert [each.name for each in holding] in ([], ["keys.json"] if secret == PROVIDER_KEY.encode() else [])
        for each in holding:
            assert stat.S_IMODE(each.stat().st_mode) == 0o600


async def test_what_is_known_of_installs_is_their_owners_to_read(talking: Talking) -> None:
    """Spec §11, row 20."""
    register(talking, authorization=f"Bearer {SERVER_TOKEN}")
    windie = talking.served.folder / "data" / "windie"
    assert stat.S_IMODE((windie / "installs").stat().st_mode) == 0o700
    for each in (windie / "installs").iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each
