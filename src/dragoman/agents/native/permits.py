"""Who allows what a tool would do: the session's mode, what was granted before, or a person.

=================  ============================================================================================
mode               commands; edits of files; calls of tools that are not ours (MCP)
=================  ============================================================================================
``ask``            those that the classifier approves run unasked; every edit is asked about; calls too, but of servers
                   that the person trusts
``accept_edits``   commands and calls as in ``ask``; edits are not asked about, but of what git takes its orders from
``plan``           only commands that the classifier approves; no edits; calls that only read, by the word of a server
                   that the person trusts
``all``            everything; the path guard still holds
=================  ============================================================================================

The mode is read anew for every call, so a change counts at once.
"""

from __future__ import annotations

from dragoman.hub.decisions import DecisionClosed
from dragoman.hub.errors import HubError
from dragoman.hub.events import Answer, DecisionOpened, Json, Option
from dragoman.hub.turns import TurnContext

from .modes import Mode, mode_of
from .permissions import Reason, Verdict
from .tools.tool import ForeignCall, ToolDenied

COMMANDS, EDITS = "bash", "edit"
"""Grants that cover every command, and every edit."""

_GITS_OWN = frozenset((".git", ".gitmodules"))

_REJECTED = "User rejected this command."
_REJECTED_FOREIGN = "User rejected this call."
UNANSWERED = "Nobody answered whether this may be done, so it was not."

MORE_COMMANDS = (
    Option("Yes, and this command for the rest of the session", "session"),
    Option("Yes, and every command that is not dangerous", f"rule:{COMMANDS}"),
)
"""What a person can permit beyond the one command."""

_PLAN = "This session is in plan mode: look around, and present a plan. Nothing may be changed until it is accepted."
_PLAN_FOREIGN = (
    "This session is in plan mode: only tools that are known to change nothing may be called until a plan is accepted."
)
_SUBAGENT = "A sub-agent may only run commands that need no approval."
_SUBAGENT_FOREIGN = "A sub-agent may only call tools that need no approval."


class Permits:
    """One turn's permissions."""

    def __init__(self, turn: TurnContext, default_mode: str) -> None:
        self._turn = turn
        self._default_mode = default_mode

    @property
    def mode(self) -> Mode:
        """The session's mode now."""
        return mode_of(self._turn.session, self._default_mode)

    async def command(self, command: str, verdict: Verdict, *, call: str, subagent: str | None) -> None:
        """Return once this command may run. Raises ``ToolDenied``."""
        mode = self.mode
        if mode == "all" or verdict.approved:
            return
        if mode == "plan":
            raise ToolDenied(_PLAN, _refused(_PLAN))
        if subagent is not None:
            raise ToolDenied(_SUBAGENT, _refused(_SUBAGENT))
        exact = f"bash({command})"
        if self._granted(exact) or (self._granted(COMMANDS) and not verdict.dangerous):
            return
        answer = await self.ask(
            permission_decision(
                self._turn,
                command,
                call=call,
                tool="bash",
                given={"command": command},
                wider=MORE_COMMANDS,
                dangerous=verdict.dangerous,
                reason=verdict.reason,
                detail={"grant": exact},
            )
        )
        if not accepted(answer):
            raise ToolDenied(refusal(answer), _refused(refusal(answer)))

    async def edit(self, path: str, given: Json, *, tool: str, call: str, subagent: str | None) -> None:
        """Return once this file may be changed. Raises ``ToolDenied``."""
        mode = self.mode
        if mode == "plan":
            raise ToolDenied(_PLAN)
        steers = steers_git(path)
        grant = f"{EDITS}({path})" if steers else EDITS
        if mode == "all" or (mode == "accept_edits" and not steers) or self._granted(grant):
            return
        more = f"Yes, and every edit{' of this file' * steers} for the rest of the session"
        answer = await self.ask(
            permission_decision(
                self._turn,
                f"{tool} {path}",
                call=call,
                tool=tool,
                given=given,
                wider=(Option(more, "session"),),
                dangerous=steers,
                detail={"grant": grant, **({"subagent": subagent} if subagent else {})},
            )
        )
        if not accepted(answer):
            raise ToolDenied(refusal(answer))

    async def foreign(self, wanted: ForeignCall, *, call: str, subagent: str | None) -> None:
        """Return once this call may be made. Raises ``ToolDenied``."""
        mode = self.mode
        if mode == "all":
            return
        if mode == "plan":
            if wanted.trusted and wanted.read_only:
                return
            raise ToolDenied(_PLAN_FOREIGN)
        if wanted.trusted or self._granted(wanted.grant) or self._granted(wanted.rule):
            return
        if subagent is not None:
            raise ToolDenied(_SUBAGENT_FOREIGN)
        answer = await self.ask(
            permission_decision(
                self._turn,
                wanted.text,
                call=call,
                tool=wanted.tool,
                given=wanted.given,
                wider=(
                    Option("Yes, and this tool for the rest of the session", "session"),
                    Option(f"Yes, and every tool of {wanted.owner}", f"rule:{wanted.rule}"),
                ),
                detail={"grant": wanted.grant},
            )
        )
        if not accepted(answer):
            raise ToolDenied(refusal(answer, _REJECTED_FOREIGN))

    async def ask(self, opened: DecisionOpened) -> Answer | None:
        """The answer; None when nobody will give one. Raises ``ToolDenied`` where nobody can be asked."""
        try:
            return await self._turn.decide(opened)
        except DecisionClosed:
            return None
        except HubError as problem:
            raise ToolDenied(f"Nobody could be asked: {problem}") from problem

    def _granted(self, grant: str) -> bool:
        return grant in self._turn.session.state.grants


def permission_decision(
    turn: TurnContext,
    text: str,
    *,
    call: str | None,
    tool: str | None,
    given: Json,
    wider: tuple[Option, ...] = (),
    dangerous: bool = False,
    reason: Reason = Reason.REVIEW,
    detail: dict[str, Json] | None = None,
) -> DecisionOpened:
    """The decision whether this may be done: yes, one of the ``wider`` permissions, or no."""
    return DecisionOpened(
        decision=turn.session.ids(),
        kind="permission",
        text=text,
        turn=turn.turn,
        call=call,
        tool=tool,
        input=given,
        options=(Option("Yes", "once"), *wider, Option("No", "deny")),
        dangerous=dangerous,
        reason=reason.value,
        detail=detail or {},
    )


def steers_git(path: str) -> bool:
    """Whether git takes this file's word for what to run: editing it is as good as running a command."""
    return not _GITS_OWN.isdisjoint(path.casefold().split("/"))


def accepted(answer: Answer | None) -> bool:
    """Whether a person permits it."""
    return answer is not None and bool(answer.accept)


def refusal(answer: Answer | None, rejected: str = _REJECTED) -> str:
    """What the model is told of a refusal; with what the person wants instead, if they said so."""
    if answer is None:
        return UNANSWERED
    if not answer.text:
        return rejected
    return f"{rejected} They said: {answer.text}"


def _refused(why: str) -> Json:
    """The result of a command that did not run."""
    return {"stdout": "", "stderr": why, "exitCode": 1}
