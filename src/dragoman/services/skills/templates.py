"""Templates of slash commands: which placeholders they have, and what becomes of them.

``$ARGUMENTS`` stands for all that was typed behind the command, ``$1``, ``$2``… for its words; the highest one takes
what is left of them. Everything is put in at once, so what a person typed is never taken for a placeholder.
"""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(r"\$(?:ARGUMENTS|([1-9][0-9]{0,3})(?![0-9]))")
_WORD = re.compile(r"""\[Image\s+[0-9]+\]|"([^"]*)"(?=\s|$)|'([^']*)'(?=\s|$)|\S+""", re.IGNORECASE)


def hints(template: str) -> tuple[str, ...]:
    """The placeholders, each once: ``$1``, ``$2``… in this order, then ``$ARGUMENTS``."""
    found = {match[0]: int(match[1] or 0) for match in _PLACEHOLDER.finditer(template)}
    rest = found.pop("$ARGUMENTS", None) is not None
    return (*sorted(found, key=lambda each: found[each]), *(("$ARGUMENTS",) if rest else ()))


def expand(template: str, arguments: str) -> str:
    """The template with its arguments; without any placeholder they stand behind it, after a blank line."""
    arguments = arguments.strip()
    numbers = {int(match[1] or 0) for match in _PLACEHOLDER.finditer(template)}
    if not numbers:
        return with_arguments(template, arguments)
    given, highest = words(arguments), max(numbers)

    def stands_for(match: re.Match[str]) -> str:
        number = int(match[1] or 0)
        if number == 0:
            return arguments
        return " ".join(given[number - 1 :] if number == highest else given[number - 1 : number])

    return _PLACEHOLDER.sub(stands_for, template).strip()


def with_arguments(text: str, arguments: str) -> str:
    """A text, and below it the arguments, if there are any."""
    return "\n\n".join(part for part in (text.strip(), arguments.strip()) if part)


def largest(template: str, arguments: str) -> int:
    """Characters that ``expand`` gives at most; never less than it gives."""
    count = sum(1 for _ in _PLACEHOLDER.finditer(template))
    return len(template) + max(count, 1) * (2 * len(arguments) + 2)


def words(arguments: str) -> list[str]:
    """Split at white space. Quotes around words make them one, and are left out; ``[Image 2]`` is one, too.

    A quote counts where a word begins and another ends it: that of ``don't`` is an apostrophe.
    """
    return [
        next((part for part in match.groups() if part is not None), match[0]) for match in _WORD.finditer(arguments)
    ]
