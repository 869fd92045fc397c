"""Placeholders of slash commands: one row for each rule."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.services.skills.templates import expand, hints, largest, words

HINTS = {
    "none": ("plain", ()),
    "all": ("$ARGUMENTS", ("$ARGUMENTS",)),
    "numbers in order, then all": ("$10 $ARGUMENTS $2 $1", ("$1", "$2", "$10", "$ARGUMENTS")),
    "each once": ("$1 $1 $ARGUMENTS $ARGUMENTS", ("$1", "$ARGUMENTS")),
    "there is no zeroth": ("$0 $00 $01", ()),
    "nor one of letters": ("$x $ $$ $arguments", ()),
    "nor one without end": ("$" + "9" * 5000, ()),
    "nor one of other digits": ("$\N{ARABIC-INDIC DIGIT ONE}", ()),
}


@pytest.mark.parametrize(("template", "found"), HINTS.values(), ids=HINTS.keys())
def test_hints(template: str, found: tuple[str, ...]) -> None:
    assert hints(template) == found


EXPANSIONS = {
    "all of it, trimmed": ("args: $ARGUMENTS", "  a   b ", "args: a   b"),
    "the highest number takes the rest": ("Hello $1 and $2", "Ann 'Bob C' dave", "Hello Ann and Bob C dave"),
    "a single one takes everything": ("[$1]", "a 'b c' d", "[a b c d]"),
    "a gap leaves words out": ("$1 $3", "a b c d", "a c d"),
    "missing words are empty": ("Say hello to $1 and rest $2", "", "Say hello to  and rest"),
    "to nothing at all": ("$1", "", ""),
    "without a placeholder behind a blank line": ("plain", " extra words ", "plain\n\nextra words"),
    "or not, where nothing was typed": ("plain", "  ", "plain"),
    "both kinds": ("$1 of $ARGUMENTS", "a b", "a b of a b"),
    "what is typed is no placeholder": ("$ARGUMENTS / $1 / $2", "$2 $1", "$2 $1 / $2 / $1"),
    "nor a group of a pattern": (r"$1 $ARGUMENTS", r"\1 \g<0> $&", r"\1 \g<0> $& \1 \g<0> $&"),
    "numbers of two digits": ("$10|$1", "a b c d e f g h i j k", "j k|a"),
    "zero stays": ("$0 $1", "a", "$0 a"),
    "quotes stay in what is typed whole": ("$ARGUMENTS", "'a b'", "'a b'"),
}


@pytest.mark.parametrize(("template", "arguments", "text"), EXPANSIONS.values(), ids=EXPANSIONS.keys())
def test_expansion(template: str, arguments: str, text: str) -> None:
    assert expand(template, arguments) == text


WORDS = {
    "white space": (" a\tb\n c ", ["a", "b", "c"]),
    "double quotes": ('a "b c" d', ["a", "b c", "d"]),
    "single quotes": ("a 'b c' d", ["a", "b c", "d"]),
    "one kind within the other": ('"it\'s" \'say "x"\'', ["it's", 'say "x"']),
    "nothing in quotes is a word": ("'' \"\"", ["", ""]),
    "an apostrophe is none": ("don't stop 'til", ["don't", "stop", "'til"]),
    "nor is one in a name and one behind it": ("'tis the season's end", ["'tis", "the", "season's", "end"]),
    "a quote that nobody ends": ('"a b', ['"a', "b"]),
    "a quote in a word": ('--x="a b"', ['--x="a', 'b"']),
    "images": ("see [Image 1] and [image  22]", ["see", "[Image 1]", "and", "[image  22]"]),
    "no image": ("[Image x]", ["[Image", "x]"]),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("arguments", "split"), WORDS.values(), ids=WORDS.keys())
def test_words(arguments: str, split: list[str]) -> None:
    assert words(arguments) == split


pieces = st.lists(
    st.sampled_from(["$1", "$2", "$10", "$ARGUMENTS", "$", "'", '"', " ", "\n", "[Image 1]", "a"]) | st.text()
)
texts = pieces.map("".join)


@given(texts, texts)
def test_expansion_never_fails_and_is_bounded(template: str, arguments: str) -> None:
    text = expand(template, arguments)
    assert len(text) <= largest(template, arguments)
    assert text == text.strip()


@given(texts, texts)
def test_everything_is_put_in_at_once(template: str, arguments: str) -> None:
    """Placeholders that were typed come out as they went in: put a mark for each, and it is the same."""
    marked = arguments.replace("$", "\ue000")
    template = template.replace("\ue000", "")
    assert expand(template, marked).replace("\ue000", "$") == expand(template, arguments.replace("\ue000", "$"))


@given(texts)
def test_hints_are_the_placeholders_that_count(template: str) -> None:
    found = hints(template)
    assert len(set(found)) == len(found)
    assert all(re.fullmatch(r"\$(ARGUMENTS|[1-9][0-9]{0,3})", hint) and hint in template for hint in found)
    if not found:
        assert expand(template, "") == template.strip()


@given(st.lists(st.sampled_from(["'", '"', "a", " ", "b c"]), max_size=2000).map("".join))
def test_splitting_takes_no_long_time_and_loses_no_letter(arguments: str) -> None:
    letters = [letter for letter in arguments if letter not in "'\" "]
    assert [letter for word in words(arguments) for letter in word if letter not in "'\" "] == letters
