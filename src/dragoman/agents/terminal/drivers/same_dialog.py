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


def names(seen: Dialog, told: Dialog) -> bool:
    """Whether what the screen shows names what a hook told of: the command, the file."""
    if not isinstance(seen.input, dict) or not isinstance(told.input, dict):
        return False
    shown = "".join(str(seen.input.get("text", "")).split())
    return any(
        isinstance(value, str) and value.strip() and "".join(value.split()) in shown for value in told.input.values()
    )


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
    return dialog.tool is not None and dialog.tool == tool and (not _by_program(dialog) or dialog.input == input_)


def is_next_page(old: ScreenDialog, new: ScreenDialog) -> bool:
    """Whether ``new`` is another question, or the review, of the dialog that ``old`` was a page of."""
    if old.kind != "question" or new.kind != "question":
        return False
    if new.review or old.review:
        return bool(old.tabs or new.tabs) or new.review
    return bool(old.tabs) and [tab.label for tab in old.tabs] == [tab.label for tab in new.tabs]


def looks_like(old: ScreenDialog, new: ScreenDialog) -> bool:
    """Whether both offer the same: text may be cut in another way after a resize."""
    return old.kind == new.kind and [row.label for row in old.rows] == [row.label for row in new.rows]
