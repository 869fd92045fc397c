"""The destructive verbs, with the holes of the original closed.

Searched anywhere in the text, also in quotes, because ``sh -c``, ``xargs``, ``ssh`` and ``eval`` make a command of any
argument. A hit only words the question more loudly, so the table may cry wolf; nothing is approved for want of a hit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from .reading import generous, words

MAX_SEARCHED = 16_384
"""Characters searched. What is longer, nobody can review: it counts as dangerous."""

Arguments = Sequence[str]
Rule = Callable[[Arguments], bool]

ANYWHERE = words(
    "chmod chown chgrp chattr setfacl sudo doas pkexec shred wipefs mkfs fdisk parted killall pkill poweroff"
)
"""Dangerous wherever the word stands: no ordinary argument is called so."""

_HEAD_ONLY = words("su shutdown reboot halt mkswap dropdb srm")
"""Dangerous as a command; as arguments these are words of a language."""

_WRAPPERS = words(
    "env nohup time nice ionice setsid stdbuf timeout exec command builtin busybox toybox xargs "
    "parallel eval watch sh bash dash zsh ksh ash then do else elif if while until coproc ! { ssh "
    "flock strace"
)
_RUNS_NEXT = words("-exec -execdir -ok -okdir -c -lc -ic -e xargs -I{}")
_SEGMENTS = re.compile(r"[;&|\n\r()`<>]+|\$\(")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SHELL = r"(?:ba|da|z|k|a|fi|c|tc)?sh\b"
_INTERPRETER = rf"(?:{_SHELL}|(?:python|perl|ruby|node|bun|deno|php)[\d.]*\b)"
_FETCH = r"\b(?:curl|wget|fetch|aria2c|httpie)\b"
_INTO = r"\|&?\s*(?:(?:env|nohup|time|exec|command|\w{1,40}=\S{0,80})\s+){0,8}(?:[\w.-]{0,40}/){0,8}"

# Bounded repeats: this runs on whatever a model writes, and must not take more than a look at each character.
_TEXTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\bdrop\s+(?:table|database|schema)\b",
        r"\bdelete\s+from\b",
        r"\btruncate\s+table\b",
        _INTO + _SHELL,  # whatever comes through the pipe, nobody has read it
        r">\s*/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mem|kmem)",
        r":\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,80}:\s{0,9}\|\s{0,9}:",
    )
)
"""Dangerous as text: statements for a database, and pipes, which are no word's affair."""

_FETCHES = re.compile(_FETCH, re.IGNORECASE)
_INTO_INTERPRETER = re.compile(_INTO + _INTERPRETER, re.IGNORECASE)
_SUBSTITUTED_FETCH = re.compile(rf"(?:<\(|\$\(|`)\s*{_FETCH}", re.IGNORECASE)
_RUNS_TEXT = re.compile(rf"\b(?:{_INTERPRETER}|eval\b|source\b)|(?:^|[\s;&|])\.\s", re.IGNORECASE)


def dangerous(command: str) -> bool:
    """Whether the command holds a destructive verb, in any disguise that is taken off here."""
    if len(command) > MAX_SEARCHED:
        return True
    plain = generous(command)
    return any(_found(text) for text in {command, plain})


def _found(text: str) -> bool:
    if any(pattern.search(text) for pattern in _TEXTS) or _runs_a_download(text):
        return True
    return any(_segment(segment.split()) for segment in _SEGMENTS.split(text))


def _runs_a_download(text: str) -> bool:
    fetch = _FETCHES.search(text)
    if fetch is None:
        return False
    if _INTO_INTERPRETER.search(text, fetch.end()):
        return True
    return bool(_SUBSTITUTED_FETCH.search(text) and _RUNS_TEXT.search(text))


def _segment(segment: Sequence[str]) -> bool:
    names = [_name(word) for word in segment]
    if any(name in ANYWHERE or name.startswith("mkfs.") for name in names):
        return True
    if any(names[at] in _HEAD_ONLY for at in _heads(segment, names)):
        return True
    feeder = next((at for at, word in enumerate(segment) if _FEEDERS & {word, names[at]}), len(names))
    return not _DELETERS.isdisjoint(names[feeder:]) or _first_of_each(RULES, names, segment)


def _first_of_each(rules: Mapping[str, Rule], names: Sequence[str], segment: Sequence[str]) -> bool:
    """Whether a rule holds for what follows its word.

    Each rule gets all that follows the first one: more arguments never make a command less dangerous, so the later
    ones would add nothing but time.
    """
    return any(rule(segment[names.index(name) + 1 :]) for name, rule in rules.items() if name in names)


def _name(word: str) -> str:
    return word.strip("{}\"'\\,").rpartition("/")[2].lower()


def _heads(words: Sequence[str], names: Sequence[str]) -> Iterator[int]:
    """Where a command may start: first, after assignments and wrappers, after an option that runs its argument."""
    leading = True
    for at, (word, name) in enumerate(zip(words, names, strict=True)):
        if leading or words[at - 1] in _RUNS_NEXT:
            yield at
        leading = leading and (
            name in _WRAPPERS or word.startswith("-") or word[:1].isdigit() or bool(_ASSIGNMENT.match(word))
        )


_DELETERS = frozenset(["rm", "unlink", "rmdir", "mv", "truncate"])


_FEEDERS = frozenset(("xargs", "parallel", "-exec", "-execdir", "-ok", "-okdir"))
"""What hands a verb names by the hundred."""


def _has(arguments: Arguments, letters: str = "", *names: str) -> bool:
    """Whether a short option of ``letters`` is given, alone or in a cluster, or a long one, abbreviated or with value.

    ``names`` are the shortest abbreviations that count. Options after operands count: GNU programs take them.
    """
    for word in arguments:
        if word.startswith("--"):
            if any(word.startswith(name) for name in names):
                return True
        elif word.startswith("-") and not set(letters).isdisjoint(word):
            return True
    return False


def _rm(arguments: Arguments) -> bool:
    return _has(arguments, "rR", "--r", "--no-p")


def _git(arguments: Arguments) -> bool:
    # The subcommand may follow options with values; a branch of that name costs one loud question.
    return _first_of_each(GIT, arguments, arguments)


def _push(arguments: Arguments) -> bool:
    forced = _has(arguments, "fd", "--f", "--mi", "--del", "--pru")
    return forced or any(word[:1] in ("+", ":") for word in arguments)


def _all_of(*needed: str) -> Rule:
    return lambda arguments: set(needed).issubset(arguments)


def _any_of(*names: str) -> Rule:
    return lambda arguments: not set(names).isdisjoint(arguments)


def _options(letters: str, *names: str) -> Rule:
    return lambda arguments: _has(arguments, letters, *names)


def _starting(*starts: str) -> Rule:
    return lambda arguments: any(word.startswith(starts) for word in arguments)


def _always(_: Arguments) -> bool:
    return True


GIT: dict[str, Rule] = {
    "push": _push,
    "reset": _options("", "--ha"),
    "clean": _options("fdxX", "--f"),
    "branch": _options("DfMC", "--f"),
    "checkout": _options("f", "--f"),
    "switch": _options("fC", "--f", "--di"),
    "stash": _any_of("drop", "clear"),
    "reflog": _any_of("expire", "delete"),
    "update-ref": _options("d", "--std"),
    "filter-branch": _always,
    "filter-repo": _always,
    "gc": _options("", "--pru"),
    "worktree": _all_of("remove", "--force"),
}
"""Git's verbs that lose commits, branches or changes for good, here or on a remote."""

RULES: dict[str, Rule] = {
    "rm": _rm,
    "git": _git,
    "find": _any_of("-delete"),
    "dd": _starting("of="),
    "truncate": _options("s", "--s"),
    "tar": _starting("--checkpoint-a", "--to-c", "--use-c", "-I", "--rmt", "--rsh", "--info-s", "--new-v"),
    "bsdtar": _starting("--use-c"),
    "rsync": _starting("--del", "--remove-s"),
    "crontab": _options("r"),
    "kill": _all_of("-9", "-1"),
    "docker": lambda words: _any_of("prune", "rm", "rmi")(words) and _any_of("prune", "-f", "--force", "volume")(words),
    "kubectl": _any_of("delete", "drain"),
    "terraform": _any_of("destroy", "-destroy", "--destroy"),
    "gh": _all_of("repo", "delete"),
    "aws": _all_of("s3", "rm"),
}
"""Verbs that need an option to be destructive."""
