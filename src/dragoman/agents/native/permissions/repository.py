"""Whether git's reading commands run nothing but git here.

`git status` starts what `core.fsmonitor` names, `git diff` starts text converters and filters, and refreshing the index
runs a hook. The agent may write files unasked, `.git/config` among them, so an approved `git status` would run
whatever the model likes. The spec approves git by its name alone; we also look at the repository it will find, and run
what is approved with ``HARDENED``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from .reading import words
from .scope import Scope

MAX_CONFIG = 65_536
"""Bytes of a repository's configuration that are read."""

MAX_HEAD = 1_024
"""Bytes of `HEAD` that are read."""

_HEAD = re.compile(rb"ref: refs/[\x21-\x7e]+\n|[0-9a-f]{40}\n|[0-9a-f]{64}\n")
_SECTION = re.compile(r'\[\s*([A-Za-z]+)(?:\s+"[^"\\]*")?\s*\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?:\s*=[^\\]*)?")
# A list of what is allowed: git gains settings that name programs, and `include` reads them from elsewhere.
_HARMLESS = words(
    "core.repositoryformatversion core.filemode core.bare core.logallrefupdates core.ignorecase "
    "core.precomposeunicode core.symlinks core.autocrlf core.eol core.abbrev core.quotepath "
    "remote.url remote.fetch remote.pushurl branch.remote branch.merge branch.rebase "
    "branch.description user.name user.email init.defaultbranch pull.rebase push.default "
    "push.autosetupremote commit.gpgsign color.ui color.status color.diff color.branch"
)
# Each leads git to another repository or its configuration, or runs a program.
_DETOURS = ("commondir", "modules", "objects/info/alternates", "hooks/post-index-change", "config.worktree")


_SETTINGS: Mapping[str, str] = {
    # What lies in the working tree like a bare repository is none, whoever put it there in the meantime.
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    # Else git starts itself in every repository below that the index names, under that one's configuration.
    "diff.ignoreSubmodules": "all",
    "status.submoduleSummary": "false",
    "log.showSignature": "false",
}

HARDENED: Mapping[str, str] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": str(len(_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{number}": name for number, name in enumerate(_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(_SETTINGS.values())},
}
"""Environment in which git looks and does nothing else; settings of the user's own count for less."""

_INCLUDED = re.compile(r"\bpath\s*=\s*\"?([^\"\n#;]+)", re.IGNORECASE)
_DEEPEST = 10
_MOST_ENTRIES = 2_000
"""Of a repository's folder, `objects` and `refs` together, that are looked at."""


def runs_only_git(scope: Scope, env: Mapping[str, str]) -> bool:
    """Whether the repository that git will find from the working folder is in scope and starts no program.

    Without a repository there is nothing to run. Settings outside the repository are the user's own, unless they lie
    where the agent may write.
    """
    if any(_reaches(file, scope) for file in _users_settings(env)):
        return False
    for folder in (scope.cwd, *scope.cwd.parents):
        git = folder / ".git"
        if git.exists() or git.is_symlink():
            return scope.holds(folder) and _complete(git) and _plain(folder, git)
        if (folder / "HEAD").exists() and (folder / "objects").exists():
            return False  # a bare repository, or the inside of one: its `config` is in reach of any edit
    return True


def _complete(git: Path) -> bool:
    """Whether git surely stops at this one: an incomplete `.git` it passes over, and takes a repository further up."""
    head = git / "HEAD"
    try:
        named = head.is_file() and not head.is_symlink() and _HEAD.fullmatch(head.read_bytes()[:MAX_HEAD]) is not None
    except OSError:
        return False
    return named and (git / "objects").is_dir() and (git / "refs").is_dir()


def _plain(folder: Path, git: Path) -> bool:
    # A link or a file leads to a repository elsewhere (worktrees, submodules); submodules bring their own settings.
    if git.is_symlink() or not git.is_dir() or (folder / ".gitmodules").exists() or _has_links(git):
        return False
    if any((git / name).exists() or (git / name).is_symlink() for name in _DETOURS):
        return False
    config = git / "config"
    if not config.exists():
        return True
    if not config.is_file():
        return False  # reading a pipe would wait for ever
    try:
        with config.open(encoding="utf-8", newline="\n") as file:
            text = file.read(MAX_CONFIG + 1)
    except (OSError, UnicodeDecodeError):
        return False
    return len(text) <= MAX_CONFIG and _harmless(text)


def _has_links(git: Path) -> bool:
    """Whether the repository borrows from another by links: its history would be that one's. Too many to see count."""
    entries = list(islice(_entries(git, git / "objects", git / "refs"), _MOST_ENTRIES + 1))
    return len(entries) > _MOST_ENTRIES or any(entry.is_symlink() for entry in entries)


def _entries(*folders: Path) -> Iterator[os.DirEntry[str]]:
    for folder in folders:
        with os.scandir(folder) as entries:
            yield from entries


def _users_settings(env: Mapping[str, str]) -> tuple[Path, ...]:
    home = Path(env.get("HOME", "/"))
    return (
        Path("/etc/gitconfig"),
        home / ".gitconfig",
        Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "config",
    )


def _reaches(file: Path, scope: Scope, depth: int = 0) -> bool:
    """Whether the file, or one that it includes under any condition, lies in scope, be it there or not yet."""
    if scope.holds(file) or depth > _DEEPEST:
        return True
    try:
        with file.open(errors="replace") as opened:
            text = opened.read(MAX_CONFIG)
    except OSError:
        return False
    named = (Path(os.path.expanduser(found.strip())) for found in _INCLUDED.findall(text))  # noqa: PTH111 - no raising
    return any(_reaches(file.parent / each, scope, depth + 1) for each in named)


def _harmless(text: str) -> bool:
    """Whether each line is a section, a comment, or a setting known to start nothing; none may go on in the next."""
    section = ""
    for line in map(str.strip, text.split("\n")):
        if not line or line[0] in "#;":
            continue
        if found := _SECTION.fullmatch(line):
            section = found[1].lower()
        elif not (found := _SETTING.fullmatch(line)) or f"{section}.{found[1].lower()}" not in _HARMLESS:
            return False
    return True
