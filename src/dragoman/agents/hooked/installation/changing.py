"""Our entries put into an agent's settings file and taken out of it, and its file as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from pathlib import Path

from .agents import Agent
from .edits import Text
from .hook_entries import empty_parts, is_as_wanted, put_in, take_out
from .json_text import read_json
from .place import Place
from .problems import CannotInstall
from .record import Change, Record, hash_of_text
from .settings_file import SettingsFile, missing_folder


def put_hooks_in(place: Place, record: Record, agent: Agent, left_out: Collection[str]) -> None:
    """Have our entries there as they are wanted, none of older ones. Raises ``CannotInstall``, ``Changed``."""
    path, wanted = place.path(agent), place.wanted(agent, left_out)
    file, change = SettingsFile(path), record.files.get(str(path))
    if file.text and file.text.strip() and is_as_wanted(read_json(file.text, str(path)), place.program, wanted):
        return
    base = _without_ours(place, file, change)
    text = Text(base)
    if not base.strip():
        text.insert(0, "{}\n")
    before = read_json(text.text, str(path))
    empty = empty_parts(before)
    try:
        put_in(text, wanted)
    except CannotInstall as problem:
        raise CannotInstall(f"{path}: {problem}") from None
    _check(place, text.text, path, before, empty)
    _write(record, file, text, change, empty=empty, left_out=tuple(left_out))


def take_hooks_out(place: Place, record: Record, agent: Agent) -> bool:
    """Whether there were any. Raises ``CannotInstall``, ``Changed``."""
    path = place.path(agent)
    file, change = SettingsFile(path), record.files.get(str(path))
    before = file.text
    if before is not None:
        leave(file, _without_ours(place, file, change), change, lambda text: not read_json(text, str(path)))
    record.files.pop(str(path), None)
    drop_folder(record, path)
    return file.text != before


def leave(
    file: SettingsFile, base: str, change: Change | None, is_nothing: Callable[[str], bool] | None = None
) -> None:
    """Have the file as it is without us: gone, where we made it and nothing else came into it."""
    if change is not None and change.created and (not base.strip() or (is_nothing and is_nothing(base))):
        file.delete()
    else:
        file.write(base, private=True)


def drop_folder(record: Record, path: Path) -> None:
    """Remove the folder that was made for the file, unless it holds something by now."""
    folder = str(path.parent)
    if folder in record.folders and not path.exists():
        record.folders.remove(folder)
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def _without_ours(place: Place, file: SettingsFile, change: Change | None) -> str:
    exact = file.without(change)
    if exact is not None:
        return exact
    text = Text(file.text or "")
    if text.text.strip():
        take_out(text, place.program, str(file.path), keep=() if change is None else change.empty)
    return text.text


def _check(place: Place, text: str, path: Path, before: object, empty: tuple[tuple[str, ...], ...]) -> None:
    """Without ours it says what it said before: it was edited as text."""
    again = Text(text)
    take_out(again, place.program, str(path), keep=empty)
    if read_json(again.text, str(path)) != before:
        raise CannotInstall(f"{path} is written in a way that is not edited, and is left alone")


def _write(
    record: Record,
    file: SettingsFile,
    text: Text,
    change: Change | None,
    *,
    empty: tuple[tuple[str, ...], ...] = (),
    left_out: tuple[str, ...] = (),
) -> None:
    write_noted(
        record,
        file,
        text,
        Change(
            after=hash_of_text(text.text),
            edits=tuple(text.edits),
            created=was_created(file, change),
            empty=empty,
            left_out=left_out,
        ),
    )


def was_created(file: SettingsFile, change: Change | None) -> bool:
    """Whether the file is there because of us."""
    return file.text is None or (change is not None and change.created)


def write_noted(record: Record, file: SettingsFile, text: Text, change: Change) -> None:
    """Write it, and note what was done."""
    folder = missing_folder(file.path)
    file.write(text.text, private=True)
    if folder is not None:
        record.folders.append(folder)
    record.files[str(file.path)] = change
