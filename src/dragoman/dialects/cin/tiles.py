"""Text tiles: notes that people leave on their dashboards (spec §2.4, §3.4). Every link is shown all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from dragoman.hub.clock import random_id
from dragoman.hub.permissions import Right

from . import messages as wire
from .calls import Call, Problem, checked_lines, checked_text, ok, resource
from .disk import Disk, Kept
from .settings import CinSettings

if TYPE_CHECKING:
    from .host import Host

Tile = wire.TextTile

Coordinate = Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)]

MISSING = "Missing text or position"
NOT_FOUND = "Tile not found"

COLOR_CHARS = 64


class Cell(msgspec.Struct, frozen=True):
    """Where a client puts a tile."""

    q: Coordinate
    r: Coordinate


class TileBody(msgspec.Struct, frozen=True, kw_only=True):
    """What POST and PUT take; PUT changes what is given."""

    text: str | None = None
    position: Cell | None = None
    color: str | None = None


class Tiles:
    """``announce`` is told of all tiles whenever one has changed."""

    def __init__(self, disk: Disk, path: Path, settings: CinSettings, announce: Callable[[list[Tile]], None]) -> None:
        self._settings = settings
        self._kept: Kept[tuple[Tile, ...]] = Kept(disk, path, tuple[Tile, ...], ())
        self._announce = announce
        self.begin = self._kept.begin

    def all(self) -> list[Tile]:
        """Every tile, the oldest first, once ``begin`` has returned."""
        return list(self._kept.now)

    async def add(self, tile: Tile) -> None:
        """Keep one more. Raises ``Problem`` (409), ``StorageUnavailable``."""

        def added(tiles: tuple[Tile, ...]) -> tuple[Tile, ...]:
            if len(tiles) >= self._settings.tiles:
                raise Problem(409, f"There are {self._settings.tiles} tiles already (dialects.cin.tiles)")
            return (*tiles, tile)

        await self._change(added)

    async def replace(self, name: str, change: Callable[[Tile], Tile | None]) -> Tile | None:
        """Change a tile, or remove it (None). Raises ``Problem`` (404), ``StorageUnavailable``."""
        new: Tile | None = None

        def changed(tiles: tuple[Tile, ...]) -> tuple[Tile, ...]:
            nonlocal new
            at = next((at for at, tile in enumerate(tiles) if tile.id == name), None)
            if at is None:
                raise Problem(404, NOT_FOUND)
            new = change(tiles[at])
            return (*tiles[:at], *(() if new is None else (new,)), *tiles[at + 1 :])

        await self._change(changed)
        return new

    async def _change(self, changed: Callable[[tuple[Tile, ...]], tuple[Tile, ...]]) -> None:
        await self._kept.change(changed, lambda tiles: self._announce(list(tiles)))


def tile_routes(host: Host) -> list[Route]:
    """See the module."""
    return [
        resource(host, "/tiles", GET=listed, POST=created),
        resource(host, "/tiles/{id}", PUT=changed, DELETE=deleted),
    ]


async def listed(call: Call) -> Response:
    """All of them."""
    return ok(tiles=await call.host.tiles.begin())


async def created(call: Call) -> Response:
    """One more."""
    call.check(Right.WRITE)
    body = await call.read(TileBody)
    if not (body.text or "").strip() or body.position is None:
        raise Problem(400, MISSING)
    tile = Tile(
        id=random_id(),
        text=_text(call, body.text),
        position=_position(body.position),
        created_at=call.host.registry.clock.now(),
        color=_color(body.color),
    )
    await call.host.tiles.add(tile)
    return ok(201, tile=tile)


async def changed(call: Call) -> Response:
    """What is given of it; an empty text is none."""
    call.check(Right.WRITE)
    body = await call.read(TileBody)
    changes: dict[str, object] = {}
    if body.text is not None:
        if not body.text.strip():
            raise Problem(400, MISSING)
        changes["text"] = _text(call, body.text)
    if body.position is not None:
        changes["position"] = _position(body.position)
    if body.color is not None:
        changes["color"] = _color(body.color)
    tile = await call.host.tiles.replace(
        call.request.path_params["id"], lambda tile: msgspec.structs.replace(tile, **changes)
    )
    return ok(tile=tile)


async def deleted(call: Call) -> Response:
    """Gone for everybody."""
    call.check(Right.WRITE)
    await call.host.tiles.replace(call.request.path_params["id"], lambda _tile: None)
    return ok()


def _text(call: Call, text: str | None) -> str:
    return checked_lines(text or "", "text", call.host.settings.tile_chars)


def _color(color: str | None) -> str | None:
    return checked_text(color, "color", COLOR_CHARS) if color else None


def _position(cell: Cell) -> wire.Position:
    return wire.Position(cell.q, cell.r)
