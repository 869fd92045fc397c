"""The OpenAPI 3.1 document: paths from the route table, schemas from the types themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from . import bodies
from . import messages as ask
from . import replies as tell
from .errors import STATUS, ErrorBody

if TYPE_CHECKING:
    from .route import Route

_IN_PATH = re.compile(r"{(\w+)}")
_TAPE_HEADERS = ("Tape-Offset", "Tape-Next", "Tape-End")

SERVER_MESSAGES: tuple[type, ...] = (
    tell.Hello,
    tell.Heartbeat,
    tell.Gone,
    tell.Skipped,
    tell.Resized,
    tell.Started,
    tell.Ended,
    tell.StreamError,
    tell.Calls,
    tell.CallOver,
    tell.SignInLine,
    tell.DeclaredTools,
    tell.Attached,
    tell.Followed,
    tell.TapePiece,
)
"""Types of the WebSocket that no route mentions."""


@cache
def document(routes: Sequence[Route]) -> bytes:
    """The whole document as JSON. Servers are relative: it is right wherever the dialect is mounted."""
    types = [kind for route in routes for kind in (route.query, route.body, route.result) if kind is not None]
    every = list(dict.fromkeys([*types, ErrorBody, *SERVER_MESSAGES, *ask.MESSAGES]))
    schemas, components = msgspec.json.schema_components(every, ref_template="#/components/schemas/{name}")
    refs = dict(zip(every, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs, components)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "dragoman hub",
                "version": str(ask.PROTOCOL),
                "description": "Sessions, their logs and their terminals. docs/dialects/hub.md is the same in prose.",
            },
            "servers": [{"url": "."}],
            "security": [{"bearer": []}, {"query": []}, {}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "bearer": {"type": "http", "scheme": "bearer"},
                    "query": {"type": "apiKey", "in": "query", "name": "token"},
                },
            },
            "x-websocket": {
                "path": "/ws",
                "client": {"oneOf": [refs[kind] for kind in ask.MESSAGES]},
                "server": {"anyOf": [refs[kind] for kind in SERVER_MESSAGES]},
            },
        }
    )


def _operation(route: Route, refs: dict[type, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__.strip("_"),
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route, components)],
        "responses": {
            str(route.status): _success(route, refs),
            "default": {
                "description": "Refused: " + ", ".join(sorted(STATUS)),
                "content": {"application/json": {"schema": refs[ErrorBody]}},
            },
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": refs[route.body]}}}
        operation["requestBody"]["required"] = bool(components[route.body.__name__].get("required"))
    if route.body in (bodies.PromptBody, bodies.CommandBody):
        operation["parameters"].append(
            {"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string"}}
        )
    if not operation["parameters"]:
        del operation["parameters"]
    return operation


def _success(route: Route, refs: dict[type, Any]) -> dict[str, Any]:
    schema = refs[route.result] if route.result is not None else {}
    success: dict[str, Any] = {"description": "Done", "content": {route.media: {"schema": schema}}}
    if route.media == "application/octet-stream":
        success["headers"] = {name: {"schema": {"type": "integer"}} for name in _TAPE_HEADERS}
    return success


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _IN_PATH.findall(route.path)
    ]


def _query_parameters(route: Route, components: dict[str, Any]) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    properties = components[route.query.__name__]["properties"]
    return [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in properties.items()]
