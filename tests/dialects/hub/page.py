"""The parts of ``docs/dialects/hub.md`` that are made from the code.

``python -m tests.dialects.hub.page`` renews them.
"""

from __future__ import annotations

import ast
import inspect
import re
import typing
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import inspect as shapes

from dragoman.dialects.hub import settings as settings_module
from dragoman.dialects.hub.settings import HubDialectSettings
from dragoman.hub import events

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "hub.md"

_INVARIANT = re.compile(r" \(invariants? [^)]*\)")

_WORDS = {
    shapes.StrType: "text",
    shapes.IntType: "int",
    shapes.FloatType: "number",
    shapes.BoolType: "bool",
    shapes.AnyType: "JSON",
    shapes.DictType: "object",
}


def made() -> dict[str, str]:
    """The parts by their names."""
    return {"settings": _settings(), "facts": _facts(), "parts": _parts()}


def renewed(page: str) -> str:
    """The page with its parts as they should be."""
    for name, text in made().items():
        before, begin, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        assert end, f"the page has no place for {name}"
        page = f"{before}{begin}{text}\n{end}{after}"
    return page


def _settings() -> str:
    told = _docstrings(settings_module.HubDialectSettings)
    lines = ["| name | default | meaning |", "|---|---|---|"]
    fields = msgspec.structs.fields(HubDialectSettings)
    lines += [f"| `{field.name}` | {field.default:,} | {told[field.name]} |" for field in fields]
    return "\n".join(lines)


def _docstrings(kind: type) -> dict[str, str]:
    """Field -> the string that stands below it."""
    body = typing.cast("ast.ClassDef", ast.parse(inspect.getsource(kind)).body[0]).body
    told = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(field.target, ast.Name):
            told[field.target.id] = " ".join(str(ast.literal_eval(text.value)).replace("``", "`").split())
    return told


def _facts() -> str:
    lines = ["| `type` | fields | |", "|---|---|---|"]
    lines += [f"| `{info.tag}` | {_fields(info, 'origin')} | {_told(info.cls)} |" for info in _facts_known()]
    return "\n".join(lines)


def _parts() -> str:
    lines = ["| part | fields | |", "|---|---|---|"]
    parts: dict[str, shapes.StructType] = {}
    for fact in _facts_known():
        for field in fact.fields:
            _collect(field.type, parts)
    lines += [f"| {name} | {_fields(info)} | {_told(info.cls)} |" for name, info in sorted(parts.items())]
    return "\n".join(lines)


def _facts_known() -> list[shapes.StructType]:
    return typing.cast("list[shapes.StructType]", [shapes.type_info(kind) for kind in typing.get_args(events.AnyFact)])


def _collect(kind: shapes.Type, parts: dict[str, shapes.StructType]) -> None:
    """Every object that a type may hold."""
    if isinstance(kind, shapes.UnionType):
        for one in kind.types:
            _collect(one, parts)
    elif isinstance(kind, shapes.VarTupleType | shapes.ListType):
        _collect(kind.item_type, parts)
    elif isinstance(kind, shapes.StructType) and kind.cls.__name__ not in parts:
        parts[kind.cls.__name__] = kind
        for field in kind.fields:
            _collect(field.type, parts)


def _told(kind: type) -> str:
    first = (kind.__doc__ or "").strip().split("\n\n")[0]
    return _INVARIANT.sub("", " ".join(first.split()).replace("``", "`"))


def _fields(info: shapes.StructType, leave_out: str = "") -> str:
    return ", ".join(_field(field) for field in info.fields if field.name != leave_out)


def _field(field: shapes.Field) -> str:
    usual = isinstance(field.default, str | int) and field.default not in ("", False)
    default = f" = {str(field.default).lower()}" if usual else ""
    return f"`{field.encode_name}`{'' if field.required else '?'} {_word(field.type)}{default}"


def _word(kind: shapes.Type) -> str:
    if isinstance(kind, shapes.UnionType):
        return "/".join(dict.fromkeys(_word(one) for one in kind.types if not isinstance(one, shapes.NoneType)))
    if isinstance(kind, shapes.LiteralType):
        return "(" + " ".join(map(str, kind.values)) + ")"
    if isinstance(kind, shapes.VarTupleType | shapes.ListType):
        return f"[{_word(kind.item_type)}]"
    if isinstance(kind, shapes.StructType):
        return kind.cls.__name__
    return _WORDS[type(kind)]


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
