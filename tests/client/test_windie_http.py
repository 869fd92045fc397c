"""Where a Windie client finds its server, and what it asks it over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.client.windie import AgentSdkClient, ConnectionLost, Refused
from dragoman.client.windie.addresses import resolved
from tests.client.windie_fake import http_server

HOSTED = ("https://api.windieos.com", "wss://api.windieos.com/ws")


@pytest.mark.parametrize(
    ("environment", "http", "socket"),
    [
        ({}, *HOSTED),
        ({"BACKEND_HTTP_URL": "http://h:1/"}, "http://h:1", "ws://h:1/ws"),
        ({"BACKEND_HTTP_URL": "https://h/base"}, "https://h/base", "wss://h/base/ws"),
        ({"BACKEND_WS_URL": "wss://h/a/ws"}, "https://h/a", "wss://h/a/ws"),
        ({"BACKEND_WS_URL": "ws://s/ws", "BACKEND_HTTP_URL": "http://h"}, "http://h", "ws://s/ws"),
        ({"BACKEND_HOST": "h"}, "http://h:8765", "ws://h:8765/ws"),
        ({"BACKEND_PORT": "99"}, "http://127.0.0.1:99", "ws://127.0.0.1:99/ws"),
        ({"BACKEND_HOST": "::1", "BACKEND_PORT": "99"}, "http://[::1]:99", "ws://[::1]:99/ws"),
        ({"BACKEND_HOST": "h", "BACKEND_HTTP_URL": "http://other"}, "http://other", "ws://other/ws"),
        ({"BACKEND_WS_URL": "", "BACKEND_HOST": ""}, *HOSTED),
    ],
)
def test_the_environment_says_where_the_server_is(environment: dict[str, str], http: str, socket: str) -> None:
    found = resolved(None, None, environment)
    assert (found.http, found.socket) == (http, socket)


def test_an_argument_hides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKEND_WS_URL", "ws://elsewhere/ws")
    assert AgentSdkClient("http://here:1").addresses.socket == "ws://here:1/ws"
    assert AgentSdkClient(ws_url="ws://here:1/ws").addresses.http == "http://here:1"
    assert AgentSdkClient().addresses.socket == "ws://elsewhere/ws"


@pytest.mark.parametrize("url", ["here:1", "ftp://here", "http://", "http://h:port"])
def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(ValueError, match=r"address|[Pp]ort"):
        AgentSdkClient(url)


async def test_prompt_schemas_and_plan() -> None:
    plan = {"user_query_raw": "open file", "conversation_ref": "conv_sdk", "messages": []}
    answers = {
        "GET /base/api/sdk/system-prompt": {"system_prompt": "You are"},
        "GET /base/api/sdk/tool-schemas": {"canonical_tool_schemas": [], "provider_tool_schemas": []},
        "POST /base/api/sdk/query-plan": {"query_message": {"type": "query"}},
    }
    with http_server(answers) as (url, http):
        sdk = AgentSdkClient(f"{url}/base", install_token="wnd_install_x")
        assert await sdk.get_system_prompt() == {"system_prompt": "You are"}
        assert await sdk.get_tool_schemas(interaction_mode="chat", model_id=None) == {
            "canonical_tool_schemas": [],
            "provider_tool_schemas": [],
        }
        assert await sdk.get_query_plan(plan) == {"query_message": {"type": "query"}}
    assert [path for _, path, _, _ in http.asked][1] == "/base/api/sdk/tool-schemas?interaction_mode=chat"
    assert {headers["authorization"] for _, _, headers, _ in http.asked} == {"Bearer wnd_install_x"}


async def test_a_registered_client_goes_by_its_token() -> None:
    mine = {"success": True, "user_id": "user_1", "install_id": "i", "install_token": "wnd_install_new"}
    with http_server({"POST /api/install/register": mine, "GET /api/sdk/models": {"models": []}}) as (url, http):
        sdk = AgentSdkClient(url)
        assert await sdk.register("Linux") == mine
        await sdk.get_models()
    (_, _, first, body), (_, _, second, _) = http.asked
    assert body == b'{"operating_system": "Linux"}'
    assert "authorization" not in first
    assert second["authorization"] == "Bearer wnd_install_new"
    assert sdk.default_user_id == "user_1"


async def test_a_file_goes_up_and_comes_back(tmp_path: Path) -> None:
    picture = tmp_path / 'my "shot".png'
    picture.write_bytes(b"\x89PNG\r\n--data")
    stored = {"artifact_id": "x.png", "content_type": "image/png", "size_bytes": 12}
    answers = {"POST /api/artifacts/": stored, "GET /api/artifacts/x.png": b"\x89PNG"}
    with http_server(answers) as (url, http):
        sdk = AgentSdkClient(url)
        assert await sdk.upload_artifact(picture) == stored
        fetched = await sdk.fetch_artifact("x.png")
    assert (fetched.content_type, fetched.data) == ("image/png", b"\x89PNG")
    _, _, headers, body = http.asked[0]
    kind, _, mark = headers["content-type"].partition("; boundary=")
    head, _, rest = body.partition(b"\r\n\r\n")
    assert kind == "multipart/form-data"
    assert head.decode().split("\r\n") == [
        f"--{mark}",
        'Content-Disposition: form-data; name="file"; filename="my %22shot%22.png"',
        "Content-Type: image/png",
    ]
    assert rest == b"\x89PNG\r\n--data" + f"\r\n--{mark}--\r\n".encode()


async def test_a_refusal_says_what_the_server_said() -> None:
    several = (409, {"detail": {"message": "two match", "resolver_payload": {"candidates": []}}})
    answers = {
        "GET /api/sdk/system-prompt": (401, {"detail": "Missing install bearer token"}),
        "POST /api/sdk/query-plan": (422, {"detail": [{"loc": ["body", "messages"], "msg": "Field required"}]}),
        "GET /api/sdk/models": several,
        "GET /api/sdk/tool-schemas": b"<html>",
    }
    with http_server(answers) as (url, _):
        sdk = AgentSdkClient(url)
        with pytest.raises(Refused, match="http_401: Missing install bearer token"):
            await sdk.get_system_prompt()
        with pytest.raises(Refused, match="Field required"):
            await sdk.get_query_plan({})
        with pytest.raises(Refused, match="two match") as caught:
            await sdk.get_models()
        assert caught.value.detail["resolver_payload"] == {"candidates": []}
        with pytest.raises(Refused, match="no JSON object"):
            await sdk.get_tool_schemas()
        with pytest.raises(Refused, match="http_404"):
            await sdk.get_tool_capability("read/file")
    with pytest.raises(ConnectionLost):
        await sdk.get_models()
