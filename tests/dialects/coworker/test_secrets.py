"""Keys are in no frame and no log line, whatever a provider says of them; and no web page may open a socket."""

from __future__ import annotations

import json

import pytest
from websockets.exceptions import InvalidStatus

from dragoman.client.errors import Denied
from tests.agents.native.model_server import serving
from tests.agents.native.model_server.script import Answer, Broken, Failure, Say

from .conftest import MakeServer
from .rig import Coworker, raw_link

KEY = "sk-proj-planted-0123456789"
TOKEN = "token-planted-0123456789"


async def test_a_key_that_its_provider_says_aloud_is_in_no_frame_and_no_log_line(make_server: MakeServer) -> None:
    """Invariant 10. Beside the key itself, its halves: what is cut off must not show the rest."""
    async with serving() as models:
        env = {"OPENAI_BASE_URL": f"{models.url}/v1"}
        served = await make_server("--log-level", "debug", env=env)
        async with served.client() as link:
            await link.connected()
            wrong = await link.client.set_key("openai", KEY, method="api_key")
            assert wrong["ok"]
            await link.client.set_model("scripted-1", "openai")
            for answer in (
                Failure("unauthorized", f"Incorrect API key provided: {KEY}."),
                Failure("invalid", json.dumps({"headers": {"authorization": f"Bearer {KEY}"}})),
                Answer((Say(("so far",)),), broken=Broken(f"{KEY} is out of quota")),
            ):
                models.script(answer)
                frames = await link.turn("go")
                assert [frame["code"] for frame in frames if frame["type"] == "error"], "the turn has failed"
            await link.client.provider_status()
            assert any(KEY in value for entry in models.journal for value in entry.headers.values()), "it was used"
            said = json.dumps(link.frames)
            log = await served.whole_log(link.client.session)
        for text in (said, json.dumps(log), served.log.read_text()):
            assert KEY not in text
            assert KEY[:16] not in text
            assert KEY[-10:] not in text


async def test_a_token_is_wanted_and_is_in_no_frame_and_no_log_line(make_server: MakeServer) -> None:
    served = await make_server("--log-level", "debug", env={"DRAGOMAN_TOKEN": TOKEN})
    for token in (None, "wrong-0123456789"):
        with pytest.raises(Denied) as denied:
            async with served.client(token=token):
                pass
        assert denied.value.status == 401
    async with served.client(token=TOKEN) as link, served.client(url=f"{served.url}?token={TOKEN}") as other:
        for one in (link, other):
            await one.connected()
            await one.client.ping()
            assert TOKEN not in json.dumps(one.frames)
    log = served.log.read_text()
    assert TOKEN not in log
    assert "wrong-0123456789" not in log


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
async def test_a_foreign_origin_is_refused(served: Coworker, origin: str) -> None:
    """Spec 13 #40: the original let every web page in."""
    with pytest.raises(InvalidStatus) as refused:
        async with raw_link(served.url, origin=origin):
            pass
    assert refused.value.response.status_code == 403


async def test_the_servers_own_origin_may_open_a_socket(served: Coworker) -> None:
    async with raw_link(served.url, origin=f"http://127.0.0.1:{served.ready['port']}") as socket:
        assert json.loads(await socket.recv())["type"] == "server_hello"
