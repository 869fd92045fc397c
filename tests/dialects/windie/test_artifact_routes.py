"""Artifacts over HTTP: taken, given back in parts, and nobody else's (seed: Artifacts; spec §8)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .http_rig import BOUNDARY, FORM, PNG, WindieServer, form, serving_windie

UPLOAD = "/api/artifacts/"


def left(server: WindieServer) -> list[str]:
    """The files of artifacts that lie there."""
    folder = server.data / "windie" / "artifacts"
    return sorted(file.name for place in ("new", "kept") for file in (folder / place).glob("*"))


async def until(holds_now: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds_now():
            await asyncio.sleep(0.005)


async def test_what_was_uploaded_is_fetched_at_its_url(closed_server: WindieServer) -> None:
    token = (await closed_server.register())["install_token"]
    reply = await closed_server.upload(PNG, token)
    kept = reply.json
    assert reply.status == 200
    assert re.fullmatch(r"[0-9a-f]{32}\.png", kept["artifact_id"])
    base = f"http://127.0.0.1:{closed_server.port}/windie"
    assert kept == {
        "artifact_id": kept["artifact_id"],
        "content_type": "image/png",
        "size_bytes": len(PNG),
        "sha256": hashlib.sha256(PNG).hexdigest(),
        "url": f"{base}/api/artifacts/{kept['artifact_id']}",
    }
    fetched = await closed_server.get(kept["url"].removeprefix(base), token)
    assert (fetched.status, fetched.body) == (200, PNG)
    assert fetched.headers["content-type"] == "image/png"
    assert fetched.headers["etag"] == f'"{kept["sha256"]}"'
    assert fetched.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in fetched.headers["content-security-policy"]
    assert fetched.headers["content-disposition"] == f'inline; filename="{kept["artifact_id"]}"'


async def test_at_the_root_its_url_has_no_prefix(tmp_path: Path) -> None:
    async with serving_windie(tmp_path, server={"dialect": "windie"}) as server:
        reply = await asyncio.to_thread(_plain, server.port, "POST", "/api/artifacts/", form(PNG))
        assert f'"url":"http://127.0.0.1:{server.port}/api/artifacts/'.encode() in reply


async def test_another_ones_is_as_one_that_is_not_there(closed_server: WindieServer) -> None:
    mine, others = [(await closed_server.register())["install_token"] for _ in range(2)]
    name = (await closed_server.upload(PNG, mine)).json["artifact_id"]
    there = await closed_server.get(UPLOAD + name, others)
    nowhere = await closed_server.get(f"{UPLOAD}{'0' * 32}.png", others)
    seeds = await closed_server.get(f"{UPLOAD}shot.png", others)
    assert there.refused == nowhere.refused == seeds.refused == (404, "Artifact not found")
    assert there.headers.keys() == nowhere.headers.keys()
    assert (await closed_server.get(UPLOAD + name, mine)).status == 200


@pytest.mark.parametrize("name", ["%2e%2e", "..%5c..", "a%00b", ".hidden", "x" * 200, "%ff", "a%20b"])
async def test_what_is_no_id_is_told_so(open_server: WindieServer, name: str) -> None:
    assert (await open_server.get(UPLOAD + name)).refused == (400, "Invalid artifact id")


@pytest.mark.parametrize(
    ("asked", "status", "body", "told"),
    [
        ("bytes=0-7", 206, PNG[:8], f"bytes 0-7/{len(PNG)}"),
        ("bytes=-4", 206, PNG[-4:], f"bytes {len(PNG) - 4}-{len(PNG) - 1}/{len(PNG)}"),
        ("bytes=4-", 206, PNG[4:], f"bytes 4-{len(PNG) - 1}/{len(PNG)}"),
        ("bytes=1-2,4-5", 200, PNG, None),
        ("lines=1-2", 200, PNG, None),
    ],
)
async def test_parts(open_server: WindieServer, asked: str, status: int, body: bytes, told: str | None) -> None:
    name = (await open_server.upload(PNG)).json["artifact_id"]
    reply = await open_server.get(UPLOAD + name, range=asked)
    assert (reply.status, reply.body, reply.headers.get("content-range")) == (status, body, told)
    head = await open_server.get(UPLOAD + name, method="HEAD", range=asked)
    assert (head.status, head.body, head.headers["content-length"]) == (status, b"", str(len(body)))


async def test_a_part_that_is_not_there(open_server: WindieServer) -> None:
    name = (await open_server.upload(PNG)).json["artifact_id"]
    reply = await open_server.get(UPLOAD + name, range=f"bytes={len(PNG)}-")
    assert reply.refused == (416, "Range not satisfiable")
    assert reply.headers["content-range"] == f"bytes */{len(PNG)}"


async def test_what_the_client_has_is_not_sent_again(open_server: WindieServer) -> None:
    kept = (await open_server.upload(PNG)).json
    path, tag = UPLOAD + kept["artifact_id"], f'"{kept["sha256"]}"'
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        reply = await open_server.get(path, if_none_match=known)
        assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", tag)
    assert (await open_server.get(path, if_none_match='"other"')).status == 200
    assert (await open_server.get(path, range="bytes=0-0", if_range=tag)).status == 206
    assert (await open_server.get(path, range="bytes=0-0", if_range='"other"')).status == 200


async def test_one_of_many_pieces_comes_back_whole(open_server: WindieServer) -> None:
    data = PNG + bytes(range(256)) * 12_000  # 3 MB
    kept = (await open_server.upload(data)).json
    assert (kept["size_bytes"], kept["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert (await open_server.get(UPLOAD + kept["artifact_id"])).body == data


END = f"--{BOUNDARY}--\r\n".encode()
TWICE = form(PNG).removesuffix(END) + form(PNG)


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (form(PNG, field="files"), 422, [{"loc": ["body", "files"], "msg": "unknown field", "type": "value_error"}]),
        (END, 422, [{"loc": ["body", "file"], "msg": "Field required", "type": "missing"}]),
        (TWICE, 422, [{"loc": ["body", "file"], "msg": "given more than once", "type": "value_error"}]),
        (form(PNG).replace(b'; filename="shot.png"', b""), 422, None),
        (form(b"<svg/>"), 415, None),
        (form(b""), 415, None),
        (form(PNG).removesuffix(END), 400, "There was an error parsing the body"),
        (b"", 400, "There was an error parsing the body"),
        (b"no form", 400, "There was an error parsing the body"),
    ],
)
async def test_a_form_that_is_not_one_file(open_server: WindieServer, body: bytes, status: int, detail: Any) -> None:
    reply = await open_server.post(UPLOAD, body, **FORM)
    assert reply.status == status, reply
    if detail is not None:
        assert reply.refused[1] == detail
    assert left(open_server) == []


@pytest.mark.parametrize(
    ("content_type", "refused"),
    [
        ("application/json", (415, "Content-Type must be multipart/form-data")),
        ("multipart/form-data", (400, "Missing boundary in multipart.")),
        (f"multipart/form-data; boundary={'b' * 300}", (400, "There was an error parsing the body")),
    ],
)
async def test_a_body_that_is_no_form(open_server: WindieServer, content_type: str, refused: Any) -> None:
    assert (await open_server.post(UPLOAD, form(PNG), content_type=content_type)).refused == refused


async def test_too_large_and_too_much(tmp_path: Path) -> None:
    limits = {"size": 100_000, "per_owner": 150_000}
    async with serving_windie(tmp_path, owned_artifacts=limits) as server:
        assert (await server.upload(PNG + bytes(100_001 - len(PNG)))).status == 413
        assert (await server.upload(PNG + bytes(300_000))).status == 413  # more than any form of one may have
        assert left(server) == []
        assert (await server.upload(PNG + bytes(100_000 - len(PNG)))).status == 200
        assert (await server.upload(PNG + bytes(60_000))).status == 413
        assert len(left(server)) == 1


async def test_the_servers_limit_of_bodies_does_not_hold_for_artifacts(tmp_path: Path) -> None:
    async with serving_windie(tmp_path, server={"max_body": 10_000}) as server:
        assert (await server.upload(PNG + bytes(20_000))).status == 200


async def test_a_client_that_goes_away_in_the_middle_leaves_nothing(open_server: WindieServer) -> None:
    whole = form(PNG + bytes(3_000_000))
    with socket.create_connection(("127.0.0.1", open_server.port)) as client:
        client.sendall(_head("POST", "/windie/api/artifacts/", len(whole)) + whole[:2_500_000])
        await until(lambda: left(open_server) != [])
    await until(lambda: left(open_server) == [])
    assert (await open_server.upload(PNG)).status == 200


async def test_whoever_does_not_read_on_leaves_no_file_open(open_server: WindieServer) -> None:
    data = PNG + bytes(20_000_000)
    name = (await open_server.upload(data)).json["artifact_id"]
    with socket.create_connection(("127.0.0.1", open_server.port)) as client:
        client.sendall(_head("GET", f"/windie/api/artifacts/{name}", 0))
        await until(lambda: _is_open(name))
    await until(lambda: not _is_open(name))


async def test_one_that_comes_too_slowly_is_refused(open_server: WindieServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.dialects.bodies.FIRST_SECONDS", 0.2)
    whole = form(PNG)
    reply = await asyncio.to_thread(_unfinished, open_server.port, _head("POST", "/windie/api/artifacts/", 900) + whole)
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert left(open_server) == []


async def test_no_more_are_taken_at_once_than_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.dialects.windie.routes.PLACE_SECONDS", 0.2)
    async with serving_windie(tmp_path, windie={"uploads": 1}) as server:
        whole = form(PNG + bytes(3_000_000))
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(_head("POST", "/windie/api/artifacts/", len(whole)) + whole[:2_500_000])
            await until(lambda: left(server) != [])
            reply = await server.upload(PNG)
            assert reply.refused == (503, "Too many artifacts are uploaded at once")
            assert reply.headers["retry-after"] == "30"
            client.sendall(whole[2_500_000:])
            assert (await asyncio.to_thread(client.recv, 12)) == b"HTTP/1.1 200"
        assert (await server.upload(PNG)).status == 200


def _is_open(name: str) -> bool:
    """Whether this process has the artifact's file open."""
    opened = []
    for number in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed since
            opened.append(number.readlink().name)
    return name in opened


def _head(method: str, path: str, length: int) -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-type: {FORM['content_type']}")
    return "\r\n".join((*lines, f"content-length: {length}", "connection: close", "", "")).encode()


def _plain(port: int, method: str, path: str, body: bytes) -> bytes:
    """One request whose address is not below a prefix."""
    head = _head(method, path, len(body)).replace(b"host: 127.0.0.1", f"host: 127.0.0.1:{port}".encode())
    return _unfinished(port, head + body)


def _unfinished(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(data)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer
