"""Text tiles (spec §3.4): kept, bounded, and shown to every link as they change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.cin.api import Api, served
from tests.dialects.cin.recorded.bridge import of

NOTE = {"text": "note", "position": {"q": 1, "r": 2}, "color": "#ff0"}
NOWHERE = "/tiles/00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with served(tmp_path_factory.mktemp("tiles"), settings="tiles = 3\ntile_chars = 50\n") as api:
        yield api


@pytest.fixture
def api(server: Api) -> Api:
    """A server without a tile."""
    for tile in tiles(server):
        server.good("DELETE", f"/tiles/{tile['id']}")
    return server


def tiles(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.good("GET", "/tiles")["tiles"]
    return found


def test_a_tile_is_made_changed_and_removed(api: Api) -> None:
    assert tiles(api) == []

    tile = api.good("POST", "/tiles", NOTE, 201)["tile"]
    assert {**NOTE, "id": tile["id"], "createdAt": tile["createdAt"]} == tile
    assert isinstance(tile["createdAt"], int)
    assert tiles(api) == [tile]

    new = api.good("PUT", f"/tiles/{tile['id']}", {"text": "other\nline", "position": {"q": -3, "r": 0}})["tile"]
    assert new == {**tile, "text": "other\nline", "position": {"q": -3, "r": 0}}
    assert tiles(api) == [new]

    assert api.good("DELETE", f"/tiles/{tile['id']}") == {"ok": True}
    assert tiles(api) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{", "Invalid JSON"),
        ("null", "Invalid"),
        ("[]", "Invalid"),
        ({}, "Missing text or position"),
        ({"text": "x"}, "Missing text or position"),
        ({"position": {"q": 1, "r": 2}}, "Missing text or position"),
        ({"text": "  ", "position": {"q": 1, "r": 2}}, "Missing text or position"),
        ({"text": 5, "position": {"q": 1, "r": 2}}, "Invalid fields"),
        ({"text": "x", "position": {"q": "1", "r": 2}}, "Invalid fields"),
        ({"text": "x", "position": {"q": 1}}, "Invalid fields"),
        ({"text": "x", "position": {"q": 10**12, "r": 2}}, "Invalid fields"),
        ({"text": "x" * 51, "position": {"q": 1, "r": 2}}, "longer than 50"),
        ({"text": "a\u0007", "position": {"q": 1, "r": 2}}, "control character"),
        ({"text": "x", "position": {"q": 1, "r": 2}, "color": "c" * 65}, "color is longer"),
    ],
)
def test_what_is_no_tile_is_refused_and_nothing_changes(api: Api, body: Any, words: str) -> None:
    api.ask("POST", "/tiles", body).failed(400, words)
    assert tiles(api) == []


def test_an_unknown_tile_is_not_found(api: Api) -> None:
    for name in (NOWHERE, "/tiles/..%2ftiles", "/tiles/%00", "/tiles/" + "x" * 5000, "/tiles/%2e%2e"):
        api.ask("PUT", name, {"text": "x"}).failed(404)
        api.ask("DELETE", name).failed(404)
    api.ask("DELETE", NOWHERE).failed(404, "Tile not found")
    reply = api.ask("GET", NOWHERE)
    reply.failed(405)
    assert reply.headers["allow"] == "PUT, DELETE, OPTIONS"


def test_more_tiles_than_are_kept_are_refused(api: Api) -> None:
    for _ in range(3):
        api.good("POST", "/tiles", NOTE, 201)
    api.ask("POST", "/tiles", NOTE).failed(409, "dialects.cin.tiles")
    assert len(tiles(api)) == 3

    api.good("DELETE", f"/tiles/{tiles(api)[0]['id']}")
    api.good("POST", "/tiles", NOTE, 201)


def test_tiles_outlive_the_server_even_when_it_is_killed(api: Api) -> None:
    first, second = (api.good("POST", "/tiles", {**NOTE, "text": text}, 201)["tile"] for text in ("one", "two"))
    kept = api.bridge.home.parent / "data" / "cin" / "tiles.json"
    assert kept.stat().st_mode & 0o777 == 0o600

    restarted(api)
    assert tiles(api) == [first, second]

    kept.write_text("{damaged")
    restarted(api)
    assert tiles(api) == []
    assert kept.with_name("tiles.json.damaged").read_text() == "{damaged"
    api.good("POST", "/tiles", NOTE, 201)
    assert len(json.loads(kept.read_text())) == 1


def restarted(api: Api) -> None:
    """Kill the server, and start another on its data."""
    api.close()
    api.bridge.kill()
    asyncio.run(api.bridge.start())
    api.connected()


async def test_every_link_is_shown_each_change_once_and_in_order(api: Api) -> None:
    async with api.bridge.link() as one, api.bridge.link() as other:
        made = (await asyncio.to_thread(api.good, "POST", "/tiles", NOTE, 201))["tile"]
        await asyncio.to_thread(api.good, "PUT", f"/tiles/{made['id']}", {"text": "new"})
        await asyncio.to_thread(api.good, "DELETE", f"/tiles/{made['id']}")
        changed = {**made, "text": "new"}

        for link in (one, other):
            await link.until(lambda link=link: len(of(link.frames, "cin:text_tiles")) >= 3, "three changes")  # type: ignore[misc]
            await link.pong()
            told = of(link.frames, "cin:text_tiles")
            assert [frame["data"] for frame in told] == [[made], [changed], []]
            assert [frame["payload"] for frame in told] == [[made], [changed], []]
            # The first is from the burst that a dashboard's link begins with.
            assert [frame["payload"] for frame in of(link.frames, "text_tiles")] == [[], [made], [changed], []]


async def test_a_link_begins_with_the_tiles_that_there_are(api: Api) -> None:
    made = (await asyncio.to_thread(api.good, "POST", "/tiles", NOTE, 201))["tile"]
    await asyncio.to_thread(restarted, api)

    async with api.bridge.link() as link:
        await link.pong()
        assert [frame["payload"] for frame in of(link.frames, "text_tiles")] == [[made]]


async def test_what_changed_nothing_is_told_to_nobody(api: Api) -> None:
    made = (await asyncio.to_thread(api.good, "POST", "/tiles", NOTE, 201))["tile"]
    async with api.bridge.link() as link:
        await asyncio.to_thread(api.good, "PUT", f"/tiles/{made['id']}", {"text": made["text"]})
        await asyncio.to_thread(api.ask, "DELETE", NOWHERE)
        await link.pong()
        assert of(link.frames, "cin:text_tiles") == []


def test_tiles_of_many_clients_at_once_are_all_kept(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with served(tmp_path) as api:

        def leave(number: int) -> None:
            own = Api(api.bridge)
            try:
                own.good("POST", "/tiles", {**NOTE, "text": str(number)}, 201)
            finally:
                own.close()

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(leave, range(24)))
        assert sorted(int(tile["text"]) for tile in tiles(api)) == list(range(24))
