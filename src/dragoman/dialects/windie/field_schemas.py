"""What a ``Shape`` takes, as JSON Schema: from the same types and rules that its reader follows (``fields``)."""

from __future__ import annotations

import types
from collections.abc import Collection
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from .fields import Open, Shape, Text, Whole

Schema = dict[str, Any]

REF = "#/components/schemas/{name}"

_NOT_BLANK = r"\S"


class FieldSchemas:
    """Schemas of shapes, and of the types of their fields; every shape that is met gets a component of its own name,
    or, where that is ``taken``, one beginning with ``Sent``."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = taken
        self.components: dict[str, Schema] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of values of this type: a reference where it is a shape."""
        rules: tuple[Any, ...] = ()
        if get_origin(kind) is Annotated:
            kind, *given = get_args(kind)
            rules = tuple(given)
        if isinstance(kind, type) and issubclass(kind, Shape):
            return self._shape(kind)
        origin = get_origin(kind) or kind
        if origin in (Union, types.UnionType):
            return {"anyOf": [{"type": "null"} if each is type(None) else self.of(each) for each in get_args(kind)]}
        return self._plain(origin, kind, rules)

    def fields(self, shape: type[Shape]) -> dict[str, tuple[Schema, bool]]:
        """The schema of each field by its name on the wire, and whether it must be there."""
        hints = get_type_hints(shape, include_extras=True)
        return {
            field.encode_name: (self._with_default(self.of(hints[field.name]), field), field.required)
            for field in msgspec.structs.fields(shape)
            if field.name != "extra"
        }

    def _shape(self, shape: type[Shape]) -> Schema:
        name = f"Sent{shape.__name__}" if shape.__name__ in self._taken else shape.__name__
        if name not in self.components:
            fields = self.fields(shape)
            self.components[name] = {
                "type": "object",
                "description": (shape.__doc__ or "").strip(),
                "properties": {name: schema for name, (schema, _) in fields.items()},
                "required": [name for name, (_, required) in fields.items() if required],
                "additionalProperties": issubclass(shape, Open),
            }
        return {"$ref": REF.format(name=name)}

    def _plain(self, origin: Any, kind: Any, rules: tuple[Any, ...]) -> Schema:
        if origin is tuple:
            return {"type": "array", "items": self.of(get_args(kind)[0])}
        if origin is dict:
            names = next((_text(each) for each in rules if isinstance(each, Text)), None)
            return {
                "type": "object",
                "additionalProperties": self.of(get_args(kind)[1]),
                **({"propertyNames": names} if names is not None else {}),
            }
        return _simple(origin, kind, rules)

    def _with_default(self, schema: Schema, field: msgspec.structs.FieldInfo) -> Schema:
        if field.default in (msgspec.NODEFAULT, None, msgspec.UNSET) or isinstance(field.default, msgspec.Struct):
            return schema
        return {**schema, "default": msgspec.to_builtins(field.default)}


def _simple(origin: Any, kind: Any, rules: tuple[Any, ...]) -> Schema:
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if origin is str:
        return _text(next((each for each in rules if isinstance(each, Text)), Text()))
    if origin is int:
        (bounds,) = (each for each in rules if isinstance(each, Whole))
        return {"type": "integer", "minimum": bounds.least, "maximum": bounds.most}
    if origin is bool:
        return {"type": "boolean"}
    assert kind is Any, f"no reader takes {kind}"
    return {}


def _text(rule: Text) -> Schema:
    """Of a text that is trimmed, what is said here holds before it is: less than what is taken, never more."""
    schema: Schema = {"type": "string"}
    if rule.most is not None:
        schema["maxLength"] = rule.most
    if rule.blank_is_null:
        return schema
    if rule.least:
        schema["minLength"] = rule.least
    if rule.pattern is not None:
        schema["pattern"] = f"^(?:{rule.pattern})$"
    elif rule.filled or (rule.trim and rule.least):
        schema["pattern"] = _NOT_BLANK
    return schema
