"""Feedback and its screenshots (spec §3.6): kept within bounds, and no id or name of a client's is a path."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.cin.api import Api, served

BUG = {"type": "bug", "description": "d", "viewportWidth": 1, "viewportHeight": 1, "userAgent": "u"}
SETTINGS = "feedback_entries = 3\nscreenshot_bytes = 4096\nfeedback_bytes = 6000\nfeedback_entry_bytes = 20000\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with served(tmp_path_factory.mktemp("feedback"), settings=SETTINGS) as api:
        yield api


@pytest.fixture
def api(server: Api) -> Api:
    """A server without feedback."""
    for entry in server.good("GET", "/feedback")["feedback"]:
        server.good("DELETE", f"/feedback/{entry['id']}")
    if kept(server).exists():
        for left in kept(server).iterdir():
            left.unlink()
    return server


def png(more: int = 0) -> bytes:
    """A picture of one pixel, ``more`` bytes longer than it must be."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0")) + bytes(more)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def given(api: Api, **more: Any) -> dict[str, Any]:
    entry: dict[str, Any] = api.good("POST", "/feedback", {**BUG, **more}, 201)["feedback"]
    return entry


def kept(api: Api) -> Path:
    return api.bridge.home.parent / "data" / "cin" / "feedback"


def test_feedback_is_kept_as_the_original_answers_it(api: Api) -> None:
    entry = given(api)

    assert entry == {
        "id": entry["id"],
        "type": "bug",
        "description": "d",
        "timestamp": entry["createdAt"],
        "recentEvents": [],
        "consoleErrors": [],
        "viewportWidth": 1,
        "viewportHeight": 1,
        "userAgent": "u",
        "processed": False,
        "createdAt": entry["createdAt"],
        "updatedAt": entry["createdAt"],
    }
    assert api.good("GET", f"/feedback/{entry['id']}")["feedback"] == entry
    assert api.good("GET", "/feedback")["feedback"] == [entry]
    assert api.good("GET", "/feedback/unprocessed")["feedback"] == [entry]


@pytest.mark.parametrize("form", ["", "data:image/png;base64,"])
def test_a_screenshot_comes_back_as_it_was_and_as_nothing_but_a_picture(api: Api, form: str) -> None:
    entry = given(api, screenshot=form + encoded(png()))

    reply = api.get("/" + entry["screenshotPath"])
    assert (reply.status, reply.headers["content-type"], reply.body) == (200, "image/png", png())
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in reply.headers["content-security-policy"]
    assert reply.headers["cross-origin-resource-policy"] == "same-site"
    picture = kept(api) / f"{entry['id']}.png"
    assert picture.stat().st_mode & 0o777 == 0o600
    assert kept(api).stat().st_mode & 0o777 == 0o700

    api.good("DELETE", f"/feedback/{entry['id']}")
    assert list(kept(api).iterdir()) == []
    api.get("/" + entry["screenshotPath"]).failed(404)


def test_feedback_without_a_screenshot_has_none(api: Api) -> None:
    entry = given(api)
    assert "screenshotPath" not in entry
    api.get(f"/feedback/{entry['id']}/screenshot").failed(404, "Screenshot not found")


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ({"type": None}, 400, "Missing type"),
        ({"description": None}, 400, "Missing type or description"),
        ({"description": "  "}, 400, "Missing type or description"),
        ({"type": "praise"}, 400, "Invalid fields"),
        ({"description": 5}, 400, "Invalid fields"),
        ({"description": "x" * 10_001}, 400, "longer than"),
        ({"viewportWidth": -1}, 400, "viewport"),
        ({"viewportWidth": 1e300}, 400, "viewport"),
        ({"userAgent": "u" * 501}, 400, "userAgent is longer"),
        ({"recentEvents": ["x" * 2000] * 100}, 413, "larger than 20000"),
        ({"screenshot": "not base64!"}, 400, "PNG"),
        ({"screenshot": encoded(b"GIF89a")}, 400, "PNG"),
        ({"screenshot": encoded(b"<svg onload=alert(1)>")}, 400, "PNG"),
        ({"screenshot": "data:image/svg+xml;base64," + encoded(b"<svg/>")}, 400, "PNG"),
        ({"screenshot": encoded(png(4096))}, 413, "larger than 4096"),
        ({"screenshot": "A" * 1_000_000}, 413, "larger than 4096"),
        ({"screenshot": 5}, 400, "Invalid fields"),
    ],
)
def test_what_is_no_feedback_is_refused_and_nothing_is_kept(
    api: Api, more: dict[str, Any], status: int, words: str
) -> None:
    api.ask("POST", "/feedback", {**BUG, **more}).failed(status, words)
    assert api.good("GET", "/feedback")["total"] == 0
    assert not kept(api).exists() or list(kept(api).iterdir()) == []


def test_what_a_page_saw_is_kept_though_it_holds_control_characters(api: Api) -> None:
    entry = given(api, consoleErrors=["\u001b[31mred\u001b[0m", "x" * 3000], recentEvents=[str(n) for n in range(150)])

    assert entry["consoleErrors"] == ["\u001b[31mred\u001b[0m", "x" * 2000]
    assert entry["recentEvents"] == [str(n) for n in range(50, 150)]


def test_the_oldest_goes_when_there_are_too_many(api: Api) -> None:
    entries = [given(api, description=str(number)) for number in range(5)]

    assert [each["description"] for each in api.good("GET", "/feedback")["feedback"]] == ["4", "3", "2"]
    assert {path.stem for path in kept(api).iterdir()} == {each["id"] for each in entries[2:]}


def test_the_oldest_goes_when_pictures_are_too_large_together(api: Api) -> None:
    first = given(api, description="first", screenshot=encoded(png(3900)))
    given(api, description="second")
    given(api, description="third", screenshot=encoded(png(3900)))

    assert [each["description"] for each in api.good("GET", "/feedback")["feedback"]] == ["third", "second"]
    assert not (kept(api) / f"{first['id']}.png").exists()


def test_feedback_is_listed_by_type_state_session_and_page(api: Api) -> None:
    given(api, sessionId="s1")
    works = given(api, type="works")
    improve = given(api, type="improve", sessionId="s1")
    api.good("PATCH", f"/feedback/{works['id']}", {"processed": True})

    def types(query: str) -> list[str]:
        return [each["type"] for each in api.good("GET", f"/feedback?{query}")["feedback"]]

    assert types("") == ["improve", "works", "bug"]
    assert types("type=bug") == ["bug"]
    assert types("type=none") == []
    assert types("processed=true") == ["works"]
    assert types("processed=false") == ["improve", "bug"]
    assert types("sessionId=s1") == ["improve", "bug"]
    assert types("limit=1") == ["improve"]
    assert types("limit=1&offset=1") == ["works"]
    assert types("offset=9") == []
    assert api.good("GET", "/feedback?limit=1")["total"] == 3
    page = api.good("GET", "/feedback/unprocessed?limit=1&offset=1")
    assert ([each["type"] for each in page["feedback"]], page["total"]) == (["bug"], 2)
    assert [each["type"] for each in api.good("GET", "/feedback/unprocessed")["feedback"]] == ["improve", "bug"]
    for query in ("limit=-1", "limit=x", "offset=x", "processed=maybe"):
        api.get(f"/feedback?{query}").failed(400)
    assert improve["type"] == "improve"


def test_agents_that_work_through_it_say_how_far_they_are(api: Api) -> None:
    entry = given(api)
    changes = {"processed": True, "githubIssueNumber": 7, "fixerStatus": "working", "fixerMessage": "a\nb"}

    changed = api.good("PATCH", f"/feedback/{entry['id']}", {**changes, "id": "other", "description": "other"})[
        "feedback"
    ]
    assert changed == {**entry, **changes, "updatedAt": changed["updatedAt"]}
    assert api.good("GET", f"/feedback/{entry['id']}/status") == {"ok": True, "id": entry["id"], **changes}
    for body in ({"processed": "yes"}, {"fixerMessage": "x" * 2001}, {"githubIssueNumber": "7"}, "[", "[]"):
        api.ask("PATCH", f"/feedback/{entry['id']}", body).failed(400)


def test_feedback_outlives_the_server_and_what_was_not_finished_does_not(api: Api) -> None:
    entries = [given(api, description="one", screenshot=encoded(png())), given(api, description="two")]
    (kept(api) / "half.png").write_bytes(png())
    (kept(api) / "broken.json").write_text("{")
    (kept(api) / "renamed.json").write_text((kept(api) / f"{entries[1]['id']}.json").read_text())
    api.close()
    api.bridge.kill()
    asyncio.run(api.bridge.start())
    api.connected()

    assert api.good("GET", "/feedback")["feedback"] == entries[::-1]
    assert api.get("/" + entries[0]["screenshotPath"]).body == png()
    assert not (kept(api) / "half.png").exists()
    api.get("/feedback/broken").failed(404)
    api.get("/feedback/renamed").failed(404)


def test_no_id_is_a_path(api: Api) -> None:
    given(api, screenshot=encoded(png()))
    (kept(api).parent / "secret.json").write_text(json.dumps({"secret": True}))
    (kept(api).parent / "secret.png").write_bytes(png())
    names = (
        "..",
        ".",
        "%2e%2e",
        "..%2fsecret",
        "%2e%2e%2fsecret",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "..%5csecret",
        "%00",
        "secret%00",
        "%e2%80%ae",
        "%ef%bc%8e%ef%bc%8e%ef%bc%8fsecret",
        "x" * 5000,
        "feedback",
        "*",
    )
    for name in names:
        for method, path in (
            ("GET", f"/feedback/{name}"),
            ("GET", f"/feedback/{name}/screenshot"),
            ("GET", f"/feedback/{name}/status"),
            ("PATCH", f"/feedback/{name}"),
            ("DELETE", f"/feedback/{name}"),
        ):
            reply = api.ask(method, path, {"processed": True} if method == "PATCH" else None)
            reply.failed(404)
            assert "secret" not in str(reply.body)
    api.get("/feedback/%ff").failed(400, "decoded")
    assert (kept(api).parent / "secret.json").exists()
    assert (kept(api).parent / "secret.png").exists()


def test_settings_of_what_is_not_here_are_shown_and_cannot_be_changed(api: Api) -> None:
    config = api.good("GET", "/feedback/config")["config"]
    assert config == {"enabled": True, "githubRepo": "", "autoFixEnabled": False, "validationEnabled": False}
    assert api.good("PATCH", "/feedback/config", {"enabled": True})["config"] == config
    api.ask("PATCH", "/feedback/config", {"autoFixEnabled": True}).failed(409)

    validation = api.good("GET", "/feedback/validation/config")["config"]
    assert validation["commands"] == []
    assert set(validation["skip"]) == {"build", "test", "lint", "typecheck"}
    api.ask("PATCH", "/feedback/validation/config", {"commands": ["touch /tmp/owned"]}).failed(409)
    api.ask("PATCH", "/feedback/validation/config", "[").failed(400)
    assert api.good("GET", "/feedback/validation/config")["config"] == validation
