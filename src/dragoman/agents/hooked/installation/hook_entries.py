"""Our entries among the hooks in an agent's settings: found, put in, taken out, compared with what is wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .agents import program_of
from .edits import Text
from .json_text import add, read_json, remove


class Entry(NamedTuple):
    """One hook of dragoman's: where it stands, and what its group is."""

    event: str
    group: int
    place: int
    program: Path
    whole: Mapping[str, Any]


def entries(settings: Mapping[str, Any]) -> Iterator[Entry]:
    """Every hook that runs a program of dragoman's, whichever installation's."""
    hooks = settings.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            inner = group.get("hooks") if isinstance(group, dict) else None
            for place, hook in enumerate(inner if isinstance(inner, list) else ()):
                program = program_of(hook)
                if program is not None:
                    yield Entry(event, number, place, program, group)


def empty_parts(settings: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """The lists and objects for hooks that are there with nothing in them."""
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return ()
    return (("hooks",),) if not hooks else tuple(("hooks", name) for name, groups in hooks.items() if groups == [])


def is_as_wanted(settings: Mapping[str, Any], program: Path, wanted: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether our entries are those that are wanted, each once, whatever stands beside them."""
    ours = [entry for entry in entries(settings) if entry.program == program]
    found = {entry.event: entry.whole for entry in ours}
    return len(ours) == len(found) and found == dict(wanted)


def put_in(text: Text, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Our entries, behind all others. Raises ``CannotInstall``."""
    for event, group in wanted.items():
        add(text, ("hooks", event), group)


def take_out(text: Text, program: Path, what: str, *, keep: Collection[tuple[str, ...]] = ()) -> None:
    """Every entry that runs this program, and what is empty then; ``keep`` was so before. Raises ``CannotInstall``."""
    ours = [entry for entry in entries(read_json(text.text, what)) if entry.program == program]
    for entry in reversed(ours):  # from the last on, so that the others stay where they are
        path = ("hooks", entry.event, entry.group, "hooks", entry.place)
        remove(text, path)
        hooks = read_json(text.text, what)["hooks"]
        if not hooks[entry.event][entry.group]["hooks"]:
            remove(text, path[:3])
            hooks = read_json(text.text, what)["hooks"]
        if not hooks[entry.event] and path[:2] not in keep:
            remove(text, path[:2])
            hooks = read_json(text.text, what)["hooks"]
        if not hooks and path[:1] not in keep:
            remove(text, path[:1])
