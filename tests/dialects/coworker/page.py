"""The seed's page, taken apart: its headings, examples, types and tables. The page lies beside the repository."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[4] / "shared" / "seeds" / "coworker.md"

TO_SERVER, TO_CLIENT = "Client -> Server Messages", "Server -> Client Events"

Example = dict[str, Any]


@cache
def text() -> str:
    """The page. Skips the test where there is none."""
    if not PAGE.is_file():
        pytest.skip(f"the seed's page is not here: {PAGE.name} is no part of the repository")
    return PAGE.read_text()


def section(title: str) -> str:
    """All below a heading of the second level."""
    return text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def headings(title: str) -> tuple[str, ...]:
    """The message types that a section describes, in order."""
    return tuple(re.findall(r"^### (\w+)$", section(title), re.MULTILINE))


def examples(title: str) -> Iterator[tuple[str, Example]]:
    """Every example of a section, with the heading it stands below."""
    for part in section(title).split("\n### ")[1:]:
        heading = part.partition("\n")[0]
        for block in re.findall(r"```jsonc\n(.*?)```", part, re.DOTALL):
            for example in _values(_without_comments(block)):
                yield heading, example


def lists(title: str) -> dict[str, tuple[str, ...]]:
    """The lists of words below a line such as ``code`` values:."""
    found = re.findall(r"^`(\w+)` values:\n\n((?:- `\w+`\n)+)", section(title), re.MULTILINE)
    return {name: tuple(re.findall(r"- `(\w+)`", words)) for name, words in found}


def part_types() -> dict[str, tuple[set[str], set[str]]]:
    """For each ``partType`` the fields of its part that must be there, and those that may."""
    rows = re.findall(r"^\| `(\w+)` \| `\{ ?(.*?) ?\}` \|$", section(TO_CLIENT), re.MULTILINE)
    return {name: _fields([field for field in fields.split(", ") if field]) for name, fields in rows}


def interface(name: str) -> tuple[set[str], set[str]]:
    """The fields of a type that must be there, and those that may."""
    body = re.search(rf"^interface {name} \{{\n(.*?)^\}}", text(), re.MULTILINE | re.DOTALL)
    assert body is not None, name
    return _fields(re.findall(r"^  (\w+\??):", body[1], re.MULTILINE))


def words(name: str) -> tuple[str, ...]:
    """The values of a type that is one of several words."""
    body = re.search(rf"^type {name} =(.*?);", text(), re.MULTILINE | re.DOTALL)
    assert body is not None, name
    return tuple(re.findall(r'"(.*?)"', body[1]))


def listed(text_: str) -> list[str]:
    """The words of a list that is written as text."""
    return text_.split()


def _fields(names: list[str]) -> tuple[set[str], set[str]]:
    return {name for name in names if name[-1] != "?"}, {name[:-1] for name in names if name[-1] == "?"}


def _without_comments(block: str) -> str:
    return re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*', lambda found: found[1] or "", block)


def _values(block: str) -> Iterator[Example]:
    decoder, at = json.JSONDecoder(), 0
    block = block.strip()
    while at < len(block):
        value, at = decoder.raw_decode(block, at)
        yield value
        at += len(block[at:]) - len(block[at:].lstrip())
