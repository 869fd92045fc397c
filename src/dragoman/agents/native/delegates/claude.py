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
from dragoman.hub.events import LogWritten

from .claude_talk import ClaudeTalk, mode_word
from .claude_trust import has_settings, is_trusted
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
            given, left_out = await asyncio.to_thread(self._start, assignment)
        except InvalidRequest as problem:
            raise ProviderFailed(f"the program cannot be started: {problem}") from problem
        turn = assignment.turn
        if left_out and assignment.agent_session is None:
            turn.record(LogWritten(line=_NOT_TRUSTED, turn=turn.turn))
        async with running(given, session=turn.session.id, processes=self._processes, settings=limits) as program:
            return await ClaudeTalk(program, assignment, self.name, limits).run()

    def _start(self, assignment: Assignment) -> tuple[Start, bool]:
        """How it is run, and whether settings of the folder are left out. Raises ``InvalidRequest``."""
        limits, cwd = self._settings.delegates, assignment.place.cwd
        env = program_environment(self._settings, own=_OWN, without=_NOT_OURS, ours=self._ours) | _TOLD
        env |= assignment.hooks.environment()
        if assignment.key is not None:
            env["ANTHROPIC_API_KEY"] = assignment.key
        trusted = limits.trust_folders or is_trusted(cwd, env)
        # Joined to their options: a value can be no option then, whatever somebody calls a model.
        words = [limits.claude, *_FLAGS, f"--model={assignment.model}"]
        words += [f"--permission-mode={mode_word(assignment.mode)}"]
        words += [] if trusted else ["--setting-sources=user"]
        words += [f"--add-dir={folder}" for folder in assignment.place.roots[1:]]
        if assignment.agent_session is not None:
            words.append(f"--resume={assignment.agent_session}")
        if assignment.instructions is not None:
            words.append(f"--append-system-prompt={assignment.instructions}")
        return prepare(words, cwd=str(cwd), env=env), not trusted and has_settings(cwd)


_FLAGS = (
    *("-p", "--verbose", "--include-partial-messages"),
    *("--input-format", "stream-json", "--output-format", "stream-json"),
    *("--permission-prompt-tool", "stdio"),
)

_NOT_TRUSTED = (
    "this folder's own settings for Claude Code (.claude, .mcp.json, CLAUDE.md) are not used: nobody has trusted it; "
    "run 'claude' in it once and say so, or set native.delegates.trust_folders"
)
