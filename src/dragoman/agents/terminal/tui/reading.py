"""What an agent's screen says, in words that are the same for all agents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from dragoman.hub.events import DecisionKind


class Row(msgspec.Struct, frozen=True):
    """One option of a dialog.

    ``label`` is without number, marker, check mark and key hint. ``line`` is its line on the screen, from 0. ``number``
    and ``key`` are as shown, None where there is none. ``selected``: the marker stands here. ``checked``: ticked, where
    several rows may be. ``free_text``: what is typed while the marker stands here becomes the answer; then ``label``
    is either the invitation or what was typed.
    """

    label: str
    line: int
    number: int | None = None
    key: str | None = None
    selected: bool = False
    description: str = ""
    checked: bool = False
    free_text: bool = False


class Tab(msgspec.Struct, frozen=True):
    """One question of a dialog that has several pages."""

    label: str
    answered: bool = False
    current: bool = False


class ScreenDialog(msgspec.Struct, frozen=True, kw_only=True):
    """A dialog that is on the screen.

    ``text`` is its question, ``body`` what it is about (the command, the file, the plan) as far as it is shown.
    ``tool`` is the tool's name as the agent's own hooks give it, where the screen tells it for certain. ``tabs`` are
    the questions of a dialog that has pages; ``review`` is its last page, which submits. ``horizontal``: the options
    stand in one line, Left and Right move. ``enter_only``: there is nothing to choose, Enter goes on.
    ``amendable``: Tab turns the row at the marker, a plain yes or no, into a field for a remark.
    ``identity`` is the same as long as it is the same page of the same dialog, wherever the marker stands and
    whatever is typed into it.
    """

    kind: DecisionKind
    subtype: str | None = None
    text: str
    body: str = ""
    tool: str | None = None
    rows: tuple[Row, ...] = ()
    tabs: tuple[Tab, ...] = ()
    review: bool = False
    multiple: bool = False
    horizontal: bool = False
    auth_url: str | None = None
    enter_only: bool = False
    amendable: bool = False
    identity: str


class ScreenReading(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one picture says.

    ``input_box`` is the draft that stands in the input box, "" when it is empty (what the agent itself suggests there
    is no draft), None when no box is shown. ``working``: a spinner is shown, or how to interrupt. ``interrupted``:
    the trace of an Escape is the newest thing in the conversation. ``error``: an API error is.
    """

    dialog: ScreenDialog | None = None
    input_box: str | None = None
    working: bool = False
    interrupted: bool = False
    error: str | None = None


def identity_of(kind: str, text: str, body: str, labels: Iterable[str]) -> str:
    """A dialog's name for itself. ``labels`` are those that nobody can type over."""
    parts = "\0".join((kind, text, body, *labels))
    return hashlib.blake2b(parts.encode(errors="replace"), digest_size=8).hexdigest()


def fixed_labels(rows: Iterable[Row]) -> list[str]:
    """The labels that stay as they are while somebody types."""
    return [row.label for row in rows if not row.free_text]
