"""The document of all routes is whole, and its schemas are what requests are read with."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

import pytest

from dragoman.dialects.windie.field_schemas import FieldSchemas
from dragoman.dialects.windie.fields import Distinct, Faults, Open, Shape, Text, Whole, shaped
from dragoman.dialects.windie.routes import ROUTES

from .http_rig import WindieServer


async def test_every_route_is_in_it_and_nothing_else(closed_server: WindieServer) -> None:
    assert (await closed_server.get("/api/openapi.json")).status == 401
    told = (await closed_server.get("/api/openapi.json", (await closed_server.register())["install_token"])).json
    listed = {f"{method.upper()} {path}" for path, methods in told["paths"].items() for method in methods}
    assert listed == {f"{route.method} {route.path}" for route in ROUTES}
    assert len(listed) == len(ROUTES), "a route stands in the table twice"
    names = Counter(operation["operationId"] for methods in told["paths"].values() for operation in methods.values())
    assert [name for name, times in names.items() if times > 1] == []
    assert all(ref in told["components"]["schemas"] for ref in _refs(told))


def _refs(value: Any) -> set[str]:
    """The names of all schemas that are referred to."""
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(_refs, value.values()))
    return set().union(*map(_refs, value)) if isinstance(value, list) else set()


class Inner(Open, frozen=True, kw_only=True):
    """May have other fields."""

    below: str | None = None


class Outer(Shape, frozen=True, kw_only=True):
    """One field of each kind."""

    text: str
    named: Annotated[str, Text(least=1, most=3, pattern="[a-z]+")]
    filled: Annotated[str, Text(trim=True, filled=True, most=9)]
    blank: Annotated[str, Text(blank_is_null=True, most=9)] | None = None
    word: Literal["a", "b"] = "b"
    number: Annotated[int, Whole(1, 5)] = 2
    flag: bool = True
    entries: Annotated[tuple[Annotated[str, Text(least=1)], ...], Distinct] = ()
    inner: Inner | None = None
    by_name: Annotated[dict[str, bool], Text(pattern="[a-z]")] = {}
    anything: Any = None


def test_a_shape_is_described_by_its_rules() -> None:
    schemas = FieldSchemas()
    assert schemas.of(Outer) == {"$ref": "#/components/schemas/Outer"}
    assert schemas.components["Inner"] == {
        "type": "object",
        "description": "May have other fields.",
        "properties": {"below": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": [],
        "additionalProperties": True,
    }
    outer = schemas.components["Outer"]
    assert outer["required"] == ["text", "named", "filled"]
    assert outer["additionalProperties"] is False
    assert outer["properties"] == {
        "text": {"type": "string"},
        "named": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^(?:[a-z]+)$"},
        "filled": {"type": "string", "maxLength": 9, "pattern": r"\S"},
        "blank": {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]},
        "word": {"enum": ["a", "b"], "default": "b"},
        "number": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
        "flag": {"type": "boolean", "default": True},
        "entries": {"type": "array", "items": {"type": "string", "minLength": 1}, "default": ()},
        "inner": {"anyOf": [{"$ref": "#/components/schemas/Inner"}, {"type": "null"}]},
        "by_name": {
            "type": "object",
            "additionalProperties": {"type": "boolean"},
            "propertyNames": {"type": "string", "pattern": "^(?:[a-z])$"},
        },
        "anything": {},
    }


async def test_it_says_what_each_route_wants_to_be_shown(open_server: WindieServer) -> None:
    paths = (await open_server.get("/api/openapi.json")).json["paths"]
    assert paths["/api/install/register"]["post"]["security"] == [{"server": []}, {"server_query": []}, {}]
    assert paths["/api/install/me"]["get"]["security"] == [{"install": []}, {}]
    assert paths["/api/runs/"]["post"]["security"] == [{"install": [], "runs": []}, {"runs": []}]
    both = {"runs": [], "runs_control": []}
    assert paths["/api/runs/stop-all"]["post"]["security"] == [{"install": [], **both}, both]


@pytest.mark.parametrize(
    ("given", "kept"),
    [({"number": 3.0}, 3), ({"number": 3.5}, None), ({"number": True}, None), ({"number": 6.0}, None)],
)
def test_a_whole_number_is_one_however_it_is_written(given: dict[str, Any], kept: int | None) -> None:
    """As in JSON Schema, by which clients may check what they send."""
    found = shaped({"text": "", "named": "a", "filled": "a", **given}, Outer, "", Faults())
    assert (None if found is None else found.number) == kept
    assert found is None or isinstance(found.number, int)
