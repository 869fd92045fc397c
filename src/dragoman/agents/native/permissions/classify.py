"""May the agent run this command unasked, and if not, how is it asked about."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from .danger import dangerous
from .programs import BUILT_IN, is_outside
from .reading import generous, strict
from .repository import runs_only_git
from .scope import MAX_PATTERNS, Scope
from .table import COMMANDS, EXACT, GIT, READERS
from .verdict import Reason, Verdict

MAX_PARSED = 4_096
"""Characters of a command that may be approved; a longer one is asked about, for each path in it is looked up."""

# Rule 2. In quotes too: the text may be read by a second shell.
_OPERATOR = re.compile(r"[\n\r;&|<>`]|\$\(")


def classify(
    command: str, cwd: str | Path, roots: Iterable[str | Path], env: Mapping[str, str] = os.environ
) -> Verdict:
    """Judge a command line that would run in ``cwd``, with ``env``, and may touch what lies below ``roots``.

    The rules stand in a fixed order, and the first that matches names the reason. Approval rests on the strict
    reading, the table, and the scope of each word; the rules before those word the question. Reads the file system
    (links, patterns, git's configuration), changes nothing, and raises nothing for any text. It takes some ms at worst
    on a local disk; on others call it off the loop.
    """
    return Verdict(_reason(command, Scope(cwd, roots), env))


def _reason(command: str, scope: Scope, env: Mapping[str, str]) -> Reason:
    if dangerous(command):
        return Reason.DANGEROUS
    if _OPERATOR.search(command):
        return Reason.OPERATOR
    if len(command) > MAX_PARSED:
        return Reason.REVIEW
    plain = generous(command)
    if not scope.holds(scope.cwd) or scope.leaves(command, plain):
        return Reason.OUTSIDE
    if re.split(r"\s", plain, maxsplit=1)[0] in READERS:
        return Reason.READS_FILES
    return _listed(command, scope, env)


def _is_the_systems(name: str, scope: Scope, env: Mapping[str, str]) -> bool:
    return name in BUILT_IN or is_outside(name, scope, env)


def _listed(command: str, scope: Scope, env: Mapping[str, str]) -> Reason:
    """Rules 5 and 6: what the table admits is approved, anything else is asked about."""
    if command in EXACT:
        return Reason.SAFE if _is_the_systems(command.split(maxsplit=1)[0], scope, env) else Reason.REVIEW
    words = strict(command)
    if not words or command[0].isspace() or sum(word.pattern for word in words) > MAX_PATTERNS:
        return Reason.REVIEW
    # The words as the shell passes them on: quotes may have held a blank, so that no border of `leaves` saw the path.
    if not all(scope.holds(word.text) for word in words if not word.text.startswith("-")):
        return Reason.OUTSIDE
    if not all(scope.holds_pattern(word.text) for word in words if word.pattern):
        return Reason.OUTSIDE
    name, *rest = words
    if name.text == "git":
        allowed = GIT.get(rest[0].text) if rest else None
        rest = rest[1:]
        safe = allowed is not None and allowed.admits(rest) and runs_only_git(scope, env)
    else:
        allowed = COMMANDS.get(name.text)
        safe = allowed is not None and allowed.admits(rest)
    return Reason.SAFE if safe and not name.pattern and _is_the_systems(name.text, scope, env) else Reason.REVIEW
