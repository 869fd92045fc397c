"""Who is here and where, and what there is not, over HTTP (spec §10)."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from dragoman.services.trust import TrustSettings

from .http_rig import HOST, TOKEN, A, MakeServer, Server

CAREFUL = "---\nallow: [whitelisted, contact]\ndefault: ask\nonboard:\n  invite_code: [friends]\n---\n"


@pytest.fixture(params=["root", "prefix"])
async def served(request: pytest.FixtureRequest, make_http: MakeServer) -> Server:
    """At the root and below its prefix everything is the same."""
    return await make_http(root="onion" if request.param == "root" else None, token=TOKEN)


# Who is here


async def test_health_is_as_the_original_has_it(served: Server) -> None:
    answer = await served.get("/health")
    assert (answer.status, answer.json) == (200, {"status": "healthy", "agent": "tester", "uptime": 0})


async def test_info_says_what_clients_compare(served: Server) -> None:
    answer = await served.get("/info")
    assert answer.status == 200
    assert list(answer.json) == [
        *("name", "address", "tools", "model", "trust", "version", "skills", "accepted_inputs"),
    ]
    assert answer.json["address"] == HOST.address
    assert answer.json["name"] == "tester"
    assert answer.json["trust"] == "open"
    assert answer.json["skills"] == []
    assert answer.json["accepted_inputs"] == {
        "text": True,
        "images": True,
        "files": {"max_file_size_mb": 10, "max_files_per_request": 10},
    }


async def test_the_folder_is_not_looked_at_for_everybody_who_asks(
    served: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0
    read = served.dialect._configs.read

    async def counted(folder: Path) -> Any:
        nonlocal looked
        looked += 1
        return await read(folder)

    monkeypatch.setattr(served.dialect._configs, "read", counted)
    answers = [(await served.get(path)).status for path in ("/info", f"/api/agents/{HOST.address}") * 10]
    assert answers == [200] * 20
    assert looked < 5


@pytest.mark.parametrize(
    ("policy", "onboard"),
    [
        ("open", None),
        ("careful", None),
        ("strict", None),
        (CAREFUL, {"invite_code": True, "payment": None}),
        (CAREFUL.replace("friends", "$NOT_SET"), None),
        # nobody here can tell whether somebody has paid
        (CAREFUL.replace("invite_code: [friends]", "payment: 10"), None),
    ],
    ids=["open", "careful", "strict", "code", "unset", "payment"],
)
async def test_only_doors_that_can_open_are_offered(make_http: MakeServer, policy: str, onboard: Any) -> None:
    server = await make_http(trust=TrustSettings(policy=policy))
    assert (await server.get("/info")).json.get("onboard") == onboard


async def test_a_client_that_takes_the_server_for_a_relay_finds_the_agent(served: Server) -> None:
    before = served.registry.clock.now() / 1000
    answer = await served.get(f"/api/agents/{HOST.address}")
    place = f"127.0.0.1:{served.port}{served.prefix}"
    assert answer.json["online"] is True
    assert answer.json["endpoints"] == [f"http://{place}", f"ws://{place}/ws"]
    assert answer.json["last_seen"] >= before
    assert answer.json["profile"]["alias"] == "tester"


async def test_an_endpoint_is_where_the_client_came_to(served: Server) -> None:
    answer = await served.get(f"/api/agents/{HOST.address}", host=f"localhost:{served.port}")
    assert answer.json["endpoints"][0] == f"http://localhost:{served.port}{served.prefix}"
    refused = await served.get(f"/api/agents/{HOST.address}", host="evil.example")
    assert refused.status == 403


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST:80", "localhost:80"),
        ("[::1]:80", "[::1]:80"),
        ("localhost:evil", "localhost"),
    ],
    ids=range(4),
)
async def test_nothing_but_name_and_port_is_taken_from_the_host_header(served: Server, host: str, shown: str) -> None:
    answer = await served.get(f"/api/agents/{HOST.address}", host=host)
    assert answer.json["endpoints"][0] == f"http://{shown}{served.prefix}"


@pytest.mark.parametrize(
    "host",
    ["evil.example@localhost:80", "localhost:80/evil", "localhost:80?x=1", "localhost#", "localhost\\evil"],
    ids=range(5),
)
async def test_a_host_header_that_says_more_than_a_host_is_refused(served: Server, host: str) -> None:
    assert (await served.get(f"/api/agents/{HOST.address}", host=host)).status == 403


@pytest.mark.parametrize("address", [A.address, "", "x", "0x", HOST.address + "0", HOST.address[:-1], "%00", "a/b"])
async def test_there_is_no_other_agent(served: Server, address: str) -> None:
    assert (await served.get(f"/api/agents/{address}")).error == (404, "not found")


async def test_the_page_about_it_brings_everything_along(served: Server) -> None:
    answer = await served.get("/docs")
    page = answer.body.decode()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert HOST.address in page
    for path in ("/ws", "/input", "/sessions", "/health", "/info", "/api/agents/{address}", "CONNECT", "OUTPUT"):
        assert path in page
    assert not re.search(r"<script|src=|href=|@import|url\(|https?://", page)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert f"style-src 'sha256-{digest}'" in policy


# What there is not


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(
            ("GET", path)
            for path in ("/", "/nope", "/ws", "/ws/", "/ws/input", "/input", "/health/", "/Health", "/admin")
        ),
        *(("POST", path) for path in ("/health", "/info", "/sessions", "/docs", "/admin/logs", "/nope")),
        *((method, "/input") for method in ("PUT", "DELETE", "PATCH")),
        ("GET", "/admin/nope"),
        ("DELETE", "/sessions/x"),
    ],
)
async def test_what_is_not_there_is_not_found(served: Server, method: str, path: str) -> None:
    assert (await served.get(path, method)).error == (404, "not found")


async def test_head_is_get_without_a_body(served: Server) -> None:
    answer = await served.get("/health", "HEAD")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("path", ["/input", "/sessions", "/nope", "/admin/trust/promote"])
async def test_options_are_told_of_every_path_and_no_origin_is_let_in(served: Server, path: str) -> None:
    answer = await served.get(path, "OPTIONS")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"
    assert "authorization, content-type" in answer.headers["access-control-allow-headers"]
    assert "access-control-allow-origin" not in answer.headers


async def test_an_origin_is_echoed_only_if_it_passes(served: Server) -> None:
    """Invariant 11."""
    own = f"http://127.0.0.1:{served.port}"
    assert (await served.get("/info", origin=own)).headers["access-control-allow-origin"] == own
    for origin in ("https://evil.example", "null"):
        answer = await served.get("/info", origin=origin)
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers


async def test_answers_are_kept_by_nobody(served: Server) -> None:
    for path in ("/info", "/health", "/docs", "/sessions", "/nope"):
        answer = await served.get(path)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
