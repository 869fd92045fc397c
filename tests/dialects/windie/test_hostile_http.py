"""HTTP clients that are broken or mean harm: each is answered in the dialect's own form, or cut off; nothing is left of
what was refused, and nobody learns what is not theirs (invariants 8, 10, 11 and 12)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import socket
import sqlite3
import string
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.dialects import bodies
from tests.faults.process import eventually

from . import anything
from .contract_routes import ARTIFACTS, REGISTER, ROWS, RUNS_KEY_HEADER, UNKNOWN_ARTIFACT, UNKNOWN_RUN, Row
from .http_rig import BOUNDARY, PNG, RUNS_KEY, WindieServer, form, serving_windie
from .raw_http import Answer, Header, head, said, say, whole

WITH_JSON = [row for row in ROWS if row.method == "POST" and row not in ARTIFACTS]

ARTIFACT_FORM = f"multipart/form-data; boundary={BOUNDARY}"

KEY: Header = (RUNS_KEY_HEADER, RUNS_KEY)
AS_JSON: Header = ("Content-Type", "application/json")
AS_FORM: Header = ("Content-Type", ARTIFACT_FORM)

MIB = 1024 * 1024

NOT_JSON = (
    b"{", b" ", b"\x00", b"nul", b"{'a': 1}", b"[" * 100_000, b'{"a":' * 100_000, b'{"a": 1} x', b'"\\ud800"',
    b"\xff\xfe{}", b"\xef\xbb\xbf{}", b'{"a":NaN}', b'{"a":1,}', b'{"a":"\n"}', b"9" * 100_000, b'{"a":01}',
)  # fmt: skip

NO_OBJECTS = (b"null", b"true", b"0", b"-1.5e3", b'""', b'"x"', b"[]", b"[{}]", b'[["workspace_id","x"]]')

VALUES = (
    "null", "true", "false", "0", "-0", "-1", "1e308", "1e999", "0.1", "9" * 400, '""', '" "', '"x"', "[]", "{}",
    '"\\u0000"', '"\\u001b[2J"', '"\\u202egnp.exe"', '"\\ud800"', '"../../etc/passwd"', "[null]", "[[]]", "[{}]",
    '[{"role":"system","content":"x"}]', '[{"role":"user","content":5}]', '{"a":1,"a":2}', '{"a":{"b":[1,{}]}}',
    '"' + "a" * 300_000 + '"', "[" * 900 + "]" * 900, "[" + "{}," * 5000 + "{}]", "18446744073709551616",
)  # fmt: skip


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[WindieServer]:
    """One on loopback where nobody needs an install's token; no workspace is ever full."""
    async with serving_windie(tmp_path, runs={"max_active_per_workspace": 1_000_000}) as server:
        yield server


async def ask(server: WindieServer, row: Row, body: bytes | None, *headers: Header) -> Answer:
    """The row's request with this body."""
    return await said(server.port, whole(row.method, f"/windie{row.asked}", [KEY, *headers], body), method=row.method)


def well_formed(answer: Answer) -> None:
    """Assert that it is a success, or a refusal in the dialect's form."""
    assert answer.status < 500, answer
    if answer.status < 400:
        return
    detail = answer.detail
    if isinstance(detail, list):
        assert answer.status == 422, answer
        assert detail, answer
        for fault in detail:
            assert set(fault) == {"loc", "msg", "type"}, fault
            assert fault["loc"][0] in ("body", "query", "path"), fault
    else:
        assert isinstance(detail, str), answer
        assert len(answer.body) < 5000, "what was sent is not sent back"


def _being_written(server: WindieServer) -> list[Path]:
    folder = server.data / "windie" / "artifacts" / "new"
    return list(folder.iterdir()) if folder.exists() else []


def _kept(server: WindieServer) -> tuple[list[str], list[str]]:
    """The files that are kept, and the rows of the table."""
    folder = server.data / "windie" / "artifacts"
    if not (folder / "owned.sqlite").exists():
        return [], []
    with contextlib.closing(sqlite3.connect(folder / "owned.sqlite")) as connection:
        try:
            rows = sorted(row[0] for row in connection.execute("SELECT id FROM artifacts"))
        except sqlite3.OperationalError:  # it is being made
            rows = []
    return sorted(each.name for each in (folder / "kept").iterdir()), rows


async def nothing_of_it_is_left(server: WindieServer, kept: int = 0) -> None:
    """Assert that no upload is under way any more, so many are kept, and every file has its row."""
    await eventually(lambda: not _being_written(server), "nothing is being written")
    await eventually(lambda: len(_kept(server)[0]) <= kept, f"{kept} are kept")
    files, rows = _kept(server)
    assert files == rows
    assert len(files) == kept


# Bodies of JSON


@pytest.mark.parametrize("row", WITH_JSON, ids=lambda row: row.id)
async def test_what_is_no_object_is_422(server: WindieServer, row: Row) -> None:
    for body in (*NOT_JSON, *NO_OBJECTS):
        answer = await ask(server, row, body, AS_JSON)
        assert answer.status == 422, (body[:50], answer)
        well_formed(answer)
        assert answer.detail[0]["loc"][0] == "body"


def _each_field(row: Row) -> Iterator[bytes]:
    """The right body with each field being anything, missing, twice; and with one more."""
    names = sorted({*row.body, "user_id", "workspace_path", "model_id", "agent_definition", "include_tools", "x"})
    for name, value in itertools.product(names, VALUES):
        others = [f"{json.dumps(key)}:{json.dumps(other)}" for key, other in row.body.items() if key != name]
        yield "".join(("{", ",".join([*others, f'"{name}":{value}']), "}")).encode()
    for name in row.body:
        yield json.dumps({key: other for key, other in row.body.items() if key != name}).encode()
        yield f'{{"{name}":5,{json.dumps(row.body)[1:]}'.encode()
    for long in ("\u202e" * 5000, "a." * 5000, "0" * 5000, "\ud83d\ude00" * 100):
        yield json.dumps({**row.body, long: 1}).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("row", WITH_JSON, ids=lambda row: row.id)
async def test_any_field_may_be_anything(server: WindieServer, row: Row) -> None:
    for body in _each_field(row):
        answer = await ask(server, row, body, AS_JSON)
        well_formed(answer)
        assert (await ask(server, row, body, AS_JSON)).status == answer.status, "it is not worse the second time"


@pytest.mark.parametrize("row", WITH_JSON, ids=lambda row: row.id)
async def test_any_json_has_its_answer(server: WindieServer, row: Row) -> None:
    loop = asyncio.get_running_loop()
    names = st.sampled_from(sorted(row.body)) | anything.texts

    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(names, anything.json, max_size=6) | anything.json)
    def fuzz(value: Any) -> None:
        asked = ask(server, row, json.dumps(value).encode(), AS_JSON)
        well_formed(asyncio.run_coroutine_threadsafe(asked, loop).result(60))

    await asyncio.to_thread(fuzz)


@pytest.mark.parametrize("row", WITH_JSON, ids=lambda row: row.id)
async def test_a_body_of_another_type_is_not_taken_for_json(server: WindieServer, row: Row) -> None:
    """A page can send these without asking first."""
    for media in ("text/plain", "application/x-www-form-urlencoded", ARTIFACT_FORM, "application/jsonp", "x", ";"):
        answer = await ask(server, row, row.content, ("Content-Type", media))
        assert answer.status in (415, 422), (media, answer)
        well_formed(answer)


# Bodies of any kind


@pytest.mark.parametrize("row", [row for row in ROWS if row.method == "POST"], ids=lambda row: row.id)
async def test_a_body_that_is_announced_as_huge_is_refused_before_it_comes(server: WindieServer, row: Row) -> None:
    for length in ("99999999999999", "9" * 19, str(64 * MIB)):
        data = head("POST", f"/windie{row.asked}", [KEY, *row.headers, ("Content-Length", length)])
        answer = await said(server.port, data, method="POST", limit=8.0)
        assert answer.status == 413, (length, answer)
        well_formed(answer)


@pytest.mark.parametrize("row", WITH_JSON, ids=lambda row: row.id)
async def test_a_body_in_pieces_that_grows_huge_is_refused(server: WindieServer, row: Row) -> None:
    piece = b"%x\r\n" % (256 * 1024) + b" " * (256 * 1024) + b"\r\n"
    data = head("POST", f"/windie{row.asked}", [KEY, AS_JSON, ("Transfer-Encoding", "chunked")]) + piece * 9
    answer = await said(server.port, data, method="POST")
    assert answer.status == 413
    well_formed(answer)


@pytest.mark.parametrize("row", [row for row in ROWS if row.method == "POST"], ids=lambda row: row.id)
async def test_a_body_that_does_not_come_is_given_up(
    server: WindieServer, row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "FIRST_SECONDS", 0.2)
    for sent in (b"", b"{", b"--" + BOUNDARY.encode() + b"\r\n"):
        data = head("POST", f"/windie{row.asked}", [KEY, *row.headers, ("Content-Length", "1000")]) + sent
        answer = await said(server.port, data, method="POST", limit=8.0)
        assert answer.status in ((400, 408) if sent == b"{" else (408,)), answer
        well_formed(answer)
    await nothing_of_it_is_left(server)


@pytest.mark.parametrize("row", [row for row in ROWS if row.method == "POST"], ids=lambda row: row.id)
async def test_a_body_that_is_shorter_than_announced_does_nothing(server: WindieServer, row: Row) -> None:
    before = await ask(server, REGISTER, b"{}", AS_JSON)
    assert before.status == 200
    runs_before = _runs(server)
    content = row.content or b""
    data = head("POST", f"/windie{row.asked}", [KEY, *row.headers, ("Content-Length", str(len(content) + 1))])
    answer = await asyncio.to_thread(say, server.port, data + content, method="POST", then_close=True)
    assert answer is None or answer.status in (400, 408, 499), answer
    await nothing_of_it_is_left(server)
    assert _runs(server) == runs_before


def _runs(server: WindieServer) -> set[bytes]:
    folder = server.data / "windie" / "runs"
    return {each.read_bytes() for each in folder.rglob("*") if each.is_file()} if folder.exists() else set()


async def test_a_request_whose_length_is_told_in_two_ways_is_refused(server: WindieServer) -> None:
    for headers in (
        [("Content-Length", "2"), ("Transfer-Encoding", "chunked")],
        [("Content-Length", "2"), ("Content-Length", "3")],
        [("Content-Length", "-1")],
        [("Content-Length", "+2")],
        [("Content-Length", "2, 2")],
        [("Content-Length", "0x2")],
        [("Content-Length", "two")],
        [("Transfer-Encoding", "gzip, chunked, identity")],
    ):
        data = head("POST", "/windie/api/install/register", [AS_JSON, *headers]) + b"{}"
        answer = await asyncio.to_thread(say, server.port, data, method="POST", then_close=True)
        assert answer is None or answer.status >= 400, (headers, answer)


async def test_the_body_of_a_refused_request_is_never_read_as_the_next_request(closed_server: WindieServer) -> None:
    """What is refused without reading it stands before whatever comes next on that connection."""
    inner = whole("POST", "/windie/api/install/register", [AS_JSON], b"{}")
    outer = head("POST", "/windie/api/runs/", [AS_JSON, ("Content-Length", str(len(inner)))])
    heard = await asyncio.to_thread(_all_of, closed_server.port, outer + inner)
    assert heard.count(b"HTTP/1.1 ") == 1
    assert b"401" in heard.split(b"\r\n")[0]
    assert b"install_token" not in heard


def _all_of(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 20) as stream:
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
        heard = b""
        with contextlib.suppress(ConnectionError):
            while piece := stream.recv(65536):
                heard += piece
        return heard


# Paths, methods, headers

ODD_PATHS = (
    "/api/install/me/", "/api/install/me//", "/api//install/me", "/api/install//me", "/api/install/me%2f",
    "/api/install/me%00", "/api/install/me%20", "/api/install/%6de", "/api/install/me;x=1", "/api/install/ME",
    "/api/install/./me", "/api/install/x/../me", "/api/install/%2e%2e/install/me", "/api/install/%2e/me",
    "/api/install/m\u00e9", "/api/install/%ff", "/api/install/%c0%ae", "/api/install/%", "/api/install/%zz",
    "/api/artifacts", "/api/artifacts//", "/api/runs", "/api/runs//", "/api/runs/%2e%2e/install/me",
    f"/api/runs/{UNKNOWN_RUN}/", "/api/runs/a/b/c", "/api/runs/%00", "/api/runs/\u202e", "/api/runs/" + "x" * 5000,
    "/api/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/api/runs/..", "/api/runs/stop-all/", "/api/runs/workers",
    "/api/sdk", "/api/sdk/", "/api/sdk/debug/models", "/api/sdk/tool-capabilities/", "/api/sdk/tool-capabilities/a/b",
    "/api/sdk/tool-capabilities/%00", "/api/sdk/tool-capabilities/" + "x" * 5000, "/api/sdk/tool-capabilities/%F0%9F",
    "/api", "/api/", "/api/../data", "/ws/", "/wsx", "/ws/../api/install/me", "/..", "/%2e%2e/", "/*", "//", "/?/",
)  # fmt: skip


async def test_no_odd_path_is_anything_or_leads_anywhere(server: WindieServer) -> None:
    for method, path in itertools.product(("GET", "HEAD", "POST", "DELETE"), ODD_PATHS):
        target = f"/windie{path}".encode()
        answer = await asyncio.to_thread(say, server.port, whole(method, target, [KEY, AS_JSON], b"{}"), method=method)
        assert answer is not None, (method, path)
        assert 400 <= answer.status < 500, (method, path, answer)
        assert "location" not in answer.headers


async def test_odd_request_lines_have_an_answer_or_an_end(server: WindieServer) -> None:
    targets: tuple[bytes, ...] = (
        b"http://127.0.0.1/windie/api/install/me", b"http://evil.example/windie/api/install/me", b"*", b"windie/api/",
        b"evil.example:443", b"/windie/api/install/me#x", b"/windie/api/install/\xff\xfe", b"/windie\\api\\install\\me",
        b"/windie/api/install/me HTTP/1.1\r\nX: y", b"/windie/api/install/me\x00", b"/windie/api/install/\tme",
        b"/" + b"x" * 70_000,
    )  # fmt: skip
    for method, target in itertools.product(("GET", "POST", "CONNECT", "G\u00cbT", "get", "X" * 500), targets):
        data = head(method, target)
        answer = await asyncio.to_thread(say, server.port, data, method=method, then_close=True)
        assert answer is None or answer.status < 500, (method, target, answer)
        assert answer is None or b"user_id" not in answer.body
    assert (await ask(server, REGISTER, b"{}", AS_JSON)).status == 200


ALL_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


@pytest.mark.parametrize("path", sorted({row.path for row in ROWS}))
async def test_a_method_that_a_path_lacks_is_405_and_says_which_it_has(server: WindieServer, path: str) -> None:
    rows = [row for row in ROWS if row.path == path]
    has = {row.method for row in rows} | ({"HEAD"} if any(row.method == "GET" for row in rows) else set())
    for method in (each for each in ALL_METHODS if each not in has):
        data = whole(method, f"/windie{rows[0].asked}", [KEY])
        answer = await said(server.port, data, method=method)
        assert answer.status == 405, (method, answer)
        assert answer.body == b"" if method == "HEAD" else answer.detail == "Method Not Allowed"
        assert set(answer.headers["allow"].split(", ")) == has


@pytest.mark.parametrize("row", [row for row in ROWS if row.method == "GET"], ids=lambda row: row.id)
async def test_head_is_get_without_its_body(server: WindieServer, row: Row) -> None:
    got = await said(server.port, whole("GET", f"/windie{row.asked}", [KEY]))
    headed = await said(server.port, whole("HEAD", f"/windie{row.asked}", [KEY]), method="HEAD")
    assert (headed.status, headed.body) == (got.status, b"")
    varying = {"date"}
    assert {k: v for k, v in headed.headers.items() if k not in varying} == {
        k: v for k, v in got.headers.items() if k not in varying
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
async def test_foreign_pages_and_hosts_get_nothing(server: WindieServer, row: Row) -> None:
    content = row.content
    length: list[Header] = [] if content is None else [("Content-Length", str(len(content)))]
    runs_before = _runs(server)
    for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example", "http://127.0.0.1@evil.example"):
        data = whole(row.method, f"/windie{row.asked}", [KEY, *row.headers, ("Origin", origin)], content)
        answer = await said(server.port, data, method=row.method)
        assert answer.status == 403, (origin, answer)
        assert not [name for name in answer.headers if name.startswith("access-control")]
        asked: list[Header] = [("Origin", origin), ("Access-Control-Request-Method", row.method)]
        preflight = await said(server.port, head("OPTIONS", f"/windie{row.asked}", asked))
        assert preflight.status == 403
        assert not [name for name in preflight.headers if name.startswith("access-control")]
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "[::2]", "a b", "localhost\\@evil"):
        data = head(row.method, f"/windie{row.asked}", [KEY, *row.headers, *length], host=host) + (content or b"")
        refused = await asyncio.to_thread(say, server.port, data, method=row.method)
        assert refused is None or refused.status in (400, 403), (host, refused)
    for headers, own_host in (
        ([("Host", "127.0.0.1")], "127.0.0.1"),
        ([("Host", "evil.example")], "127.0.0.1"),
        ([("Origin", "http://127.0.0.1"), ("Origin", "https://evil.example")], "127.0.0.1"),
        ([], None),
    ):
        data = head(row.method, f"/windie{row.asked}", [KEY, *row.headers, *length, *headers], host=own_host)
        refused = await asyncio.to_thread(say, server.port, data + (content or b""), method=row.method)
        assert refused is None or refused.status in (400, 403), (headers, refused)
    assert _runs(server) == runs_before
    await nothing_of_it_is_left(server)


async def test_headers_that_come_twice_or_are_odd_have_an_answer(server: WindieServer) -> None:
    many: list[Header] = [(f"X-{number}", "y") for number in range(500)]
    for row, headers in itertools.product(
        ROWS,
        (
            [AS_JSON, AS_FORM],
            [("Content-Type", b"\xff"), KEY],
            [("Content-Encoding", "gzip")],
            [("Accept", "text/html"), ("Accept-Encoding", "*"), ("Accept-Language", "x" * 5000)],
            [("X-HTTP-Method-Override", "DELETE")],
            [("X-Forwarded-For", "10.0.0.1"), ("X-Forwarded-Host", "evil.example"), ("Forwarded", "host=evil")],
            many,
        ),
    ):
        data = whole(row.method, f"/windie{row.asked}", [KEY, *headers], row.content)
        answer = await asyncio.to_thread(say, server.port, data, method=row.method)
        assert answer is None or answer.status < 500, (row.id, headers[:3], answer)
        assert answer is None or b"evil" not in answer.body


async def test_queries_that_cannot_be_read_are_422_or_of_no_interest(server: WindieServer) -> None:
    odd = (
        "?user_id=%ff", "?%ff=x", "?user_id=%00", "?" + "&" * 5000, "?" + "&".join(f"a{n}=b" for n in range(500)),
        "?user_id", "?=", "?user_id=a&user_id=b", "?after_seq=-1", "?after_seq=1e3", "?after_seq=0x1", "?after_seq=",
        "?after_seq=" + "9" * 5000, "?after_seq=\u0661", "?after_seq=%201", "?after_seq=1_0", "?limit=0", "?limit=1001",
        "?limit=%31", "?limit=1&limit=2", "?limit=true", "?interaction_mode=root", "?model_id=",
        "?model_id=" + "x" * 300,
        "?model_provider=%F0%9F%98%80", "?wait_seconds=-1", "?wait_seconds=nan", "?wait_seconds=99999999999",
    )  # fmt: skip
    for row, query in itertools.product((row for row in ROWS if row.method == "GET"), odd):
        target = quote(f"/windie{row.asked}{query}", safe=string.punctuation)
        answer = await asyncio.to_thread(say, server.port, whole("GET", target, [KEY]))
        assert answer is not None, (row.id, query)
        well_formed(answer)


# Ids of others (invariant 12)


def _same(one: Answer, other: Answer, *, but: tuple[str, str]) -> None:
    """Assert that two answers tell the same; what was asked for may be in them."""
    a, b = but
    varying = ("date", "server")
    headers = [
        sorted((name, value.replace(a, b)) for name, value in each.headers.items() if name not in varying)
        for each in (one, other)
    ]
    assert (one.status, one.body.replace(a.encode(), b.encode())) == (other.status, other.body)
    assert headers[0] == headers[1]


async def test_another_users_artifact_is_as_one_that_nobody_has(closed_server: WindieServer) -> None:
    mine, theirs = [(await closed_server.register())["install_token"] for _ in range(2)]
    kept = (await closed_server.upload(PNG, theirs)).json
    name, tag = kept["artifact_id"], f'"{kept["sha256"]}"'
    bearer: Header = ("Authorization", f"Bearer {mine}")
    conditions: tuple[list[Header], ...] = (
        [],
        [("Range", "bytes=0-0")],
        [("Range", "bytes=99999-")],
        [("If-None-Match", tag)],
        [("If-None-Match", "*")],
        [("If-Range", tag), ("Range", "bytes=0-0")],
        [("If-Match", tag)],
    )
    for method, headers in itertools.product(("GET", "HEAD", "DELETE", "PUT", "POST"), conditions):
        one, other = [
            await said(
                closed_server.port,
                whole(method, f"/windie/api/artifacts/{each}", [bearer, *headers]),
                method=method,
            )
            for each in (name, UNKNOWN_ARTIFACT)
        ]
        assert one.status >= 400
        _same(one, other, but=(name, UNKNOWN_ARTIFACT))
    for odd in (f"{name}%00", f"{name}/", f"./{name}", f"{name[:-4]}.jpg", name.upper(), f"%2e%2e%2fkept%2f{name}"):
        answer = await said(closed_server.port, whole("GET", f"/windie/api/artifacts/{odd}", [bearer]))
        assert answer.status in (400, 404), (odd, answer)
        assert answer.detail in ("Invalid artifact id", "Artifact not found", "Not Found")
    assert (await closed_server.get(f"/api/artifacts/{name}", theirs)).body == PNG


async def test_a_run_of_another_worker_is_as_one_that_is_not_there(server: WindieServer) -> None:
    key = {"x_windie_runs_key": RUNS_KEY}
    made = (await server.post("/api/runs/", {"workspace_id": "w", "query": "q"}, **key)).json
    run = made["run"]["run_id"]
    beat = {"workspace_id": "w", "worker_id": "theirs", "vm_id": "v", "user_id": "u"}
    assert (await server.post("/api/runs/workers/heartbeat", beat, **key)).json["assigned_run"]["run_id"] == run
    mine = {"worker_id": "mine", "turn_ref": "t"}
    one, other = [await server.post(f"/api/runs/{each}/worker-dispatched", mine, **key) for each in (run, UNKNOWN_RUN)]
    assert one.refused == other.refused == (404, "Run not found or worker mismatch")


# Artifacts: names


ODD_NAMES = (
    "..", "%2e%2e", "%2e%2e%2fowned.sqlite", "..%5cowned.sqlite", "%2e%2e%2f%2e%2e%2finstalls%2finstalls.db", "%00",
    "a%00.png", "%0a", "%20", "a%20b.png", "\u00e9.png", "%c3%a9.png", "%ff.png", "%f0%9f%98%80", ".", "%2e", "-", "~",
    "*", "a" * 129, "a" * 5000, "con", "owned.sqlite", "kept", "new", "%2fetc%2fpasswd", "file:%2f%2f%2fetc%2fpasswd",
    "0" * 32, f"{'0' * 32}.png.png", f"{'0' * 32}.svg", f"{'0' * 32}.PNG", f"{'0' * 32}.png%0d%0aX:y", "%09a",
    f"%20{'0' * 32}.png", f"{'0' * 31}\uff10.png", "%25%32%65%25%32%65", "..;/owned.sqlite",
)  # fmt: skip


async def test_no_name_leads_out_of_the_callers_artifacts(server: WindieServer) -> None:
    assert (await server.upload(PNG)).status == 200
    for method, name in itertools.product(("GET", "HEAD"), ODD_NAMES):
        target = quote(f"/windie/api/artifacts/{name}", safe=string.punctuation)
        answer = await said(server.port, whole(method, target), method=method)
        meant = unquote(name)
        if "/" in meant:
            assert answer.status in (400, 404), (name, answer)  # another path, where no route is
        else:
            plain = re.fullmatch(r"[0-9A-Za-z_-]{1,128}(\.[0-9A-Za-z]{1,16})?", meant)
            assert answer.status == (404 if plain else 400), (name, answer)
        if method == "GET":
            said_of_it = ("Artifact not found", "Not Found") if answer.status == 404 else ("Invalid artifact id",)
            assert answer.detail in said_of_it, name


# Artifacts: forms


def _part(disposition: str | bytes, content: bytes = PNG, *more: bytes) -> bytes:
    given = disposition if isinstance(disposition, bytes) else disposition.encode()
    lines = [b"--" + BOUNDARY.encode(), b"Content-Disposition: " + given, *more, b"", content, b""]
    return b"\r\n".join(lines)


END = f"--{BOUNDARY}--\r\n".encode()
A_FILE = 'form-data; name="file"; filename="shot.png"'

REFUSED_FORMS: dict[str, bytes] = {
    "nothing": b"",
    "no part": END,
    "no end": _part(A_FILE),
    "half an end": _part(A_FILE) + END[:-6],
    "another boundary": form(PNG).replace(BOUNDARY.encode(), b"other"),
    "no name": _part('form-data; filename="x.png"') + END,
    "no disposition": b"--" + BOUNDARY.encode() + b"\r\nX: y\r\n\r\n" + PNG + b"\r\n" + END,
    "no headers": b"--" + BOUNDARY.encode() + b"\r\n\r\n" + PNG + b"\r\n" + END,
    "no file": _part('form-data; name="file"') + END,
    "another field": _part('form-data; name="other"; filename="x.png"') + END,
    "two files": _part(A_FILE) * 2 + END,
    "a file and a field": _part(A_FILE) + _part('form-data; name="user_id"', b"somebody") + END,
    "a field and a file": _part('form-data; name="user_id"', b"somebody") + _part(A_FILE) + END,
    "1000 parts": _part(A_FILE) * 1000 + END,
    "1000 fields": b"".join(_part(f'form-data; name="f{number}"', b"x") for number in range(1000)) + END,
    "an empty file": _part(A_FILE, b"") + END,
    "a text": _part(A_FILE, b"#!/bin/sh\nrm -rf /\n") + END,
    "a page": _part(A_FILE, b"<script>alert(1)</script>", b"Content-Type: image/png") + END,
    "an svg": _part(A_FILE, b'<svg xmlns="http://www.w3.org/2000/svg" onload="x()"/>', b"Content-Type: image/png")
    + END,
    "a header without a colon": _part(A_FILE, PNG, b"nonsense") + END,
    "a header with NUL": _part(A_FILE, PNG, b"X\x00: y") + END,
    "a long header": _part(A_FILE, PNG, b"X: " + b"y" * (4 * MIB)) + END,
    "many headers": _part(A_FILE, PNG, *(b"X%d: y" % number for number in range(100_000))) + END,
    "a preamble of junk": b"junk" * 1000 + form(PNG),
    "junk only": b"\x00\xff" * 100_000,
    "line ends only": b"\r\n" * 500_000,
    "dashes only": b"-" * MIB,
}


@pytest.mark.parametrize("name", REFUSED_FORMS)
async def test_a_form_that_is_not_one_file_leaves_nothing(server: WindieServer, name: str) -> None:
    row = ARTIFACTS[0]
    answer = await asyncio.to_thread(
        say, server.port, whole("POST", f"/windie{row.path}", [AS_FORM], REFUSED_FORMS[name]), method="POST"
    )
    if answer is not None:
        assert 400 <= answer.status < 500, answer
        well_formed(answer)
    await nothing_of_it_is_left(server)
    assert (await server.upload(PNG)).status == 200
    await nothing_of_it_is_left(server, kept=1)


ODD_FILE_NAMES = (
    "../../../etc/cron.d/x", "..\\\\..\\\\x.exe", "/etc/passwd", "C:\\\\x", "a\\\"b.png", "x" * 50_000, "", ".", "..",
    "a/b/c", "\u202egnp.exe", "x.png\x00.sh", "%2e%2e%2fx", "owned.sqlite", "\u00e9.png", "{run}.png", "~root",
)  # fmt: skip


async def test_what_a_file_is_called_matters_to_nobody(server: WindieServer) -> None:
    kept = 0
    for name in ODD_FILE_NAMES:
        body = _part(f'form-data; name="file"; filename="{name}"') + END
        answer = await ask(server, ARTIFACTS[0], body, AS_FORM)
        well_formed(answer)
        if answer.status == 200:
            kept += 1
            told = answer.json
            artifact = told["artifact_id"]
            assert len(artifact) == len(UNKNOWN_ARTIFACT), artifact
            assert told["url"].endswith(f"/api/artifacts/{artifact}")
            fetched = await said(server.port, whole("GET", f"/windie/api/artifacts/{artifact}"))
            assert fetched.body == PNG
            assert name not in str(fetched.headers) or name in ("", ".", "..")
    assert kept > len(ODD_FILE_NAMES) / 2
    await nothing_of_it_is_left(server, kept=kept)
    elsewhere = [each for each in server.folder.rglob("*") if each.is_file() and "artifacts" not in each.parts]
    assert not [each for each in elsewhere if PNG in each.read_bytes()]


@pytest.mark.parametrize(
    "media",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary=""',
        f"multipart/form-data; boundary={'x' * 5000}",
        "multipart/form-data; boundary=\xff",
        "multipart/form-data; boundary=a\tb",
        f"multipart/mixed; boundary={BOUNDARY}",
        "application/json",
        "image/png",
        "multipart/form-data; charset=utf-7; boundary*=utf-8''x",
        ";" * 5000,
        "multipart/form-data" + "; a=b" * 1500,
    ],
)
async def test_what_is_called_a_form_in_another_way_leaves_nothing(server: WindieServer, media: str) -> None:
    answer = await ask(server, ARTIFACTS[0], form(PNG), ("Content-Type", media))
    assert 400 <= answer.status < 500, answer
    well_formed(answer)
    await nothing_of_it_is_left(server)


async def test_uploads_that_are_cut_anywhere_leave_nothing(server: WindieServer) -> None:
    body = form(PNG)
    whole_one = whole("POST", "/windie/api/artifacts/", [AS_FORM], body)
    for cut in {*range(len(whole_one) - len(body) - 4, len(whole_one), 7), len(whole_one) - 1}:
        with socket.create_connection(("127.0.0.1", server.port), 20) as stream:
            stream.sendall(whole_one[:cut])
    for cut in range(1, len(body), 11):
        told = head("POST", "/windie/api/artifacts/", [AS_FORM, ("Content-Length", str(cut))])
        answer = await asyncio.to_thread(say, server.port, told + body[:cut], method="POST")
        assert answer is not None
        assert answer.status in (400, 415, 422), (cut, answer)
    await nothing_of_it_is_left(server)


# Artifacts: parts of them

RANGES = (
    "bytes=0-0", "bytes=0-", "bytes=-1", "bytes=-0", "bytes=5-2", "bytes=999-", "bytes=-999", "bytes=0-999",
    "bytes=--1", "bytes=a-b", "bytes=", "bytes", "=", "", "bytes=0-0,1-1", "bytes=" + "0-0," * 2000 + "0-0",
    "lines=1-2", "bytes=0-0;x",
    "bytes=18446744073709551615-", "bytes=0-18446744073709551616", "bytes=0x0-0x1", "bytes=" + "9" * 5000 + "-",
     "bytes= 0 - 0", "BYTES=0-0", "bytes=\u0660-\u0661", "bytes=0-0\x00", "bytes=1.5-2", "bytes=-",
)  # fmt: skip


async def test_no_range_gives_more_than_there_is(server: WindieServer) -> None:
    name = (await server.upload(PNG)).json["artifact_id"]
    for method, asked in itertools.product(("GET", "HEAD"), RANGES):
        data = whole(method, f"/windie/api/artifacts/{name}", [("Range", asked.encode())])
        answer = await asyncio.to_thread(say, server.port, data, method=method)
        if answer is None or answer.status == 400:
            assert "\x00" in asked, asked  # the socket's own refusal
            continue
        assert answer.status in (200, 206, 416), (asked, answer)
        if method == "GET" and answer.status == 200:
            assert answer.body == PNG
        if method == "GET" and answer.status == 206:
            first, last = answer.headers["content-range"].removeprefix("bytes ").split("/")[0].split("-")
            assert answer.body == PNG[int(first) : int(last) + 1] != b""
        if answer.status == 416:
            assert answer.headers["content-range"] == f"bytes */{len(PNG)}"
