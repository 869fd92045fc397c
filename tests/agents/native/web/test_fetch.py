"""webFetch against a server that does what servers should not: one hop, one answer, every limit."""

import asyncio
import gzip
import zlib
from collections.abc import Sequence

import h11
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.native.tools.tool import ToolFailed
from dragoman.agents.native.tools.web_fetch import WebFetch, WebFetchInput
from dragoman.agents.native.url_guard import UrlBlocked, UrlGuard, UrlInvalid, WebUrl
from dragoman.agents.native.web.exchange import MAX_HEAD, request_headers, user_agent

from .rig import PUBLIC, Context, Site, Visit, fetch, moved, page, response

BOTH_LOOPS = True
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


async def refused(site: Site, url: str = "http://site.example/", **limits: object) -> str:
    with pytest.raises(ToolFailed) as failed:
        await fetch(site, url, **limits)
    return str(failed.value)


async def test_a_text_comes_with_its_url() -> None:
    async with Site({"/a?b=c": response(b"hello\r\nyou", kind="text/plain")}) as site:
        assert await fetch(site, "http://Site.Example/a?b=c#d") == "URL: http://site.example/a?b=c\n\nhello\nyou"
    assert site.dialled == [(PUBLIC, 80, None)]


async def test_the_request_names_the_host_and_nobody_else() -> None:
    async with Site({"/": response(b"x", "Set-Cookie: a=b"), "/two": moved("/")}) as site:
        await fetch(site, "http://site.example:8080/two")
    first, second = site.visits
    assert (first.method, first.target, first.version) == ("GET", "/two", "HTTP/1.1")
    assert first.headers["host"] == "site.example:8080"
    assert first.headers["user-agent"] == user_agent()
    assert user_agent().startswith("dragoman/")
    assert first.headers["accept-encoding"] == "gzip, deflate"
    assert set(second.headers) == {"host", "user-agent", "accept", "accept-encoding", "connection"}


def test_the_model_is_told_the_bounds() -> None:
    schema = msgspec.json.schema(WebFetchInput)["$defs"]["WebFetchInput"]
    assert schema["required"] == ["url"]
    length = schema["properties"]["maxLength"]
    assert (length["minimum"], length["maximum"], length["default"]) == (1000, 200_000, 50_000)
    for wrong in ({"url": ""}, {"url": "x", "maxLength": 999}, {"url": "x", "maxLength": 200_001}, {}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, WebFetchInput)


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://2130706433/"])
async def test_by_default_the_loopback_is_out_of_reach(url: str) -> None:
    with pytest.raises(ToolFailed, match="Blocked private/internal host"):
        await WebFetch().run(WebFetchInput(url=url), Context())


async def test_a_name_that_leads_to_the_loopback_is_not_dialled() -> None:
    async with Site({"/": response(b"secret")}) as site:
        url = f"http://site.example:{site.port}/"

        async def resolve(_host: str, _port: int) -> Sequence[str]:
            return ["127.0.0.1"]

        site.guard = UrlGuard(resolver=resolve)  # with the system's dial: it would get there
        assert await refused(site, url) == "Blocked private/internal host: site.example"
    assert not site.visits


async def test_what_is_no_url_is_refused_without_repeating_it() -> None:
    async with Site({}) as site:
        for url in ("https://me:pass@site.example/", "http://a b/?pass", "ftp://site.example/pass"):
            assert "pass" not in await refused(site, url)
    assert not site.dialled


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_followed_over_a_new_connection(status: str) -> None:
    async with Site({"/": moved("//other.example/b", status), "/b": response(b"there")}) as site:
        assert await fetch(site) == "URL: http://other.example/b\n\nthere"
    assert site.asked == ["site.example", "other.example"]


async def test_five_redirects_are_followed_and_a_loop_is_not() -> None:
    pages = {f"/{hop}": moved(f"/{hop + 1}") for hop in range(5)}
    async with Site({**pages, "/5": response(b"end"), "/loop": moved("/loop")}) as site:
        assert "end" in await fetch(site, "http://site.example/0")
        assert await refused(site, "http://site.example/loop") == "Blocked: more than 5 redirects"
    assert len(site.visits) == 6 + 6


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("http://127.0.0.1/", "Blocked private/internal host: 127.0.0.1"),
        ("//169.254.169.254/latest/meta-data", "Blocked private/internal host: 169.254.169.254"),
        ("http://[::ffff:7f00:1]/", "Blocked private/internal host"),
        ("http://inner.example/", "Blocked private/internal host: inner.example"),
        ("file:///etc/passwd", "Blocked URL protocol: file:"),
        ("http://a@site.example/", "Blocked URL credentials are not allowed"),
        ("http://site.example:22/", "Blocked URL port: 22"),
        ("/\\127.0.0.1", "invalid URL"),
        ("http://[", "invalid URL"),
        ("", "HTTP 302 Found from site.example, without a place to go to"),
    ],
)
async def test_a_redirect_is_checked_before_anything_is_sent(location: str, why: str) -> None:
    async with Site({"/": moved(location)}) as site:
        site.answers["inner.example"] = [["10.0.0.1"]]
        assert why in await refused(site)
    assert len(site.dialled) == 1


async def test_each_hop_is_resolved_anew_and_checked_anew() -> None:
    async with Site({"/": moved("/b"), "/b": response(b"never")}) as site:
        site.answers["site.example"] = [[PUBLIC], ["127.0.0.1"]]
        assert await refused(site) == "Blocked private/internal host: site.example"
    assert len(site.dialled) == 1


async def test_within_a_hop_the_name_is_asked_for_once() -> None:
    async with Site({"/": response(b"x")}) as site:
        site.answers["site.example"] = [[PUBLIC], ["127.0.0.1"]]
        await fetch(site)
    assert site.asked == ["site.example"]
    assert site.dialled == [(PUBLIC, 80, None)]


async def test_where_a_redirect_led_is_not_in_an_error() -> None:
    async with Site({"/": moved("/x?token=s3cret"), "/x?token=s3cret": response(status="500 no", kind="")}) as site:
        assert await refused(site) == "HTTP 500 Internal Server Error from site.example"


async def test_https_is_for_the_name_over_the_checked_address() -> None:
    async with Site({"/": response(b"safe")}, tls=True) as site:
        assert await fetch(site, "https://site.example/") == "URL: https://site.example/\n\nsafe"
        assert "cannot be trusted: Hostname mismatch" in await refused(site, "https://other.example/")
        tool = WebFetch()
        tool._fetcher._guard = site.guard
        with pytest.raises(ToolFailed, match=r"site\.example cannot be trusted: self-signed certificate"):
            await tool.run(WebFetchInput(url="https://site.example/"), Context())
    assert site.dialled[0] == (PUBLIC, 443, "site.example")


async def test_a_server_without_tls_is_no_https_server() -> None:
    async def plain(visit: Visit) -> None:
        raise AssertionError(visit)

    async with Site({"/": plain}) as site:
        server = await asyncio.start_server(lambda _r, w: (w.write(b"HTTP/1.1 400 no\r\n\r\n"), w.close()), "127.0.0.1")
        site.port = server.sockets[0].getsockname()[1]
        assert "no TLS connection to site.example: " in await refused(site, "https://site.example/")
        server.close()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (CHUNKED + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n", "abcde"),
        (OK + b"Content-Length: 3\r\n\r\nabcGARBAGE AFTER\r\n\r\n", "abc"),
        (OK + b"Content-Length: 3\r\nConnection: keep-alive\r\n\r\nabc" + OK + b"\r\nmore", "abc"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + response(b"late"), "late"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "(no text)"),
        (response(b"", status="205 Reset"), "(no text)"),
        (response(b"", kind="text/plain"), "(no text)"),
        (response(b"taken", status="202 Accepted"), "taken"),
    ],
)
async def test_what_http_allows_is_read(raw: bytes, text: str) -> None:
    async with Site({"/": raw}) as site:
        assert await fetch(site) == f"URL: http://site.example/\n\n{text}"


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    async def until_close(visit: Visit) -> None:
        await visit.send(OK.replace(b"1.1", b"1.0") + b"\r\nto the end")
        visit.writer.close()

    async with Site({"/": until_close}) as site:
        assert await fetch(site) == "URL: http://site.example/\n\nto the end"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "closed"),
        (b"HTTP/1.1 200", "closed"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "illegal status line"),
        (OK + b"Content-Length: 30\r\n\r\nshort", "received 5 bytes, expected 30"),
        (OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "conflicting Content-Length"),
        (OK + b"Content-Length: -3\r\n\r\nabc", "bad Content-Length"),
        (CHUNKED + b"5\r\nab", "incomplete chunked read"),
        (CHUNKED + b"zz\r\nab", "illegal chunk header"),
        (CHUNKED + b"3\r\nabcXX0\r\n\r\n", "chunk"),
        (OK + b"Content-Length: 3\r\nContent-Encoding: br\r\n\r\nabc", "unsupported content encoding: br"),
        (OK + b"Content-Length: 3\r\nContent-Encoding: gzip\r\n\r\nabc", "coding is damaged"),
        (OK + b"Content-Length: 3\r\nContent-Encoding: gzip, gzip\r\n\r\nabc", "unsupported content encoding"),
        (response(gzip.compress(b"abc" * 99)[:-9], "Content-Encoding: gzip"), "coding ends too early"),
        (b"HTTP/1.1 101 Switch\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "answered wrongly"),
        (b"HTTP/1.1 103 Early\r\n\r\n" * 9 + OK, "too many interim responses"),
        (OK + b"Bad Header\r\n\r\n", "illegal header line"),
        (OK + b"X: a\0b\r\n\r\n", "illegal header line"),
    ],
)
async def test_what_http_does_not_allow_is_an_error_that_says_so(raw: bytes, why: str) -> None:
    async def send_and_close(visit: Visit) -> None:
        await visit.send(raw)
        visit.writer.close()

    async with Site({"/": send_and_close}) as site:
        told = await refused(site)
    assert told.startswith("site.example answered wrongly: ")
    assert why in told


async def test_a_head_that_never_ends_is_left_at_its_limit() -> None:
    sent = 0

    async def forever(visit: Visit) -> None:
        nonlocal sent
        await visit.send(OK)
        while True:
            await visit.send(b"X-More: " + b"a" * 1000 + b"\r\n")
            sent += 1010

    async with Site({"/": forever}) as site:
        assert "answered wrongly" in await refused(site)
    assert sent > MAX_HEAD


async def test_a_hop_has_a_limit_however_busy_the_server_looks() -> None:
    async def drip(visit: Visit) -> None:
        await visit.send(CHUNKED)
        gone = asyncio.create_task(visit.until_closed())
        while not gone.done():
            await visit.send(b"1\r\nx\r\n")
            await asyncio.wait([gone], timeout=0.01)

    async with Site({"/": drip, "/silent": Visit.until_closed, "/to": moved("/silent")}) as site:
        for target in ("", "silent", "to"):
            told = await refused(site, f"http://site.example/{target}", fetch_seconds=0.1)
            assert told == "site.example took too long: 0.1 s is the limit for a hop"


async def test_a_silent_name_server_and_a_dead_address_are_told_apart() -> None:
    async def nobody(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async def nowhere(*_: object) -> object:
        raise ConnectionRefusedError(111, "Connect call failed ('10.9.8.7', 80)")

    async with Site({}) as site:
        site.guard = UrlGuard(resolver=nobody)
        assert "took too long" in await refused(site, fetch_seconds=0.05)
        site.guard = UrlGuard(resolver=site._resolve, dial=nowhere)
        assert await refused(site) == "no connection to site.example: Connection refused"


async def test_cancelling_in_the_middle_of_a_body_closes_the_connection() -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def half(visit: Visit) -> None:
        await visit.send(OK + b"Content-Length: 100\r\n\r\nhalf")
        begun.set()
        await visit.until_closed()
        closed.set()

    async with Site({"/": half}) as site:
        task = asyncio.create_task(fetch(site))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(5):
            await closed.wait()


@pytest.mark.parametrize(
    "kind",
    [
        *("image/png", "application/pdf", "application/octet-stream", "video/mp4", "application/zip", "", "nonsense"),
        *("text", "multipart/form-data; x=text/html", "application/jsonx", "application/x-tar+gzip"),
    ],
)
async def test_other_types_are_refused_before_the_body_is_read(kind: str) -> None:
    async def only_head(visit: Visit) -> None:
        head = f"Content-Type: {kind}\r\n" if kind else ""
        await visit.send(f"HTTP/1.1 200 OK\r\n{head}Content-Length: 999999\r\n\r\n".encode())
        await visit.until_closed()

    async with Site({"/": only_head}) as site:
        assert (await refused(site)).startswith("unsupported content type from site.example: ")


@pytest.mark.parametrize(
    "kind",
    [
        *("text/plain", "TEXT/CSV", "text/markdown;charset=utf-8", "application/json", "application/ld+json"),
        *("application/xml", "application/rss+xml ; x=y", "application/javascript", "text/javascript", "image/svg+xml"),
    ],
)
async def test_texts_are_given_as_they_are(kind: str) -> None:
    async with Site({"/": page("<a>{ 'x' :  1 }</a>", kind)}) as site:
        assert await fetch(site) == "URL: http://site.example/\n\n<a>{ 'x' :  1 }</a>"


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (response(b"gone  \n away", status="404 Whatever"), "HTTP 404 Not Found from site.example: gone away"),
        (
            response(b"<title>t</title><script>x()</script><h1>No &lt;way&gt;", status="403 F", kind="text/html"),
            "HTTP 403 Forbidden from site.example: No <way>",
        ),
        (response(b"\0\1", status="500 x", kind="image/png"), "HTTP 500 Internal Server Error from site.example"),
        (response(b"y" * 9999, status="418 x"), f"HTTP 418 I'm a Teapot from site.example: {'y' * 300}…"),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", "HTTP 304 Not Modified from site.example"),
        (
            response(b"par", "Content-Range: bytes 0-2/9", status="206 x"),
            "HTTP 206 Partial Content from site.example: par",
        ),
        (response(b"", "Location: /", status="300 x"), "HTTP 300 Multiple Choices from site.example"),
        (response(b"x", status="799 x", kind=""), "HTTP 799 from site.example"),
        (
            OK.replace(b"200 OK", b"503 x") + b"Content-Length: 9\r\n\r\nx",
            "HTTP 503 Service Unavailable from site.example",
        ),
    ],
)
async def test_an_error_is_its_status_and_a_little_of_its_page(raw: bytes, told: str) -> None:
    async def send_and_close(visit: Visit) -> None:
        await visit.send(raw)
        visit.writer.close()

    async with Site({"/": send_and_close}) as site:
        assert await refused(site) == told


RAW = zlib.compressobj(wbits=-15)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(b"packed")),
        ("X-GZIP", gzip.compress(b"pac") + gzip.compress(b"ked")),
        ("gzip", gzip.compress(b"packed") + b"\0\0\0"),
        ("deflate", zlib.compress(b"packed")),
        ("deflate", RAW.compress(b"packed") + RAW.flush()),
        ("identity", b"packed"),
        ("gzip", b""),
    ],
    ids=["gzip", "two gzip members", "padded", "zlib", "deflate", "as it is", "empty"],
)
async def test_a_packed_body_is_unpacked(coding: str, body: bytes) -> None:
    async with Site({"/": response(body, f"Content-Encoding: {coding}")}) as site:
        assert (await fetch(site)).endswith("packed" if body else "(no text)")


async def test_a_bomb_is_unpacked_to_the_limit_and_no_further() -> None:
    bomb = gzip.compress(b"a" * 20_000_000)
    async with Site({"/": response(bomb, "Content-Encoding: gzip")}) as site:
        told = await fetch(site, fetch_bytes=5000, max_length=1000)
    assert told.split("\n\n")[1:] == [
        "a" * 1000,
        "[cut: the first 1000 of 5000 characters; maxLength says how many]",
        "[cut: only the first 5000 bytes of the document were read]",
    ]


async def test_a_body_that_unpacks_to_nothing_is_left_too() -> None:
    async def hollow(visit: Visit) -> None:
        await visit.send(OK + b"Content-Encoding: deflate\r\n\r\n")
        while True:  # stored blocks of no bytes
            await visit.send(b"\x00\x00\x00\xff\xff" * 1000)

    async with Site({"/": hollow}) as site:
        assert "(no text)" in await fetch(site, fetch_bytes=5000)


async def test_a_body_without_end_is_cut() -> None:
    async def forever(visit: Visit) -> None:
        await visit.send(CHUNKED)
        while True:
            await visit.send(b"4\r\nabcd\r\n" * 100)

    async with Site({"/": forever}) as site:
        assert "only the first 2000 bytes" in await fetch(site, fetch_bytes=2000)


async def test_a_text_is_cut_where_the_model_wants_it_cut() -> None:
    async with Site({"/": response("é".encode() * 1500)}) as site:
        assert (await fetch(site, max_length=1500)).endswith("é" * 1500)
        told = await fetch(site, max_length=1000)
    assert told.endswith("é" * 1000 + "\n\n[cut: the first 1000 of 1500 characters; maxLength says how many]")


@given(st.text(max_size=50))
def test_any_url_that_passes_the_guard_can_be_asked_for(rest: str) -> None:
    try:
        url = WebUrl.parse(f"http://site.example/{rest}")
    except (UrlBlocked, UrlInvalid):
        return
    sent = h11.Connection(h11.CLIENT).send(h11.Request(method="GET", target=url.target, headers=request_headers(url)))
    assert sent is not None
    assert sent.count(b"\r\n") == 1 + len(request_headers(url)) + 1


async def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Site({}) as proxy, Site({"/": response(b"x"), "/two": moved("/")}) as site:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await fetch(site, "http://site.example/two")).endswith("x")
    assert proxy.visits == []
    assert [address for address, _, _ in site.dialled] == [PUBLIC, PUBLIC]
