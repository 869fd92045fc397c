"""JSON that belongs to somebody else: where its parts lie, and how one is added or taken out with all else as it is.

Order, spacing, names that we do not know and the spelling of every number and string stay. What a part looks like that
is added follows what stands beside it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from .edits import Text
from .problems import CannotInstall

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_COMMENT = re.compile(r"^\s*(//|/\*|#)|[,{}\[\]\"\w]\s*(//|/\*)", re.MULTILINE)

DEPTH = 200
"""How deep settings may be nested."""


class Node:
    """A value between two characters. ``children`` are an array's elements or an object's members, in order."""

    def __init__(self, kind: Literal["object", "array", "other"], start: int) -> None:
        self.kind = kind
        self.start = start
        self.end = start
        self.children: list[Child] = []

    def member(self, name: str) -> Node | None:
        """An object's member."""
        return next((child.value for child in self.children if child.name == name), None)

    def index(self, name: str) -> int:
        """Where among the members it is. Raises ``StopIteration``."""
        return next(number for number, child in enumerate(self.children) if child.name == name)


class Child:
    """An element, or a member with its name; ``start`` is where that begins."""

    def __init__(self, name: str | None, start: int, value: Node) -> None:
        self.name = name
        self.start = start
        self.value = value


def read_json(text: str, what: str) -> dict[str, Any]:
    """The object that a settings file holds. Raises ``CannotInstall`` for anything else, comments too."""
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise CannotInstall(f"{what} is nested too deep") from None
    except ValueError as problem:
        if _COMMENT.search(text):
            raise CannotInstall(
                f"{what} seems to hold comments, and is left alone: take them out, or write the hooks in by hand"
            ) from None
        raise CannotInstall(f"{what} is no JSON, and is left alone: {problem}") from None
    if not isinstance(value, dict):
        raise CannotInstall(f"{what} holds no JSON object, and is left alone")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def nodes(text: str) -> Node:
    """Where everything lies, in JSON that was read without a complaint. Raises ``CannotInstall`` beyond ``DEPTH``."""
    root: Node | None = None
    open_: list[Node] = []
    name: tuple[str, int] | None = None
    for token in _TOKEN.finditer(text):
        word, start = token[0], token.start()
        if word in ",:":
            continue
        if word in "}]":
            open_.pop().end = token.end()
            continue
        if open_ and open_[-1].kind == "object" and name is None:
            name = (json.loads(word), start)
            continue
        node = Node("object" if word == "{" else "array" if word == "[" else "other", start)
        node.end = token.end()
        if open_:
            open_[-1].children.append(Child(name[0] if name else None, name[1] if name else start, node))
        else:
            root = node
        name = None
        if word in "{[":
            open_.append(node)
            if len(open_) > DEPTH:
                raise CannotInstall("the settings are nested too deep")
    assert root is not None
    return root


def add(text: Text, path: tuple[str, ...], value: Any) -> None:
    """Add an element behind the others of the array at ``path``; objects and the array are made where there are none.

    Raises ``CannotInstall`` where something else stands there.
    """
    node = nodes(text.text)
    for depth, name in enumerate(path):
        inner = node.member(name)
        wanted = "array" if depth == len(path) - 1 else "object"
        if inner is None:
            missing: Any = [value]
            for outer in reversed(path[depth + 1 :]):
                missing = {outer: missing}
            _append(text, node, name, missing)
            return
        if inner.kind != wanted:
            raise CannotInstall(f"{'.'.join(path[: depth + 1])} is no {wanted}, and is left alone")
        node = inner
    _append(text, node, None, value)


def remove(text: Text, path: tuple[str | int, ...]) -> None:
    """Take out a member or an element."""
    node = nodes(text.text)
    for step in path[:-1]:
        inner = node.member(step) if isinstance(step, str) else node.children[step].value
        assert inner is not None
        node = inner
    last = path[-1]
    number = node.index(last) if isinstance(last, str) else last
    children = node.children
    if number > 0:
        text.cut(children[number - 1].value.end, children[number].value.end)
    elif len(children) > 1:
        text.cut(children[0].start, children[1].start)
    else:
        text.cut(node.start + 1, node.end - 1)


def _append(text: Text, parent: Node, name: str | None, value: Any) -> None:
    whole = text.text
    if parent.children:
        last = parent.children[-1]
        gap = whole[len(whole[: last.start].rstrip()) : last.start] or ("" if _is_close(whole) else " ")
        text.insert(last.value.end, "," + gap + _member(whole, name, value, gap if "\n" in gap else None))
        return
    newline = _newline(whole)
    if newline is None:
        text.insert(parent.start + 1, _member(whole, name, value, None))
        return
    line = whole[whole.rfind("\n", 0, parent.start) + 1 : parent.start]
    margin = line[: len(line) - len(line.lstrip())]
    inner = newline + margin + _unit(whole)
    text.insert(parent.start + 1, inner + _member(whole, name, value, inner) + newline + margin)


def _member(whole: str, name: str | None, value: Any, gap: str | None) -> str:
    """As text: over several lines, each behind ``gap``, or in one line where there is none."""
    if gap is None:
        close = _is_close(whole)
        said = json.dumps(value, ensure_ascii=False, separators=(",", ":") if close else (", ", ": "))
        return said if name is None else json.dumps(name, ensure_ascii=False) + (":" if close else ": ") + said
    said = json.dumps(value, ensure_ascii=False, indent=_unit(whole)).replace("\n", "\r\n" if "\r\n" in gap else "\n")
    margin = gap[gap.rfind("\n") + 1 :]
    said = said.replace("\n", "\n" + margin)
    return said if name is None else f"{json.dumps(name, ensure_ascii=False)}: {said}"


def _is_close(whole: str) -> bool:
    """Whether it is written without blanks."""
    return '":' in whole and '": ' not in whole


def _newline(whole: str) -> str | None:
    """How lines end here; None where all is in one line, but for a file that holds nothing yet."""
    body = whole.strip()
    if "\n" in body:
        return "\r\n" if "\r\n" in body else "\n"
    return None if len(body) > 2 else "\n"


def _unit(whole: str) -> str:
    """What a level is indented by: as its first line is."""
    found = re.search(r"\{[ \t]*\r?\n([ \t]+)\S", whole)
    return found[1] if found else "  "
