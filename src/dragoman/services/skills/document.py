"""What a ``SKILL.md`` says: front matter, text, description, triggers.

Front matter is not YAML: flat ``key: value`` lines between two ``---``, and every other line is passed over.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dragoman.services.workspace.files import FileProblem

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
_FENCE = "---"
_FIELD = re.compile(r"([A-Za-z0-9_]+):(.*)")
_BLOCK = frozenset({"|", "|-", "|+", ">", ">-", ">+"})
"""What YAML has before a value of several lines, which are none of ours."""

_TRIGGERS = re.compile(r"\s*TRIGGERS?\s*:(.*)", re.IGNORECASE)

_DESCRIPTION_CHARS = 2000
_MOST_TRIGGERS = 50
_TRIGGER_CHARS = 100

_SHEET = ("spreadsheet", "excel", ".xlsx", "csv", "data table", "chart")
_SLIDES = ("presentation", "slides", "powerpoint", ".pptx", "deck", "pitch")
_DOCUMENT = ("document", "word", ".docx", "report", "letter", "memo")

USUAL_TRIGGERS: dict[str, tuple[str, ...]] = {
    "xlsx": _SHEET,
    "spreadsheet": _SHEET,
    "pptx": _SLIDES,
    "slides": _SLIDES,
    "docx": _DOCUMENT,
    "doc": _DOCUMENT,
    "pdf": ("pdf", ".pdf", "form", "merge", "split"),
}
"""Triggers of skills that go by these names and say none."""


class Document(NamedTuple):
    """A file taken apart. ``body`` begins with its first line that is not blank; ``file`` is all of it."""

    fields: dict[str, str]
    body: str
    file: str


def document(data: bytes) -> Document:
    """Take a ``SKILL.md`` apart. Raises ``FileProblem`` for what is no text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise FileProblem("it is not UTF-8 text") from None
    text = text.removeprefix(_BOM)
    lines = text.split("\n")
    end = _end_of_front_matter(lines)
    fields = dict(field for line in lines[1:end] if (field := _field(line)) is not None)
    return Document(fields, "\n".join(lines[end + 1 :] if end else lines).lstrip(), text)


def description(name: str, given: Document) -> str:
    """What the front matter says; else the first line of the text, a heading's marks left out; else the name."""
    first = next((line for line in given.body.split("\n") if line.strip()), "")
    text = given.fields.get("description", "").strip() or first.strip().lstrip("#").strip() or name
    return text[:_DESCRIPTION_CHARS]


def triggers(name: str, given: Document) -> tuple[str, ...]:
    """What the first line ``TRIGGERS: a, b`` of the text says; else the usual ones of that name; else the name."""
    for line in given.body.split("\n"):
        if (match := _TRIGGERS.fullmatch(line)) is not None:
            words = (word.strip()[:_TRIGGER_CHARS] for word in match[1].split(","))
            said = tuple(word for word in words if word)[:_MOST_TRIGGERS]
            return said or USUAL_TRIGGERS.get(name, (name,))
    return USUAL_TRIGGERS.get(name, (name,))


def _end_of_front_matter(lines: list[str]) -> int:
    """The number of the line that closes it; 0 where there is none."""
    if lines[0].rstrip() != _FENCE:
        return 0
    return next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), 0)


def _field(line: str) -> tuple[str, str] | None:
    match = _FIELD.fullmatch(line.rstrip("\r"))
    if match is None:
        return None
    value = match[2].strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return match[1], "" if value in _BLOCK else value
