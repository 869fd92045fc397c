"""``dragoman hooks``: puts our hooks into the settings of the person's agents, and takes them out again.

Nothing else in their files changes. A file that was not edited in between is afterwards what it was before, to the last
byte; one that was is freed of our entries alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from .agents import AGENTS, Agent
from .changing import put_hooks_in, take_hooks_out
from .codex_config import distrust_hooks, trust_hooks
from .known_hooks import unknown_hooks
from .place import Place
from .problems import CannotInstall
from .program import is_whole, remove_program, write_program
from .record import Record, read_record, write_record
from .replacing import one_at_a_time
from .settings_file import Changed

T = TypeVar("T")

TRIES = 5
"""How often a file is read anew when its agent wrote it meanwhile."""


def install(place: Place, agent: Agent) -> str | None:
    """Have its hooks stand there as this version has them, and what they run. Blocks on the disk.

    Returns what the person must still do, if anything. Raises ``CannotInstall``: then the agent's file is as it was.
    """
    place.check()
    left_out = unknown_hooks(agent, place.environment)
    with _changing(place) as record:
        if not is_whole(place.folder):
            write_program(place.folder)
        _repeated(lambda: put_hooks_in(place, record, agent, left_out))
        if agent.name == "codex":
            try:
                _repeated(lambda: trust_hooks(place, record, agent))
            except CannotInstall as problem:
                return f"Codex does not trust them yet: {place.config(agent)}: {problem}"
    return None


def uninstall(place: Place, agent: Agent) -> bool:
    """Take them out; whether there were any. What they run goes with the last of them. Raises ``CannotInstall``."""
    if not place.folder.exists() and not place.in_use([agent]):
        return False
    with _changing(place) as record:
        if agent.name == "codex":
            _repeated(lambda: distrust_hooks(place, record, agent))
        there_were = _repeated(lambda: take_hooks_out(place, record, agent))
        if not place.in_use(AGENTS.values()):
            remove_program(place.folder)
    with contextlib.suppress(OSError):  # there is more in it
        place.folder.rmdir()
    return there_were


@contextlib.contextmanager
def _changing(place: Place) -> Iterator[Record]:
    """The record, kept whatever becomes of the change."""
    with one_at_a_time(place.folder):
        record = read_record(place.folder)
        try:
            yield record
        finally:
            write_record(place.folder, record)


def _repeated(change: Callable[[], T]) -> T:
    for _ in range(TRIES):
        with contextlib.suppress(Changed):
            return change()
    raise CannotInstall("its settings are being written by somebody else all the time: try again")
