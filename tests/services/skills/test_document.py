"""``SKILL.md`` taken apart: one row for each rule of front matter, description and triggers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.services.skills.document import USUAL_TRIGGERS, description, document, triggers
from dragoman.services.workspace.files import FileProblem

PARTS = {
    "none": ("# Title\n\ntext\n", {}, "# Title\n\ntext\n"),
    "flat lines": (
        "---\nname: x\ndescription: Does it\n---\ntext\n",
        {"name": "x", "description": "Does it"},
        "text\n",
    ),
    "a byte order mark before it": ("\ufeff---\na: b\n---\nt", {"a": "b"}, "t"),
    "a byte order mark without it": ("\ufefftext", {}, "text"),
    "carriage returns": ("---\r\na: b\r\n---\r\nt\r\n", {"a": "b"}, "t\r\n"),
    "white space behind fences": ("---  \na: b\n--- \t\nt", {"a": "b"}, "t"),
    "nothing in it": ("---\n---\nt", {}, "t"),
    "nothing behind it": ("---\na: b\n---", {"a": "b"}, ""),
    "never closed: it is the text": ("---\na: b\n", {}, "---\na: b\n"),
    "not in the first line: it is the text": ("\n---\na: b\n---\n", {}, "---\na: b\n---\n"),
    "more dashes are none": ("----\na: b\n----\n", {}, "----\na: b\n----\n"),
    "a fence is no part of a line": ("---\na: b\n  ---\n---\nt", {"a": "b"}, "t"),
    "quotes are stripped": ("---\na: 'b c'\nd: \"e\"\n---\n", {"a": "b c", "d": "e"}, ""),
    "one quote is not": ("---\na: 'b\nc: '\nd: \"e'\n---\n", {"a": "'b", "c": "'", "d": "\"e'"}, ""),
    "nested lines are passed over": ("---\na: b\nm:\n  c: d\n\te: f\n - g\n---\n", {"a": "b", "m": ""}, ""),
    "so are comments": ("---\n# a: b\n#c: d\ne: f\n---\n", {"e": "f"}, ""),
    "so are other names": ("---\nsome-thing: b\nü: c\n: d\na b: c\na1_: x\n---\n", {"a1_": "x"}, ""),
    "values keep colons and marks": ("---\na: b: c # d\n---\n", {"a": "b: c # d"}, ""),
    "the last of a name counts": ("---\na: b\na: c\n---\n", {"a": "c"}, ""),
    "no space is needed": ("---\na:b\n---\n", {"a": "b"}, ""),
    "a value of several lines is none": ("---\na: >-\n  b\nc: |\n  d\n---\n", {"a": "", "c": ""}, ""),
    "blank lines before the text go": ("---\na: b\n---\n\n \n  text\n", {"a": "b"}, "text\n"),
}


@pytest.mark.parametrize(("text", "fields", "body"), PARTS.values(), ids=PARTS.keys())
def test_parts(text: str, fields: dict[str, str], body: str) -> None:
    assert document(text.encode()) == (fields, body, text.removeprefix("\ufeff"))


DESCRIPTIONS = {
    "of the front matter": ("---\ndescription: This\n---\nThat", "This"),
    "else the first line": ("---\na: b\n---\n\nThat\nother", "That"),
    "a heading without its marks": ("# The Heading\ntext", "The Heading"),
    "where it is blank": ("---\ndescription: ''\n---\n## Two", "Two"),
    "where it has several lines": ("---\ndescription: >\n  folded\n---\nThat", "That"),
    "else the name": ("---\na: b\n---\n", "skill"),
    "also for a heading of nothing": ("###\ntext", "skill"),
}


@pytest.mark.parametrize(("text", "said"), DESCRIPTIONS.values(), ids=DESCRIPTIONS.keys())
def test_description(text: str, said: str) -> None:
    assert description("skill", document(text.encode())) == said


def test_a_description_has_an_end() -> None:
    assert len(description("skill", document(b"a" * 100_000))) == 2000


TRIGGERS = {
    "of the first such line": ("skill", "# T\n\nTRIGGERS: a, b c ,, d\nTRIGGERS: x", ("a", "b c", "d")),
    "one is enough": ("skill", "Trigger: only", ("only",)),
    "in any case, with space around": ("skill", "\n  triggers :  a", ("a",)),
    "of the text, not of the front matter": ("skill", "---\ntriggers: x\n---\n", ("skill",)),
    "not in the middle of a line": ("skill", "The TRIGGERS: a", ("skill",)),
    "above the usual ones": ("pdf", "TRIGGERS: mine", ("mine",)),
    "a line of nothing": ("skill", "TRIGGERS: , ,", ("skill",)),
    "else the name": ("skill", "", ("skill",)),
    "xlsx": ("xlsx", "", ("spreadsheet", "excel", ".xlsx", "csv", "data table", "chart")),
    "spreadsheet": ("spreadsheet", "", ("spreadsheet", "excel", ".xlsx", "csv", "data table", "chart")),
    "pptx": ("pptx", "", ("presentation", "slides", "powerpoint", ".pptx", "deck", "pitch")),
    "slides": ("slides", "", ("presentation", "slides", "powerpoint", ".pptx", "deck", "pitch")),
    "docx": ("docx", "", ("document", "word", ".docx", "report", "letter", "memo")),
    "doc": ("doc", "", ("document", "word", ".docx", "report", "letter", "memo")),
    "pdf": ("pdf", "", ("pdf", ".pdf", "form", "merge", "split")),
}


@pytest.mark.parametrize(("name", "text", "said"), TRIGGERS.values(), ids=TRIGGERS.keys())
def test_triggers(name: str, text: str, said: tuple[str, ...]) -> None:
    assert triggers(name, document(text.encode())) == said


def test_what_is_no_text() -> None:
    with pytest.raises(FileProblem, match="it is not UTF-8 text"):
        document(b"---\na: \xff\n---\n")


@given(st.lists(st.sampled_from(["---", "a: b", "TRIGGERS: a", "#", " ", "\r", "\ufeff"]) | st.text()).map("\n".join))
def test_any_text_can_be_taken_apart(text: str) -> None:
    given_ = document(text.encode(errors="replace"))
    assert not given_.body[:1].isspace()
    assert description("name", given_)
    assert triggers("name", given_)
    assert all(triggers(name, given_) for name in USUAL_TRIGGERS)


@given(
    st.dictionaries(st.from_regex(r"[A-Za-z0-9_]{1,9}", fullmatch=True), st.from_regex(r"[a-z]{0,9}", fullmatch=True))
)
def test_front_matter_comes_back_as_it_was_written(fields: dict[str, str]) -> None:
    lines = "".join(f"{name}: {value}\n" for name, value in fields.items())
    text = f"---\n{lines}---\n\nbody"
    assert document(text.encode()) == (fields, "body", text)
