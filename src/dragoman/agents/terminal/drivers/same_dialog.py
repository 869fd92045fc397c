"""When reports of a dialog mean the same one, and what they say together. Pure.

A hook knows what it is about: the tool, its input. The screen knows how it looks: its words, its rows.
"""

from __future__ import annotations

import msgspec

from dragoman.agents.common.observation import Dialog
from dragoman.agents.terminal.tui.reading import ScreenDialog
from dragoman.hub.events import Json, Option, Question


def takes_secret(about: Dialog, shown: ScreenDialog | None) -> bool:
    """Whether what is typed into it may be a code or a key: a field of a set-up dialog, or nobody knows what yet."""
    if shown is None:
        return about.kind == "setup" or (about.tool is None and not about.text)
    return about.kind == "setup" and not shown.rows and not shown.enter_only


def dialog_shown(dialog: ScreenDialog) -> Dialog:
    """What a dialog on the screen tells by itself."""
    options = tuple(Option(row.label, description=row.description or None) for row in dialog.rows)
    questions: tuple[Question, ...] = ()
    if dialog.kind == "question" and not dialog.review:
        questions = (Question(dialog.text, options, multiple=dialog.multiple),)
        if dialog.tabs:  # the others are not on the screen yet
            questions = tuple(
                questions[0] if tab.current else Question(tab.label, header=tab.label) for tab in dialog.tabs
            )
    return Dialog(
        kind=dialog.kind,
        text=dialog.text,
        subtype=dialog.subtype,
        tool=dialog.tool,
        input={"text": dialog.body} if dialog.kind == "permission" and dialog.body else None,
        auth_url=dialog.auth_url,
        options=options,
        questions=questions,
    )


def with_page(questions: tuple[Question, ...], dialog: ScreenDialog, position: int) -> tuple[Question, ...]:
    """The questions, with the one that stands on the screen now; its rows were not known before it did."""
    if dialog.review or position >= len(questions) or questions[position].options:
        return questions
    options = tuple(Option(row.label, description=row.description or None) for row in dialog.rows)
    shown = Question(dialog.text, options, header=questions[position].header, multiple=dialog.multiple)
    return (*questions[:position], shown, *questions[position + 1 :])


def joined(told: Dialog, seen: Dialog) -> Dialog:
    """What a hook told and the screen shows: the hook knows better what it is about, the screen how it looks."""
    return msgspec.structs.replace(
        told,
        kind=seen.kind if told.kind == "permission" and told.tool is None else told.kind,
        text=told.text or seen.text,
        subtype=told.subtype or seen.subtype,
        tool=told.tool or seen.tool,
        input=told.input if told.input is not None else seen.input,
        call=told.call or seen.call,
        auth_url=told.auth_url or seen.auth_url,
        options=seen.options or told.options,
        questions=told.questions or seen.questions,
    )


def may_be_same(one: Dialog, other: Dialog) -> bool:
    """Whether nothing that both tell speaks against it."""
    if one.call is not None and other.call is not None and one.call != other.call:
        return False
    if one.kind != other.kind and "permission" not in (one.kind, other.kind):
        return False
    if one.kind != other.kind and (one.tool is not None and other.tool is not None):
        return False
    if one.tool is not None and other.tool is not None and one.tool != other.tool:
        return False
    return not (_by_program(one) and _by_program(other)) or one.input == other.input


CHIEF = ("command", "file_path", "notebook_path", "absolute_path", "path", "url", "query")
"""What of a tool's input tells one use from another; a description beside it may be the same for many."""

CUT = 160
"""Signs, blanks left out, of what is shown from which on it may be only the beginning or the end of a longer text."""


def fits(told: Dialog, seen: Dialog) -> bool:
    """Whether what was told can be about what the screen shows: nobody may approve one thing and be shown another."""
    if not may_be_same(told, seen):
        return False
    if told.questions and seen.questions:
        asked = {_letters(question.question) for question in told.questions}
        return any(_letters(question.question) in asked for question in seen.questions if question.options)
    return not _subject(seen) or not _subjects(told) or names(seen, told)


def names(seen: Dialog, told: Dialog) -> bool:
    """Whether what the screen shows names what a hook told of: the command, the file."""
    shown = _subject(seen)
    words = set(str(seen.input["text"]).split()) if shown and isinstance(seen.input, dict) else set()
    return bool(shown) and any(_shows(shown, words, value) for value in _subjects(told))


def _shows(shown: str, words: set[str], value: str) -> bool:
    whole = "".join(value.split())
    if whole in shown or (len(shown) >= CUT and whole.endswith(shown)):
        return True
    if len(shown) >= CUT and whole.startswith(shown.rstrip("….")):
        return True
    # A file is shown by its path from the folder that the agent works in.
    return value.startswith("/") and any(value.endswith(f"/{word}") for word in words)


def _subject(seen: Dialog) -> str:
    """What a dialog on the screen is about, blanks left out."""
    return "".join(str(seen.input.get("text", "")).split()) if isinstance(seen.input, dict) else ""


def _subjects(told: Dialog) -> list[str]:
    """What a hook tells of its input that the screen could show."""
    if not _by_program(told) or not isinstance(told.input, dict):
        return []
    said = {name: value for name, value in told.input.items() if isinstance(value, str) and value.strip()}
    chief = next((said[name] for name in CHIEF if name in said), None)
    return list(said.values()) if chief is None else [chief]


def _letters(text: str) -> str:
    """A text without what is lost when it is drawn: room, marks."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def _by_program(dialog: Dialog) -> bool:
    """Whether its input came from the program, not from what the screen shows."""
    return dialog.input is not None and not (isinstance(dialog.input, dict) and set(dialog.input) == {"text"})


def same(one: Dialog, other: Dialog) -> bool:
    """Whether both are about the same use of the same tool."""
    return (one.kind, one.tool, one.input) == (other.kind, other.tool, other.input)


def is_about(dialog: Dialog, call: str | None, tool: str | None, input_: Json) -> bool:
    """Whether a dialog asked about this tool call."""
    if dialog.call is not None and call is not None:
        return dialog.call == call
    return dialog.tool is not None and dialog.tool == tool and _by_program(dialog) and dialog.input == input_


def is_next_page(old: ScreenDialog, new: ScreenDialog) -> bool:
    """Whether ``new`` is another question, or the review, of the dialog that ``old`` was a page of."""
    if old.kind != "question" or new.kind != "question":
        return False
    if new.review:
        return True
    return bool(old.tabs) and [tab.label for tab in old.tabs] == [tab.label for tab in new.tabs]


def looks_like(old: ScreenDialog, new: ScreenDialog) -> bool:
    """Whether both ask and offer the same, but for how their lines are cut."""
    return _words(old) == _words(new)


def but_for_typing(old: ScreenDialog, new: ScreenDialog) -> bool:
    """Whether only the row at which the marker stands says something else: somebody types there."""
    if (old.kind, old.text, old.body, len(old.rows)) != (new.kind, new.text, new.body, len(new.rows)):
        return False
    pairs = zip(old.rows, new.rows, strict=True)
    return all(was.label == row.label or (was.selected and row.selected) for was, row in pairs)


def _words(dialog: ScreenDialog) -> tuple[object, ...]:
    labels = ["".join(row.label.split()) for row in dialog.rows]
    return dialog.kind, "".join(dialog.text.split()), "".join(dialog.body.split()), labels
