"""Runs a program for the server itself, for no session: under supervision, with a limit, its words told by lines."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.agents.common.processes import ProcessTable
from dragoman.agents.common.program import resolve_program
from dragoman.agents.common.start import prepare
from dragoman.agents.native.settings import NativeSettings
from dragoman.agents.native.tools.command import Finished, end_lost_commands, run_command
from dragoman.hub.errors import InvalidRequest, LimitReached

from .sign_in_program import Tell

TOLD_LINES = 200
"""Lines of one sign-in that are told; of a program that says more, the others are not."""

LINE_CHARS = 2_000
"""Characters of one of them."""

START_PROBLEMS = (FileNotFoundError, InvalidRequest, LimitReached)
"""Why ``Supervised.run`` may not start a program."""


class Supervised:
    """See the module. Nothing of a program is left afterwards (invariant 9).

    ``environment`` is what it gets. ``kept`` is the file of the keys: by it a server tells its own leftovers, should it
    be lost, from those of others.
    """

    def __init__(self, settings: NativeSettings, environment: Mapping[str, str], kept: Path) -> None:
        self._settings = settings
        self._environment = environment
        self._processes = ProcessTable()
        self._marker = f"sign-in-{hashlib.sha256(os.fsencode(kept.absolute())).hexdigest()[:16]}"

    async def run(self, words: Sequence[str], tell: Tell, *, seconds: float) -> Finished:
        """Run it to its end, for so long at most. Raises ``FileNotFoundError`` for a program that is not there,
        ``InvalidRequest`` or ``LimitReached`` for one that cannot be started."""
        self._demand(words[0])
        given = prepare(words, cwd=self._environment.get("HOME") or "/", env=self._environment)
        # What a lost server left waiting would hold the port that the next one needs.
        await end_lost_commands(self._marker, limits=self._settings.tools, processes=self._processes)
        told = itertools.count(1)

        def say(line: str) -> None:
            if next(told) <= TOLD_LINES:
                tell(line)

        said, complained = _Lines(say), _Lines(say)

        async def show(stdout: str, stderr: str) -> None:
            said.feed(stdout)
            complained.feed(stderr)

        finished = await run_command(
            given,
            session=self._marker,
            seconds=seconds,
            limits=self._settings.tools,
            processes=self._processes,
            show=show,
        )
        await show(finished.stdout.unseen(), finished.stderr.unseen())
        for lines in (said, complained):
            lines.finish()
        return finished

    def _demand(self, name: str) -> None:
        try:
            resolve_program(name, folder="/", env={"PATH": self._environment.get("PATH", os.defpath)})
        except InvalidRequest:
            raise FileNotFoundError(f'Executable not found in $PATH: "{name}"') from None


class _Lines:
    """Text that comes in pieces, told line by line."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._rest = ""

    def feed(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        self._rest = self._rest[:LINE_CHARS]
        for line in lines:
            self._say(line)

    def finish(self) -> None:
        """What has no end yet is a line too."""
        self._say(self._rest)

    def _say(self, line: str) -> None:
        if line.strip():
            self._tell(line.strip()[:LINE_CHARS])
