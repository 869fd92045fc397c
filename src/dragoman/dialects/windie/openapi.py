"""The OpenAPI 3.1 document: paths from the table of routes, schemas from the types that requests are read with."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request

from .field_schemas import REF, FieldSchemas, Schema
from .host import Host
from .http_auth import GUARDED, REGISTER
from .install_routes import may_register
from .route import Route
from .run_routes import CONTROL_KEY, KEY, with_control_key, with_key

TITLE = "WindieOS's protocol, as dragoman serves it"

_IN_PATH = re.compile(r"{(\w+)}")

_SCHEMES: dict[str, Schema] = {
    "install": {"type": "http", "scheme": "bearer", "description": "An install's token, or the server's own."},
    "server": {"type": "http", "scheme": "bearer", "description": "The server's own token."},
    "server_query": {"type": "apiKey", "in": "query", "name": "token", "description": "The server's own token."},
    "runs": {"type": "apiKey", "in": "header", "name": KEY},
    "runs_control": {"type": "apiKey", "in": "header", "name": CONTROL_KEY},
}

_GUARD_SCHEMES: dict[Callable[[Host, Request], None], str] = {with_key: "runs", with_control_key: "runs_control"}

_FORM: Schema = {
    "type": "object",
    "properties": {"file": {"type": "string", "format": "binary"}},
    "required": ["file"],
    "additionalProperties": False,
}

_REFUSED: Schema = {
    "type": "object",
    "description": "Why a request was refused: a text, an object, or a list of all that is wrong with what was sent.",
    "properties": {
        "detail": {
            "anyOf": [
                {"type": "string"},
                {"type": "object"},
                {"type": "array", "items": {"$ref": REF.format(name="RefusedField")}},
            ]
        }
    },
    "required": ["detail"],
}

_REFUSED_FIELD: Schema = {
    "type": "object",
    "properties": {
        "loc": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        "msg": {"type": "string"},
        "type": {"type": "string"},
    },
    "required": ["loc", "msg", "type"],
}

_INSTALL_REFUSALS = {401: "No install's token, or a wrong one", 503: "Installs cannot be told now"}
_QUERY_REFUSALS = {422: "What the address asks for cannot be"}
_BODY_REFUSALS = {
    408: "The body comes too slowly",
    413: "The body is too large",
    415: "The body is no JSON",
    422: "What the body says cannot be",
}


def document(routes: Sequence[Route]) -> bytes:
    """The whole document as JSON. Its server is relative: it is right wherever the dialect is mounted."""
    answers = list(dict.fromkeys(route.answer for route in routes if route.answer is not None))
    told, components = msgspec.json.schema_components(answers, ref_template=REF)
    fields = FieldSchemas(taken=components)
    known = dict(zip(answers, told, strict=True))
    paths: dict[str, dict[str, Schema]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, fields, known)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": TITLE, "version": "1", "description": "docs/dialects/windie.md says it in prose."},
            "servers": [{"url": ".."}],
            "paths": paths,
            "components": {
                "schemas": {
                    **fields.components,
                    **components,
                    "Refused": _REFUSED,
                    "RefusedField": _REFUSED_FIELD,
                },
                "securitySchemes": _SCHEMES,
            },
        }
    )


def _operation(route: Route, fields: FieldSchemas, answers: dict[Any, Schema]) -> Schema:
    operation: Schema = {
        "operationId": route.handler.__name__.strip("_"),
        "summary": route.summary,
        "security": _security(route),
        "parameters": [*_path_parameters(route), *_query_parameters(route, fields)],
        "responses": {str(status): answer for status, answer in sorted(_responses(route, answers).items())},
    }
    if route.streams:
        operation["requestBody"] = {"content": {"multipart/form-data": {"schema": _FORM}}, "required": True}
    elif route.body is not None:
        schema = fields.of(route.body)
        needed = any(required for _, required in fields.fields(route.body).values())
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}, "required": needed}
    return operation


def _security(route: Route) -> list[dict[str, list[str]]]:
    """Each entry is enough. Where the server asks for no install's token, the rest alone is."""
    if may_register in route.guards:
        return [{"server": []}, {"server_query": []}, {}]
    keys: dict[str, list[str]] = {_GUARD_SCHEMES[guard]: [] for guard in route.guards}
    return [{"install": [], **keys}, keys]


def _path_parameters(route: Route) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _IN_PATH.findall(route.path)
    ]


def _query_parameters(route: Route, fields: FieldSchemas) -> list[Schema]:
    if route.query is None:
        return []
    return [
        {"name": name, "in": "query", "required": required, "schema": _in_address(schema)}
        for name, (schema, required) in fields.fields(route.query).items()
    ]


def _in_address(schema: Schema) -> Schema:
    """An address cannot say null: what may be, is left out."""
    if "anyOf" not in schema:
        return schema
    (told,) = (each for each in schema["anyOf"] if each != {"type": "null"})
    return {**told, **{key: value for key, value in schema.items() if key != "anyOf"}}


def _responses(route: Route, answers: dict[Any, Schema]) -> dict[int, Schema]:
    schema = answers[route.answer] if route.answer is not None else {}
    content = {media: {"schema": schema} for media in route.media.split(", ")}
    responses: dict[int, Schema] = {200: {"description": "Done", "content": content}}
    for status, text in sorted(_refusals(route).items()):
        if status == 304:
            responses[status] = {"description": text}
        elif status < 400:
            responses[status] = {"description": text, "content": content}
        else:
            refused = {"application/json": {"schema": {"$ref": REF.format(name="Refused")}}}
            responses[status] = {"description": text, "content": refused}
    return responses


def _refusals(route: Route) -> dict[int, str]:
    """What it may answer besides; two reasons for one status are both told."""
    found: dict[int, str] = {}
    guarded = route.path.startswith(GUARDED) and route.path != REGISTER
    for told in (
        _INSTALL_REFUSALS if guarded else {},
        _QUERY_REFUSALS if route.query is not None else {},
        _BODY_REFUSALS if route.body is not None else {},
        route.refusals,
    ):
        for status, text in told.items():
            found[status] = f"{found[status]}; {text[0].lower()}{text[1:]}" if status in found else text
    return found
