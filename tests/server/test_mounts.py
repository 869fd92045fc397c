"""Which dialect a path belongs to (design: prefixes, the short address, a dialect at the root)."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from dragoman.dialects.base import ROOT
from dragoman.server.mounts import Mounts

from .mounted import Named, mounted

COOP, COWORKER, OTHER = Named("coop"), Named("coworker"), Named("other", "/talk")
ALL = (COOP, COWORKER, OTHER)


def found(mounts: Mounts, path: str) -> tuple[str | None, str]:
    dialect, below = mounts.find(path)
    return dialect.name if dialect is not None else None, below


@pytest.mark.parametrize(
    ("root", "path", "name", "below"),
    [
        # every dialect lies below its prefix, whatever is at the root
        (None, "/coop/ws", "coop", "/ws"),
        ("coworker", "/coop/ws", "coop", "/ws"),
        ("coop", "/coworker/ws", "coworker", "/ws"),
        ("coworker", "/coworker/ws", "coworker", "/ws"),
        (None, "/coworker/", "coworker", "/"),
        ("coop", "/coworker/api/v1", "coworker", "/api/v1"),
        # the front's socket has the short address, to the letter
        (None, "/ws", "coworker", "/ws"),
        (None, "/ws/", None, "/ws/"),
        (None, "/ws/more", None, "/ws/more"),
        (None, "/WS", None, "/WS"),
        (None, "//ws", None, "//ws"),
        (None, "/", None, "/"),
        (None, "/coworker", None, "/coworker"),
        # a root dialect has what nobody else has, and its own socket
        ("coworker", "/ws", "coworker", "/ws"),
        ("coworker", "/ws/", "coworker", "/ws/"),
        ("coworker", "/", "coworker", "/"),
        ("coworker", "/coop", "coworker", "/coop"),
        ("coop", "/ws", "coop", "/ws"),
        ("coop", "/api/v1/health", "coop", "/api/v1/health"),
        ("other", "/talk", "other", "/talk"),
        ("other", "/ws", "coworker", "/ws"),
        ("other", "/ws/", "other", "/ws/"),
    ],
)
def test_a_path_belongs_to(root: str | None, path: str, name: str | None, below: str) -> None:
    assert found(Mounts(ALL, root=root, front="coworker"), path) == (name, below)


@pytest.mark.parametrize(
    ("root", "coop", "coworker", "other"),
    [
        (None, "/coop/ws", "/ws", "/other/talk"),
        ("coworker", "/coop/ws", "/ws", "/other/talk"),
        ("coop", "/ws", "/coworker/ws", "/other/talk"),
        ("other", "/coop/ws", "/ws", "/talk"),
    ],
)
def test_each_socket_is_named_by_its_shortest_address(root: str | None, coop: str, coworker: str, other: str) -> None:
    mounts = Mounts(ALL, root=root, front="coworker")
    assert mounts.websockets() == {"coop": coop, "coworker": coworker, "other": other}
    for name, path in mounts.websockets().items():
        assert found(mounts, path)[0] == name


def test_without_a_front_only_prefixes_lead_anywhere() -> None:
    mounts = Mounts(ALL)
    assert found(mounts, "/ws") == (None, "/ws")
    assert mounts.websockets() == {"coop": "/coop/ws", "coworker": "/coworker/ws", "other": "/other/talk"}


async def test_sockets_open_at_both_addresses_of_the_front() -> None:
    async with mounted(ALL, front="coworker") as served:
        assert await served.upgraded("/ws") == "coworker /ws"
        assert await served.upgraded("/coworker/ws") == "coworker /ws"
        assert await served.upgraded("/coop/ws") == "coop /ws"
        assert await served.upgraded("/ws/") == "404"
        assert await served.upgraded("/") == "404"
        assert await served.asked("/ws") == (200, "coworker /ws")
        assert (await served.asked("/elsewhere"))[0] == 404


async def test_a_root_dialect_takes_the_short_address_from_the_front() -> None:
    async with mounted(ALL, root="coop", front="coworker") as served:
        assert await served.upgraded("/ws") == "coop /ws"
        assert await served.upgraded("/coworker/ws") == "coworker /ws"
        assert await served.asked("/ws/") == (200, "coop /ws/")


async def test_a_request_says_where_the_dialects_root_is() -> None:
    async def say(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(f"{scope[ROOT]!r} {scope['path']}")(scope, receive, send)

    async with mounted([Named("other", "/talk", say)], root="other") as served:
        assert await served.asked("/some/path") == (200, "'' /some/path")
        assert await served.asked("/other/some/path") == (200, "'/other' /some/path")
        assert await served.asked("/other/other/path") == (200, "'/other' /other/path")
        assert await served.asked("/other/%20") == (200, "'/other' / ")
        assert await served.asked("/talk") == (200, "'' /talk")
