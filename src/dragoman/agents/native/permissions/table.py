"""The commands that may run unasked, each with every option it may have.

A list of what is allowed, never of what is forbidden: an option that is not here, an abbreviation, or a value of
another shape is asked about. None of these writes, runs another program, or follows a link out of the folders it is
given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .reading import Word, words


class Allowed(NamedTuple):
    """What one command may be given: ``letters`` in clusters, ``names`` alone, ``values`` as ``--name=value``.

    ``operands`` are words that are no option; ``patterns`` lets the shell expand ``*`` and ``?`` in them.
    """

    letters: str = ""
    names: frozenset[str] = frozenset()
    values: Mapping[str, re.Pattern[str]] = {}
    operands: bool = True
    patterns: bool = False

    def admits(self, words: Sequence[Word]) -> bool:
        """Whether every word is one that this command may be given."""
        options = True
        for word in words:
            if word.pattern and (not self.patterns or word.text.startswith("-")):
                return False
            if options and word.text == "--":
                options = False
            elif options and word.text.startswith("-") and word.text != "-":
                if not self._option(word.text):
                    return False
            elif not self.operands:
                return False
        return True

    def _option(self, text: str) -> bool:
        name, given, value = text.partition("=")
        if given:
            return name in self.values and self.values[name].fullmatch(value) is not None
        return text in self.names or (not text.startswith("--") and set(self.letters).issuperset(text[1:]))


_NUMBER = re.compile(r"[0-9]{1,9}")
_TEXT = re.compile(r"[^%]*")
# `%G…` would start a program that checks signatures.
_FORMAT = re.compile(r"(?:[^%]|%(?![GC(<>+ -]))*")
_WHEN = re.compile(r"always|never|auto")

_DIFF = words(
    "-p -u --patch --stat --shortstat --numstat --dirstat --summary --name-only --name-status --raw "
    "--no-color --color --minimal --patience --histogram --word-diff --no-renames --check "
    "--no-ext-diff --no-textconv --no-patch --ignore-all-space --ignore-space-change "
    "--ignore-blank-lines --exit-code --quiet --cached --staged --merge-base"
)
_DIFF_VALUES = {"--unified": _NUMBER, "--color": _WHEN, "--diff-filter": re.compile(r"[A-Za-z]+")}
_LOG = words(
    "--oneline --graph --all --decorate --abbrev-commit --reverse --follow --merges --no-merges "
    "--first-parent --branches --tags --remotes --no-decorate --date-order --topo-order "
    "--author-date-order"
)

GIT: Mapping[str, Allowed] = {
    "status": Allowed("sb", words("--short --branch --porcelain --long --show-stash --ignored --no-renames")),
    "diff": Allowed("wbR", _DIFF, _DIFF_VALUES),
    "log": Allowed(
        "0123456789",
        _DIFF - {"--quiet", "--cached", "--staged", "--merge-base"} | _LOG | {"-n"},
        {
            **_DIFF_VALUES,
            **dict.fromkeys(("--max-count", "--skip"), _NUMBER),
            **dict.fromkeys(("--since", "--until", "--after", "--before", "--author", "--grep"), _TEXT),
            **dict.fromkeys(("--format", "--pretty"), _FORMAT),
            "--date": re.compile(r"short|iso|relative|iso-strict|local|human"),
        },
    ),
    # Any operand would make or move a branch.
    "branch": Allowed(
        "arv",
        words("--all --remotes --verbose --list --show-current --merged --no-merged"),
        operands=False,
    ),
}
"""Git's reading commands. They are approved only in a repository that runs nothing by itself (``repository``)."""

COMMANDS: Mapping[str, Allowed] = {
    # Neither -L nor -H: with -R they walk through links.
    "ls": Allowed(
        "aABCFGSUXcfghiklmnopqrstux1dR",
        words(
            "--all --almost-all --human-readable --recursive --reverse --size --inode --directory --classify "
            "--numeric-uid-gid --group-directories-first --full-time --no-group --color"
        ),
        {
            "--color": _WHEN,
            "--sort": re.compile(r"none|size|time|version|extension"),
            "--time": re.compile(r"atime|ctime|mtime|birth"),
            "--time-style": re.compile(r"full-iso|long-iso|iso|locale"),
        },
        patterns=True,
    ),
    "echo": Allowed("neE", patterns=True),
    "which": Allowed("a"),
    "type": Allowed("aptPf"),
}

EXACT = frozenset(("pwd", "node --version", "bun --version"))
"""Whole commands, approved only letter by letter (`pwd ` is asked about)."""

READERS = frozenset(("cat", "head", "tail", "man"))
"""Commands that show files, asked about under a reason of their own."""
