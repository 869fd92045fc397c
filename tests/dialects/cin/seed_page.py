"""The types of the seed's page, and whether a value is one of them.

``tests/data/cin/seed/types.ts`` is what the page says, in its own words: what is checked here is never what our code
believes that the page says.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "data" / "cin" / "seed"

_DEFINED = re.compile(r"^(?:interface (\w+)(?: extends (\w+))? |type (\w+) =)", re.MULTILINE)
_TOKEN = re.compile(r"\s*('[^']*'|Record<string, unknown>|\w+|\[\]|[{}|:;?=])")

_PLAIN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "Record<string, unknown>": (dict,),
}


@dataclass(frozen=True)
class Named:
    """A name: of a type of the page, or one of TypeScript's own."""

    name: str


@dataclass(frozen=True)
class Word:
    """One literal text."""

    text: str


@dataclass(frozen=True)
class Many:
    """An array."""

    item: Type


@dataclass(frozen=True)
class Either:
    """One of several."""

    options: tuple[Type, ...]


@dataclass(frozen=True)
class Field:
    """A member of an object."""

    name: str
    required: bool
    type: Type


@dataclass(frozen=True)
class Object:
    """An object with these members, in the page's order."""

    fields: tuple[Field, ...]

    def field(self, name: str) -> Field | None:
        """Its member of that name."""
        return next((field for field in self.fields if field.name == name), None)


Type = Named | Word | Many | Either | Object


@functools.cache
def types() -> dict[str, Type]:
    """Every type that the page defines, by its name and in its order; an interface has its base's members first."""
    text = (FOLDER / "types.ts").read_text("utf-8")
    starts = [*_DEFINED.finditer(text)]
    ends = [*[found.start() for found in starts[1:]], len(text)]
    found: dict[str, Type] = {}
    for start, end in zip(starts, ends, strict=True):
        made = _Reader(text[start.end() : end]).type()
        base = found[start[2]] if start[2] else None
        if isinstance(base, Object) and isinstance(made, Object):
            own = {field.name for field in made.fields}
            made = Object(tuple(field for field in base.fields if field.name not in own) + made.fields)
        found[start[1] or start[3]] = made
    return found


def interface(name: str) -> Object:
    """One of the page's interfaces."""
    found = types()[name]
    assert isinstance(found, Object), name
    return found


def words(name: str) -> tuple[str, ...]:
    """The literals of one of the page's unions, in its order."""
    found = types()[name]
    assert isinstance(found, Either), name
    return tuple(option.text for option in found.options if isinstance(option, Word))


def messages() -> dict[str, Object]:
    """The page's messages by what their ``type`` is."""
    return {_tag(made): made for name, made in types().items() if name.startswith("WS") and isinstance(made, Object)}


def events() -> dict[str, Object]:
    """The page's events by what their ``type`` is."""
    union = types()["AgentEvent"]
    assert isinstance(union, Either)
    made = [interface(option.name) for option in union.options if isinstance(option, Named)]
    return {_tag(one): one for one in made}


def examples() -> Iterator[dict[str, Any]]:
    """The page's examples."""
    for line in (FOLDER / "examples.jsonl").read_text("utf-8").splitlines():
        yield json.loads(line)


def checklist() -> tuple[str, ...]:
    """What the page asks of a server, line by line."""
    return _checklists()[0]


def client_checklist() -> tuple[str, ...]:
    """What the page asks of a client, line by line."""
    return _checklists()[1]


def _checklists() -> tuple[tuple[str, ...], tuple[str, ...]]:
    server, client = (FOLDER / "checklist.txt").read_text("utf-8").split("\n\n")
    return tuple(server.splitlines()), tuple(client.splitlines())


def unlike(value: Any, wanted: Type | str, where: str = "it") -> list[str]:
    """Why a value is not of that type, each reason in a line; members that the page does not name may be there."""
    kind = Named(wanted) if isinstance(wanted, str) else wanted
    match kind:
        case Named("unknown"):
            return []
        case Named("AgentEvent"):
            return event_problems(value, where)
        case Named(name) if name in _PLAIN:
            fits = isinstance(value, _PLAIN[name]) and (name == "boolean" or not isinstance(value, bool))
            return [] if fits else [f"{where} is {value!r}, no {name}"]
        case Named(name):
            return unlike(value, types()[name], where)
        case Word(text):
            return [] if value == text else [f"{where} is {value!r}, not {text!r}"]
        case Either(options):
            return [] if any(not unlike(value, one) for one in options) else [f"{where} is {value!r}: none of these"]
        case Many(item):
            if not isinstance(value, list):
                return [f"{where} is {value!r}, no list"]
            return [line for at, one in enumerate(value) for line in unlike(one, item, f"{where}[{at}]")]
    return _object_problems(value, kind, where)


def event_problems(value: Any, where: str = "event") -> list[str]:
    """As ``unlike``, for an event of whatever type it says that it is."""
    known = events().get(value.get("type", "")) if isinstance(value, dict) else None
    return [f"{where} is none of the page's events: {value!r}"] if known is None else unlike(value, known, where)


def _object_problems(value: Any, kind: Object, where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where} is {value!r}, no object"]
    found: list[str] = []
    for field in kind.fields:
        if field.name in value:
            found += unlike(value[field.name], field.type, f"{where}.{field.name}")
        elif field.required:
            found.append(f"{where} has no {field.name}")
    return found


def _tag(made: Object) -> str:
    field = made.field("type")
    assert field is not None
    assert isinstance(field.type, Word)
    return field.type.text


def _word(token: str) -> Word | Named:
    return Word(token[1:-1]) if token.startswith("'") else Named(token)


class _Reader:
    """Reads what stands behind ``interface X`` or ``type X =``."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def type(self) -> Type:
        """A type, up to where it ends."""
        self._skip("|")
        options = [self._one()]
        while self._skip("|"):
            options.append(self._one())
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _one(self) -> Type:
        token = self._next()
        made = self._members() if token == "{" else _word(token)
        return Many(made) if self._skip("[]") else made

    def _members(self) -> Object:
        fields: list[Field] = []
        while not self._skip("}"):
            name = self._next()
            required = not self._skip("?")
            assert self._next() == ":"
            fields.append(Field(name, required, self.type()))
            assert self._next() == ";"
        return Object(tuple(fields))

    def _skip(self, token: str) -> bool:
        there = self._at < len(self._tokens) and self._tokens[self._at] == token
        self._at += there
        return there

    def _next(self) -> str:
        self._at += 1
        return str(self._tokens[self._at - 1])
