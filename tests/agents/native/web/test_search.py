"""webSearch against servers that speak for Brave and Exa."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from dragoman.agents.native.tools.tool import ToolFailed
from dragoman.agents.native.tools.web_search import WebSearch, WebSearchInput
from dragoman.agents.native.web.search_engines import MAX_ANSWER, Brave, Exa

from .rig import Context, Site, Visit, response

KEYS = {"BRAVE_API_KEY": "brave-s3cret", "EXA_API_KEY": "exa-s3cret"}
BRAVE = "/res/v1/web/search?q=how+to+%26&count=10&text_decorations=false"


def answer(body: object, status: str = "200 OK") -> bytes:
    return response(json.dumps(body).encode(), status=status, kind="application/json")


def brave(*results: Mapping[str, Any]) -> bytes:
    return answer({"type": "search", "web": {"results": list(results)}})


def exa(*results: Mapping[str, Any]) -> bytes:
    return answer({"requestId": "x", "results": list(results)})


ONE = {"title": "One", "url": "https://one.example/", "description": "about one"}
TWO = {"title": "Two", "url": "https://two.example/", "highlights": ["about two", "and more"]}


class Engines:
    """Both engines at one server, and the tool with these keys."""

    def __init__(self, site: Site, keys: Mapping[str, str]) -> None:
        base = f"http://127.0.0.1:{site.port}"
        self.site = site
        self.tool = WebSearch(keys.get, [Brave(base), Exa(base + "/")])

    async def search(self, query: str = "how to &", *, seconds: float = 5.0, **given: Any) -> str:
        wish = msgspec.convert({"query": query, **given}, WebSearchInput)
        result = await self.tool.run(wish, Context(fetch_seconds=seconds))
        assert isinstance(result.output, str)
        assert "s3cret" not in result.output
        return result.output

    async def refused(self, query: str = "how to &", *, seconds: float = 5.0) -> str:
        with pytest.raises(ToolFailed) as failed:
            await self.search(query, seconds=seconds)
        assert "s3cret" not in str(failed.value)
        assert failed.value.__cause__ is None
        return str(failed.value)


@asynccontextmanager
async def engines(keys: Mapping[str, str] = KEYS, **pages: Any) -> AsyncIterator[Engines]:
    paths = {"brave": BRAVE, "exa": "/search"}
    async with Site({paths[name]: page for name, page in pages.items()}) as site:
        yield Engines(site, keys)


async def test_brave_is_asked_first_and_gives_a_numbered_list() -> None:
    markup = {
        "title": "<b>Two</b> &amp; more",
        "url": "https://two.example/?a=b",
        "description": "so <strong>strong</strong>\n <script>x</script>&lt;ok&gt;",
    }
    async with engines(brave=brave(ONE, markup)) as rig:
        told = await rig.search()
    assert told == (
        "1. One\n   https://one.example/\n   about one\n\n2. Two & more\n   https://two.example/?a=b\n   so strong <ok>"
    )
    (visit,) = rig.site.visits
    assert visit.headers["x-subscription-token"] == "brave-s3cret"
    assert visit.headers["user-agent"].startswith("dragoman/")
    assert "cookie" not in visit.headers


async def test_exa_is_asked_when_only_its_key_is_there() -> None:
    bodies = []

    async def take(visit: Visit) -> None:
        bodies.append(json.loads(await visit.reader.readexactly(int(visit.headers["content-length"]))))
        await visit.send(exa(TWO, {"url": "https://bare.example/", "title": None, "text": "said"}))

    async with engines({"EXA_API_KEY": " exa-s3cret\n", "BRAVE_API_KEY": " "}, exa=take) as rig:
        told = await rig.search(maxResults=2)
    assert told == (
        "1. Two\n   https://two.example/\n   about two … and more\n\n"
        "2. https://bare.example/\n   https://bare.example/\n   said"
    )
    assert bodies == [{"query": "how to &", "numResults": 2, "contents": {"highlights": {"maxCharacters": 600}}}]
    assert rig.site.visits[0].headers["x-api-key"] == "exa-s3cret"


async def test_without_a_key_it_says_which_to_set() -> None:
    async with engines({}) as rig:
        assert await rig.refused() == "webSearch disabled: set BRAVE_API_KEY or EXA_API_KEY"
    assert not rig.site.visits


async def silent(visit: Visit) -> None:
    await visit.until_closed()


async def hang_up(visit: Visit) -> None:
    visit.writer.close()


async def endless(visit: Visit) -> None:
    await visit.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    for _ in range(MAX_ANSWER // 1000 + 100):
        await visit.send(b" " * 1000)
    await visit.until_closed()


FAILURES = [
    (answer({"error": "brave-s3cret"}, "401 No"), "Brave answered HTTP 401: it does not take the key"),
    (answer({}, "422 No"), "Brave answered HTTP 422: it does not take such a query"),
    (answer({}, "429 No"), "Brave answered HTTP 429: too many searches"),
    (response(b"", "Location: https://evil.example/", status="302 Found"), "Brave answered HTTP 302"),
    (response(b"<html>"), "Brave gave an answer that cannot be read"),
    (answer({"web": {"results": [{"url": 1}]}}), "Brave gave an answer that cannot be read"),
    (response(b"\xff\xfe{"), "Brave gave an answer that cannot be read"),
    (response(b"abc", "Content-Encoding: gzip"), "Brave gave an answer that cannot be read"),
    (b"SSH-2.0\r\n\r\n", "Brave gave an answer that cannot be read"),
    (silent, "Brave did not answer within 0.2 s"),
    (hang_up, "Brave broke the connection off"),
    (endless, "Brave gave an answer that is too long"),
]


@pytest.mark.parametrize(("page", "why"), FAILURES)
async def test_a_failed_engine_is_named_and_the_next_one_asked(page: Any, why: str) -> None:
    seconds = 0.2 if page is silent else 5.0
    async with engines(brave=page, exa=exa(TWO)) as rig:
        told = await rig.search(seconds=seconds)
        assert told == (
            f"[{why}; these results are from Exa]\n\n1. Two\n   https://two.example/\n   about two … and more"
        )
        rig.site.pages["/search"] = answer({}, "500 No")
        assert await rig.refused(seconds=seconds) == f"webSearch failed: {why}; Exa answered HTTP 500"


async def test_a_server_that_is_not_there_could_not_be_reached() -> None:
    async with engines(KEYS) as rig:
        rig.site._server.close()
        await rig.site._server.wait_closed()
        assert await rig.refused() == "webSearch failed: Brave could not be reached; Exa could not be reached"


@pytest.mark.parametrize("key", ["two\nlines-s3cret", "kéy-s3cret", "s3cret\0"])
async def test_what_can_be_no_key_is_not_sent_and_not_shown(key: str) -> None:
    async with engines({"BRAVE_API_KEY": key}) as rig:
        assert await rig.refused() == "webSearch failed: Brave cannot be asked: its key is not one"


@pytest.mark.parametrize("page", [brave(), answer({}), answer({"web": None})])
async def test_no_results_are_no_failure(page: bytes) -> None:
    async with engines(brave=page, exa=exa(TWO)) as rig:
        assert await rig.search() == "No results found."


async def test_results_are_bounded_and_lead_to_the_web() -> None:
    results = [{"url": f"https://a.example/{n}", "title": "t" * 999, "description": "d" * 9999} for n in range(30)]
    odd = [{"url": "javascript:x"}, {"url": ""}, {"url": "https://a.example/0\x1b[2J"}, ONE, ONE]
    async with engines(brave=brave(*odd, *results)) as rig:
        told = await rig.search()
    assert told.count("https://") == 10
    assert told.count("https://one.example/") == 1
    assert "javascript" not in told
    assert "\x1b" not in told
    assert max(map(len, told.split("\n"))) < 700


async def test_a_blank_query_is_not_asked_and_lines_are_joined() -> None:
    async with engines(brave=brave(ONE)) as rig:
        assert await rig.refused(" \n ") == "webSearch: the query is empty"
        assert "One" in await rig.search("how\n to\t& ")
    assert len(rig.site.visits) == 1


async def test_cancelling_closes_the_connection() -> None:
    begun = asyncio.Event()

    async def hang(visit: Visit) -> None:
        begun.set()
        await visit.until_closed()

    async with engines(brave=hang) as rig:
        task = asyncio.create_task(rig.search())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("given", [{"query": ""}, {"query": "x" * 1001}, {"maxResults": 0}, {"maxResults": 21}, {}])
def test_input_beyond_the_schema_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"query": "x", **given} if "maxResults" in given else given, WebSearchInput)


async def test_no_proxy_of_the_environment_sees_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Site({}) as proxy, Site({BRAVE: brave(ONE)}) as site:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert "one.example" in await Engines(site, KEYS).search()
    assert proxy.visits == []


async def test_a_redirect_does_not_take_the_key_elsewhere() -> None:
    async with Site({}) as other:
        moved = response(b"", f"Location: http://127.0.0.1:{other.port}/", status="302 Found")
        async with Site({BRAVE: moved, "/search": moved}) as site:
            assert "HTTP 302" in await Engines(site, KEYS).refused()
    assert other.visits == []
