"""The ``bash`` tool: run a command, as judged, where judged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from dragoman.agents.common.processes import ProcessTable
from dragoman.agents.common.start import Start, prepare
from dragoman.agents.native.permissions import HARDENED, Verdict, classify
from dragoman.agents.native.permissions.programs import found_outside, trusted_path
from dragoman.agents.native.permissions.scope import Scope
from dragoman.agents.native.settings import ToolLimits
from dragoman.hub.errors import InvalidRequest, LimitReached

from .command import Finished, run_command
from .environment import plain_environment
from .tool import Result, ToolContext, ToolFailed, ToolInput, in_thread

TIMED_OUT = 124
"""Exit code of a command that its time-out ended, as ``timeout`` of the coreutils gives it."""


class BashInput(ToolInput, frozen=True, kw_only=True):
    """What to run, and for how long."""

    command: Annotated[str, msgspec.Meta(description="The command line, for bash.")]
    timeout: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=600_000)] | None,
        msgspec.Meta(description="Milliseconds after which it is ended. Default: 120000."),
    ] = None


class Bash:
    """Runs one command at a time, and leaves nothing running. ``processes`` is best shared by all of a server."""

    name: ClassVar[str] = "bash"
    description: ClassVar[str] = (
        "Run a shell command with bash in the working directory. Each call starts a new shell: directory changes and "
        "variables do not last. There is no terminal and no input, and the environment holds no keys. The call ends "
        "with the shell: processes that it left in the background are ended then, so nothing can be kept running. "
        "Returns stdout, stderr and the exit code; of long output the middle is left out. The person may be asked "
        "first, and may refuse."
    )
    input: ClassVar[type[ToolInput]] = BashInput

    def __init__(self, processes: ProcessTable | None = None) -> None:
        self._processes = processes or ProcessTable()

    async def run(self, given: BashInput, context: ToolContext) -> Result:
        """Ask where that is needed, run it, and give ``{stdout, stderr, exitCode}``.

        Raises ``ToolDenied``, and ``ToolFailed`` where it cannot be started.
        """
        limits = context.settings.tools
        folder = await in_thread(_identity, context.cwd)
        prepared, verdict = await in_thread(_judged, given.command, context)
        await context.permit_command(given.command, verdict)
        if await in_thread(_identity, context.cwd) != folder:
            raise ToolFailed(f"the working directory {str(context.cwd)!r} was replaced while the command waited")

        async def show(stdout: str, stderr: str) -> None:
            await context.progress({"stdout": stdout, "stderr": stderr})

        seconds = _seconds(given, limits)
        try:
            finished = await run_command(
                prepared,
                session=context.session,
                seconds=seconds,
                limits=limits,
                processes=self._processes,
                show=show,
            )
        except (InvalidRequest, LimitReached) as error:
            raise ToolFailed(str(error)) from error
        return _result(finished, _notes(finished, seconds, limits))


def _seconds(given: BashInput, limits: ToolLimits) -> float:
    wanted = limits.command_seconds if given.timeout is None else given.timeout / 1000
    return min(wanted, limits.command_longest)


def _identity(folder: Path) -> tuple[int, int]:
    """Tells a folder from another of the same name."""
    try:
        found = folder.stat()
    except OSError as error:
        raise ToolFailed(f"the working directory {str(folder)!r} cannot be used: {error.strerror}") from error
    return found.st_dev, found.st_ino


def _judged(command: str, context: ToolContext) -> tuple[Start, Verdict]:
    """How it is run, and what is thought of that."""
    env = plain_environment(context.settings)
    scope = Scope(context.cwd, context.roots)
    shell = _shell(env["PATH"], scope)
    verdict = classify(command, context.cwd, context.roots, env)
    if verdict.approved:
        env |= {"PATH": trusted_path(env["PATH"], scope), **HARDENED}
    try:
        return prepare([*shell, "-c", "--", command], cwd=os.fspath(context.cwd), env=env), verdict
    except InvalidRequest as error:
        raise ToolFailed(str(error)) from error


def _shell(path: str, scope: Scope) -> tuple[str, ...]:
    """A shell that reads no start files, which could change what the command means, and is none of the folder's own."""
    if bash := found_outside("bash", path, scope):
        return bash, "--noprofile", "--norc"
    if sh := found_outside("sh", path, scope):
        return (sh,)
    raise ToolFailed("there is no program 'bash', nor 'sh'")


def _exit_code(finished: Finished) -> int:
    if finished.cause == "timeout":
        return TIMED_OUT
    code = 1 if finished.code is None else finished.code
    if finished.signal is not None:
        code = 128 + finished.signal
    return code or 1 if finished.cause == "flood" else code


def _notes(finished: Finished, seconds: float, limits: ToolLimits) -> str:
    """What the result says beside what the command said; empty for one that just ended."""
    notes = []
    if finished.cause == "timeout":
        notes.append(f"the command was ended: it had not finished after {seconds:g} s")
    if finished.cause == "flood":
        notes.append(f"the command was ended: it gave more than {limits.command_buffer} bytes of output")
    if finished.left_behind:
        notes.append(f"ended with the command: {finished.left_behind} of its processes, left in the background")
    if finished.alive:
        notes.append(f"could not be ended: {', '.join(map(str, finished.alive[:10]))}")
    return "\n".join(f"[{note}]" for note in notes)


def _result(finished: Finished, notes: str) -> Result:
    stdout, stderr = finished.stdout.text(), _below(finished.stderr.text(spare=len(notes) + 1), notes)
    code = _exit_code(finished)
    parts = [
        stdout,
        f"[stderr]\n{stderr}" if stderr else "",
        f"[exit code {code}]" if code or not stdout + stderr else "",
    ]
    text = ""
    for part in filter(None, parts):
        text = _below(text, part)
    return Result(output={"stdout": stdout, "stderr": stderr, "exitCode": code}, text=text)


def _below(upper: str, lower: str) -> str:
    return upper + ("\n" if upper and lower and not upper.endswith("\n") else "") + lower
