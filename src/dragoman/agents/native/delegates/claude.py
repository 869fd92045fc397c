"""The provider ``claude-code``: Claude Code, headless, as the program that runs a turn.

Spoken with in lines of JSON on its standard input and output, as its own development kit does: messages one way,
events the other, requests with an id both ways (``claude_talk``). One process lives as long as one round.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from dragoman.agents.common.processes import ProcessTable
from dragoman.agents.common.start import Start, prepare
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.errors import InvalidRequest

from .claude_talk import ClaudeTalk, mode_word
from .environment import program_environment
from .port import Assignment, Report
from .program import running

CLAUDE_CODE = "claude-code"
"""The provider's id."""

_OWN = ("ANTHROPIC_", "CLAUDE_", "DISABLE_", "ENABLE_")
_NOT_OURS = frozenset(
    {
        # The key that is meant for it is given to it by itself.
        "ANTHROPIC_API_KEY",
        # What another Claude Code tells the programs that it starts: this one is none of its tools.
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_PID",
        "CLAUDE_PROJECT_DIR",
    }
)
_TOLD = {
    # It says when it has really come to rest: after a result it may go on with what finished in its background.
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
    "DISABLE_AUTOUPDATER": "1",
}


class ClaudeCode:
    """See the module, and ``port.Delegate``. ``processes`` is best shared by all of a server."""

    name = CLAUDE_CODE

    def __init__(
        self,
        settings: NativeSettings,
        *,
        environment: Mapping[str, str] | None = None,
        processes: ProcessTable | None = None,
    ) -> None:
        self._settings = settings
        self._processes = processes or ProcessTable()
        self._ours = os.environ if environment is None else environment

    async def run(self, assignment: Assignment) -> Report:
        limits = self._settings.delegates
        try:
            given = await asyncio.to_thread(self._start, assignment)
        except InvalidRequest as problem:
            raise ProviderFailed(f"the program cannot be started: {problem}") from problem
        session = assignment.turn.session.id
        async with running(given, session=session, processes=self._processes, settings=limits) as program:
            return await ClaudeTalk(program, assignment, self.name, limits).run()

    def _start(self, assignment: Assignment) -> Start:
        """How it is run. Raises ``InvalidRequest``."""
        env = program_environment(self._settings, own=_OWN, without=_NOT_OURS, ours=self._ours) | _TOLD
        if assignment.key is not None:
            env["ANTHROPIC_API_KEY"] = assignment.key
        words = [self._settings.delegates.claude, *_FLAGS, "--model", assignment.model]
        words += ["--permission-mode", mode_word(assignment.mode)]
        if assignment.agent_session is not None:
            words += ["--resume", assignment.agent_session]
        if assignment.instructions is not None:
            words += ["--append-system-prompt", assignment.instructions]
        for folder in assignment.place.roots[1:]:
            words += ["--add-dir", str(folder)]
        return prepare(words, cwd=str(assignment.place.cwd), env=env)


_FLAGS = (
    *("-p", "--verbose", "--include-partial-messages"),
    *("--input-format", "stream-json", "--output-format", "stream-json"),
    *("--permission-prompt-tool", "stdio"),
)
