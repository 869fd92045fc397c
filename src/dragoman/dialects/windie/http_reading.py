"""What a request carries, as its route has it: the address' query and the JSON body (spec §1, §8).

Whatever is wrong is 422 with all of it in one list, as clients of FastAPI know it.
"""

from __future__ import annotations

import asyncio
import types
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from dragoman.dialects.base import BODY
from dragoman.dialects.bodies import TOO_SLOW, read_body
from dragoman.hub.errors import NOT_JSON

from .fields import Faults, Shape, shaped
from .route import Problem
from .settings import WindieSettings

S = TypeVar("S", bound=Shape)

MOST_PARAMETERS = 100
"""Of an address."""

MOST_DIGITS = 18
"""Of a number in an address."""

_FLAGS = {"true": True, "false": False}


def invalid(loc: list[str | int], text: str, kind: str = "value_error") -> Problem:
    """A request that is not what its route takes, for one reason."""
    return Problem(422, [{"loc": loc, "msg": text, "type": kind}])


def read_query(request: Request, shape: type[S]) -> S:
    """What the address asks for. Raises ``Problem`` (422).

    Parameters that the route does not know are nobody's business (caches add some); one that comes twice is refused.
    """
    kinds = _kinds(shape)
    values: dict[str, Any] = {}
    for name, text in _parameters(request):
        if name not in kinds:
            continue
        if name in values:
            raise invalid(["query", name], "given more than once")
        values[name] = _value(text, kinds[name])
    return _read(values, shape, "query")


async def read_json(request: Request, shape: type[S], settings: WindieSettings) -> S:
    """What the body says; an empty one is an empty object. Raises ``Problem`` (408, 415, 422), ``ClientGone``, and
    ``HTTPException`` for one that is too large."""
    media = request.headers.get("content-type")
    if media is not None and not _is_json(media):
        raise Problem(415, "Content-Type must be application/json")
    allow_body(request, settings.body_limit)
    try:
        data = await read_body(request.receive) or b"{}"
    except TimeoutError:
        raise Problem(408, TOO_SLOW) from None
    if len(data) < settings.offload_bytes:
        return _decoded(data, shape)
    return await asyncio.to_thread(_decoded, data, shape)


def allow_body(request: Request, size: int) -> None:
    """Let the body have so many bytes, whatever the server lets it have else."""
    limit = request.scope.get("extensions", {}).get(BODY)
    if limit is not None:
        limit.size = size


def _is_json(media: str) -> bool:
    kind = media.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _decoded(data: bytes, shape: type[S]) -> S:
    try:
        value = msgspec.json.decode(data)
    except NOT_JSON:
        raise invalid(["body"], "JSON decode error", "json_invalid") from None
    return _read(value, shape, "body")


def _read(value: object, shape: type[S], place: str) -> S:
    faults = Faults()
    found = shaped(value, shape, place, faults)
    if found is None:
        raise Problem(422, [{"loc": _loc(each.loc), "msg": each.text, "type": "value_error"} for each in faults])
    return found


def _loc(dotted: str) -> list[str | int]:
    return [int(part) if part.isascii() and part.isdigit() else part for part in dotted.split(".")]


def _parameters(request: Request) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            request.scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_PARAMETERS,
        )
    except ValueError:
        raise invalid(["query"], "cannot be decoded") from None


def _value(text: str, kind: type) -> Any:
    """What the text says in a field of this type; the text itself where it says no such thing: the reader tells so."""
    if kind is int and text.isascii() and text.removeprefix("-").isdigit() and len(text) <= MOST_DIGITS:
        return int(text)
    return _FLAGS.get(text, text) if kind is bool else text


@cache
def _kinds(shape: type[Shape]) -> dict[str, type]:
    """The type that each parameter has in the end, by its name in the address."""
    hints = get_type_hints(shape, include_extras=True)
    return {field.encode_name: _plain(hints[field.name]) for field in msgspec.structs.fields(shape)}


def _plain(kind: Any) -> Any:
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return _plain(next(each for each in get_args(kind) if each is not type(None)))
    return kind
