"""Set-up dialogs that need no human: what ``--groom auto`` answers (coop's table), by what the rows say."""

from __future__ import annotations

from dragoman.agents.terminal.tui.choose import find_row
from dragoman.agents.terminal.tui.reading import ScreenDialog

_FIRST = frozenset({"security_notes", "login_success", "terminal_setup", "theme_picker"})
_YES = frozenset({"trust", "settings_error"})


def groomed_row(dialog: ScreenDialog) -> int | None:
    """The row to take, from 0; None for a dialog that is left to a human."""
    if dialog.subtype in _FIRST:
        return 0
    if dialog.subtype in _YES:
        return find_row(dialog, label=None, number=None, accept=True)
    return None
