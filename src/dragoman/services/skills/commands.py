"""Slash commands of a folder: built in, of the configuration, and one for each skill."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dragoman.hub.skills import Command
from dragoman.hub.workspace_config import CommandTemplate

from .shelf import Listed
from .templates import hints

_TEMPLATES = Path(__file__).parent / "commands"

_DESCRIPTIONS = {
    "init": "create/update AGENTS.md",
    "review": "review changes [commit|branch|pr], defaults to uncommitted",
}


class Defined(NamedTuple):
    """A command and what it means: a ``template``, or else the text of a ``skill``."""

    command: Command
    template: str = ""
    skill: Listed | None = None


def built_in_commands() -> tuple[Defined, ...]:
    """``/init`` and ``/review``. Reads their texts from the package."""
    return tuple(
        _from_template(name, (_TEMPLATES / f"{name}.txt").read_text(encoding="utf-8").strip(), text)
        for name, text in _DESCRIPTIONS.items()
    )


def commands_by_name(
    built_in: Iterable[Defined], configured: dict[str, CommandTemplate], skills: Iterable[Listed]
) -> dict[str, Defined]:
    """All of them by casefolded name. The configuration's take the place of built-in ones; a skill's needs a free name.

    A skill without a text has none. Its text is no template: a ``$3`` in it is an amount of money.
    """
    found = {defined.command.name.casefold(): defined for defined in built_in}
    for name, given in configured.items():
        command = Command(name=name, source=given.source, hints=hints(given.template), description=given.description)
        found[name.casefold()] = Defined(command, given.template)
    for listed in skills:
        skill = listed.skill
        if skill.enabled and not listed.blank:
            command = Command(name=skill.name, source="skill", hints=(), description=skill.description)
            found.setdefault(skill.name.casefold(), Defined(command, skill=listed))
    return found


def _from_template(name: str, template: str, description: str) -> Defined:
    command = Command(name=name, source="command", hints=hints(template), description=description)
    return Defined(command, template)
