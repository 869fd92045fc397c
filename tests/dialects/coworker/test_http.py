"""The HTTP side of agent-coworker (spec: Process, transport, connection)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from dragoman.dialects.coworker.routes import WEBSOCKET, make_routes
from dragoman.server.health import livez
from tests.server.mounted import Mounted, Named, mounted

OK = (200, "OK")
FAILED = (400, "WebSocket upgrade failed")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@pytest.fixture(params=["/", "/coworker/"], ids=["root", "prefix"])
async def below(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Mounted, str]]:
    """The dialect at the root and below its prefix: the rule is the same there."""
    page = Starlette(routes=[Route("/livez", livez)])
    dialects = [Named("coworker", WEBSOCKET, make_routes()), Named("hub")]
    root = "coworker" if request.param == "/" else None
    async with mounted(dialects, root=root, front="coworker", pages={"/livez": page}) as served:
        yield served, request.param


@pytest.mark.parametrize("method", METHODS)
async def test_every_path_but_one_is_ok_by_any_method(below: tuple[Mounted, str], method: str) -> None:
    served, root = below
    for path in ("", "ws/", "ws/more", "WS", "any/path?of=it", "%20"):
        assert await served.asked(root + path, method) == OK, path


@pytest.mark.parametrize("method", METHODS)
async def test_the_address_of_the_socket_wants_an_upgrade(below: tuple[Mounted, str], method: str) -> None:
    served, root = below
    assert await served.asked(root + "ws", method) == FAILED
    assert await served.asked(root + "ws?session=x", method) == FAILED


async def test_head_is_answered_without_a_body(below: tuple[Mounted, str]) -> None:
    served, root = below
    assert await served.asked(root, "HEAD") == (200, "")
    assert await served.asked(root + "ws", "HEAD") == (400, "")


async def test_a_body_is_taken_and_passed_over(below: tuple[Mounted, str]) -> None:
    served, root = below
    assert await served.asked(root, "POST", b"x" * 100_000) == OK


async def test_at_the_root_it_leaves_the_servers_own_pages_and_other_prefixes_alone() -> None:
    page = Starlette(routes=[Route("/livez", livez)])
    dialects = [Named("coworker", WEBSOCKET, make_routes()), Named("hub")]
    async with mounted(dialects, root="coworker", front="coworker", pages={"/livez": page}) as served:
        assert await served.asked("/livez") == (200, "alive\n")
        assert await served.asked("/hub/sessions") == (200, "hub /sessions")
        assert await served.asked("/hub") == OK


async def test_without_a_root_dialect_only_its_own_addresses_are_its() -> None:
    dialects = [Named("coworker", WEBSOCKET, make_routes()), Named("hub")]
    async with mounted(dialects, front="coworker") as served:
        assert await served.asked("/ws") == FAILED
        assert await served.asked("/coworker/ws") == FAILED
        assert await served.asked("/coworker/ws/") == OK
        assert (await served.asked("/"))[0] == 404
        assert (await served.asked("/ws/"))[0] == 404
