"""What a client hears whose WebSocket the hub refuses: whether it is its own mistake, or one to try again later."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.dialects.base import Upgrade, Wire
from dragoman.hub.errors import (
    Closed,
    Gone,
    HubError,
    InvalidRequest,
    LimitReached,
    NotReady,
    StorageUnavailable,
    UnknownSession,
)

from .mounted import LIMIT, Named, OneFrame, mounted


class Refusing(Named):
    """Opens no link."""

    def __init__(self, problem: HubError) -> None:
        super().__init__("refusing")
        self._problem = problem

    async def open(self, upgrade: Upgrade, wire: Wire) -> OneFrame:
        raise self._problem


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (UnknownSession("x"), 404),
        (Gone("x", None), 404),
        (InvalidRequest("a cursor that is none"), 400),
        (LimitReached("the server stops"), 503),
        (NotReady(), 503),
        (Closed("x"), 503),
        (StorageUnavailable("the disk is full"), 503),
    ],
    ids=lambda given: given.code if isinstance(given, HubError) else "",
)
async def test_an_upgrade_that_the_server_cannot_take_now_may_be_tried_again(problem: HubError, status: int) -> None:
    async with mounted([Refusing(problem)]) as served, asyncio.timeout(LIMIT):
        assert await served.upgraded("/refusing/ws") == str(status)
