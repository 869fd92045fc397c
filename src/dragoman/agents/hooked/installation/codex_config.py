"""Our hooks among those that Codex trusts, in its ``config.toml``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from .agents import Agent
from .changing import leave, was_created, write_noted
from .codex_trust import distrust, hash_of, keys_of, trust, trusted
from .edits import Text
from .hook_entries import entries
from .place import Place
from .problems import CannotInstall
from .record import Change, Record, hash_of_text
from .settings_file import SettingsFile


def trust_hooks(place: Place, record: Record, agent: Agent) -> None:
    """Have Codex run our hooks as they stand now. Raises ``CannotInstall``, ``Changed``."""
    path, wanted = place.config(agent), hashes(place, agent)
    file, change = SettingsFile(path), record.files.get(str(path))
    there = trusted(file.text or "")
    stale = {} if change is None else {key: value for key, value in change.trusted.items() if key not in wanted}
    if _held(there, wanted) == list(wanted) and not _held(there, stale):
        return
    base = _without_ours(file, change, {})
    already = _held(trusted(base), wanted)
    text = Text(base)
    trust(text, wanted)
    ours = {key: value for key, value in wanted.items() if key not in already}
    after = hash_of_text(text.text)
    noted = Change(after=after, edits=tuple(text.edits), created=was_created(file, change), trusted=ours)
    write_noted(record, file, text, noted)


def distrust_hooks(place: Place, record: Record, agent: Agent) -> None:
    """Take back what was noted for our hooks. Raises ``CannotInstall``, ``Changed``."""
    path = place.config(agent)
    file, change = SettingsFile(path), record.files.get(str(path))
    if file.text is not None:
        with contextlib.suppress(CannotInstall):  # what is no TOML is not read by Codex either
            base = _without_ours(file, change, hashes(place, agent))
            leave(file, base, change)
    record.files.pop(str(path), None)


def hashes(place: Place, agent: Agent) -> dict[str, str]:
    """What our hooks are trusted by, where they stand now. Raises ``CannotInstall``."""
    settings = place.settings(agent)
    ours = {id(entry.whole["hooks"][entry.place]) for entry in entries(settings) if entry.program == place.program}
    hooks = settings.get("hooks")
    return {
        key: hash_of(event, matcher if isinstance(matcher, str) else None, hook)
        for key, event, matcher, hook in keys_of(place.path(agent), hooks if isinstance(hooks, dict) else {})
        if id(hook) in ours
    }


def _without_ours(file: SettingsFile, change: Change | None, more: Mapping[str, str]) -> str:
    exact = file.without(change)
    if exact is not None:
        return exact
    text = Text(file.text or "")
    distrust(text, _held(trusted(text.text), {**more, **({} if change is None else change.trusted)}))
    return text.text


def _held(there: Mapping[str, str], hashes: Mapping[str, str]) -> list[str]:
    """The keys of those that are noted just so."""
    return [key for key, value in hashes.items() if there.get(key) == value]
