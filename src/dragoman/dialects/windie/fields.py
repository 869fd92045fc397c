"""What is wrong with an object, all of it at once, and where: ``<loc>: <msg>; <loc>: <msg>`` (spec §4).

A message is a struct of annotated fields; what a field's text or number must be is a rule beside its type. Each struct
is turned into a reader once. A reader stops at no fault: it goes on with the next field, so that a client is told of
every field that it has to change.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

TOLD = 16
"""Faults of a message that are told; a client has a use for no more, and it decides how many there are."""

TOLD_NAME = 64
"""Characters of an unknown field's name that are told."""

S = TypeVar("S", bound="Shape")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """An object that may have only the fields it names."""

    def faults(self) -> Iterator[Fault]:
        """What is wrong between fields that are right one by one; ``loc`` is relative to this object."""
        return iter(())


class Open(Shape, frozen=True, kw_only=True):
    """An object that may have any field; ``extra`` has what it does not name."""

    extra: dict[str, Any] = {}


@dataclass(frozen=True)
class Fault:
    """One fault. ``loc`` is dotted; what the client sent there is not repeated, as it may be a secret."""

    loc: str
    text: str

    def __str__(self) -> str:
        return f"{self.loc}: {self.text}" if self.loc else self.text


class Faults:
    """The faults of a message. All are counted, as a reader asks whether there are new ones; ``TOLD`` are kept."""

    def __init__(self) -> None:
        self._found: list[Fault] = []
        self._count = 0

    def add(self, loc: str, text: str) -> None:
        """One more."""
        self._count += 1
        if len(self._found) < TOLD:
            self._found.append(Fault(loc, text))

    @property
    def full(self) -> bool:
        """Whether one more would not be told: there is no use in looking further."""
        return self._count >= TOLD

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Fault]:
        """Those that are told."""
        return iter(self._found)

    def __str__(self) -> str:
        return "; ".join(map(str, self._found))


@dataclass(frozen=True)
class Text:
    """What a text must be. Lengths are characters, counted after ``trim``; ``blank_is_null`` trims, too."""

    least: int = 0
    most: int | None = None
    pattern: str | None = None
    trim: bool = False
    filled: bool = False
    blank_is_null: bool = False

    def read(self, value: str, loc: str, faults: Faults) -> str | None:
        """The text as it is kept."""
        kept = value.strip() if self.trim or self.blank_is_null else value
        if self.blank_is_null and not kept:
            return None
        wrong = self._wrong(kept)
        if wrong is not None:
            faults.add(loc, wrong)
        return kept

    def _wrong(self, kept: str) -> str | None:
        if self.filled and not kept.strip():
            return "must not be blank"
        if len(kept) < self.least:
            return f"must have at least {self.least} characters"
        if self.most is not None and len(kept) > self.most:
            return f"must have at most {self.most} characters"
        if self.pattern is not None and re.fullmatch(self.pattern, kept) is None:
            return f"must match {self.pattern}"
        return None


@dataclass(frozen=True)
class Whole:
    """The bounds of a whole number, both allowed."""

    least: int
    most: int


class Distinct:
    """Of a list's equal entries only the first is kept."""


Reader = Callable[[Any, str, Faults], Any]
"""Makes of a JSON value, found at a loc, what is kept. What it returns after it has added a fault is not to be used."""


def shaped(value: object, shape: type[S], loc: str, faults: Faults) -> S | None:
    """The value as such a shape; None when there were faults, which are added with ``loc`` before theirs."""
    known = len(faults)
    found = _reader(shape)(value, loc, faults)
    return found if len(faults) == known and isinstance(found, shape) else None


@cache
def _reader(kind: Any) -> Reader:
    """How a value of this type is read."""
    rules: tuple[Any, ...] = ()
    if get_origin(kind) is Annotated:
        kind, *given = get_args(kind)
        rules = tuple(given)
    if kind is Any:
        return _anything
    if isinstance(kind, type) and issubclass(kind, Shape):
        return _object(kind)
    return _BY_ORIGIN[get_origin(kind) or kind](kind, rules)


def _anything(value: Any, loc: str, faults: Faults) -> Any:
    del loc, faults
    return value


def _optional(kind: Any, rules: tuple[Any, ...]) -> Reader:
    del rules
    (inner,) = (each for each in get_args(kind) if each is not type(None))
    read = _reader(inner)
    return lambda value, loc, faults: None if value is None else read(value, loc, faults)


def _choice(kind: Any, rules: tuple[Any, ...]) -> Reader:
    del rules
    allowed = get_args(kind)
    text = "must be " + " or ".join(f"'{each}'" if isinstance(each, str) else str(each) for each in allowed)

    def read(value: Any, loc: str, faults: Faults) -> Any:
        for each in allowed:
            # Python's ``True`` is 1, JSON's is not; JSON's 1.0 is.
            if value == each and isinstance(value, bool) == isinstance(each, bool):
                return each
        faults.add(loc, text)
        return value

    return read


def _text(kind: Any, rules: tuple[Any, ...]) -> Reader:
    del kind
    rule: Text = next((each for each in rules if isinstance(each, Text)), Text())

    def read(value: Any, loc: str, faults: Faults) -> Any:
        if not isinstance(value, str):
            faults.add(loc, "must be a string")
            return None
        return rule.read(value, loc, faults)

    return read


def _flag(kind: Any, rules: tuple[Any, ...]) -> Reader:
    del kind, rules

    def read(value: Any, loc: str, faults: Faults) -> Any:
        if not isinstance(value, bool):
            faults.add(loc, "must be true or false")
        return value

    return read


def _whole(kind: Any, rules: tuple[Any, ...]) -> Reader:
    del kind
    (bounds,) = (each for each in rules if isinstance(each, Whole))

    def read(value: Any, loc: str, faults: Faults) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # to JSON it is one, however it is written
        if not isinstance(value, int) or isinstance(value, bool):
            faults.add(loc, "must be an integer")
        elif not bounds.least <= value <= bounds.most:
            faults.add(loc, f"must be from {bounds.least} to {bounds.most}")
        return value

    return read


def _list(kind: Any, rules: tuple[Any, ...]) -> Reader:
    read_entry = _reader(get_args(kind)[0])
    distinct = Distinct in rules

    def read(value: Any, loc: str, faults: Faults) -> Any:
        if not isinstance(value, list):
            faults.add(loc, "must be a list")
            return None
        known = len(faults)
        entries: list[Any] = []
        for index, entry in enumerate(value):
            entries.append(read_entry(entry, f"{loc}.{index}", faults))
            if faults.full:
                break
        return tuple(dict.fromkeys(entries) if distinct and len(faults) == known else entries)

    return read


def _mapping(kind: Any, rules: tuple[Any, ...]) -> Reader:
    read_entry = _reader(get_args(kind)[1])
    names: Text | None = next((each for each in rules if isinstance(each, Text)), None)

    def read(value: Any, loc: str, faults: Faults) -> Any:
        if not isinstance(value, dict):
            faults.add(loc, "must be an object")
            return None
        if read_entry is _anything and names is None:
            return value
        return {key: _entry(key, entry, loc, faults) for key, entry in value.items()}

    def _entry(key: str, entry: Any, loc: str, faults: Faults) -> Any:
        below = f"{loc}.{key[:TOLD_NAME]}"
        if names is not None:
            names.read(key, below, faults)
        return read_entry(entry, below, faults)

    return read


def _object(shape: type[Shape]) -> Reader:
    hints = get_type_hints(shape, include_extras=True)
    named = {
        field.encode_name: (field.name, field.required, _reader(hints[field.name]))
        for field in msgspec.structs.fields(shape)
        if field.name != "extra"
    }
    is_open = issubclass(shape, Open)

    def read(value: Any, loc: str, faults: Faults) -> Any:
        if not isinstance(value, dict):
            faults.add(loc, "must be an object")
            return None
        known = len(faults)
        kept = {}
        for key, (name, required, read_field) in named.items():
            if key in value:
                kept[name] = read_field(value[key], f"{loc}.{key}" if loc else key, faults)
            elif required:
                faults.add(f"{loc}.{key}" if loc else key, "field required")
        unknown = {key: entry for key, entry in value.items() if key not in named}
        if is_open:
            kept["extra"] = unknown
        else:
            for key in islice(unknown, TOLD):
                faults.add(f"{loc}.{key[:TOLD_NAME]}" if loc else key[:TOLD_NAME], "unknown field")
        return None if len(faults) > known else _whole_object(shape(**kept), loc, faults)

    return read


def _whole_object(made: Shape, loc: str, faults: Faults) -> Shape:
    for fault in made.faults():
        faults.add(f"{loc}.{fault.loc}" if loc else fault.loc, fault.text)
    return made


_BY_ORIGIN: dict[Any, Callable[[Any, tuple[Any, ...]], Reader]] = {
    Union: _optional,
    types.UnionType: _optional,
    Literal: _choice,
    tuple: _list,
    dict: _mapping,
    str: _text,
    bool: _flag,
    int: _whole,
}
