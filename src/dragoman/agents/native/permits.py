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

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from dragoman.hub.decisions import DecisionClosed
from dragoman.hub.errors import HubError
from dragoman.hub.events import Answer, DecisionOpened, Json, Option
from dragoman.hub.turns import TurnContext

from .modes import Mode, mode_of
from .permissions import Reason, Verdict
from .rejections import BROKEN_OFF, REJECTED_CALL, denied, is_hard, refusal
from .tools.tool import ForeignCall, ToolDenied

COMMANDS, EDITS = "bash", "edit"
"""Grants that cover every command that is not dangerous, and every edit."""

ALL_COMMANDS = "bash:all"
"""Covers dangerous ones too: a yes to the tool as such (scope ``tool``), which nobody is offered as an option."""

_GITS_OWN = frozenset((".git", ".gitmodules"))

DESCRIPTION_CHARS = 1000
"""Characters of what a model says of its command that a person is shown."""

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


async def _nothing() -> list[Json]:
    return []


class Asking(msgspec.Struct, frozen=True):
    """Which call wants something: its id, the kind of sub-agent that makes it, if one does.

    ``description`` is what stands so among its arguments: of a command, what the model says of it. ``behind`` gives the
    calls that the model made behind it, once somebody is to be asked.
    """

    call: str
    subagent: str | None = None
    description: str | None = None
    behind: Callable[[], Awaitable[list[Json]]] = _nothing


class Permits:
    """One turn's permissions."""

    def __init__(self, turn: TurnContext, default_mode: str) -> None:
        self._turn = turn
        self._default_mode = default_mode
        self._broken_off = False
        self.refused: dict[str, str] = {}
        """What was said of the calls that a hard refusal ended before they began."""

    @property
    def broken_off(self) -> bool:
        """Whether a person refused all that the turn does: nothing more may begin."""
        return self._broken_off

    @property
    def mode(self) -> Mode:
        """The session's mode now."""
        return mode_of(self._turn.session, self._default_mode)

    async def command(self, command: str, verdict: Verdict, asking: Asking) -> None:
        """Return once this command may run. Raises ``ToolDenied``."""
        mode = self.mode
        if mode == "all" or verdict.approved:
            return
        if mode == "plan":
            raise ToolDenied(_PLAN, _refused(_PLAN))
        if asking.subagent is not None:
            raise ToolDenied(_SUBAGENT, _refused(_SUBAGENT))
        exact = f"bash({command})"
        if self.commands_granted(exact, verdict):
            return
        answer = await self.ask(
            permission_decision(
                self._turn,
                command,
                call=asking.call,
                tool="bash",
                given={"command": command},
                wider=MORE_COMMANDS,
                dangerous=verdict.dangerous,
                reason=verdict.reason,
                detail={"grant": exact, "tool_grant": ALL_COMMANDS, **await _shown(asking, asking.description)},
            )
        )
        if not accepted(answer):
            refused = denied(answer)
            raise ToolDenied(str(refused), _refused(str(refused)), told=refused.told)

    async def edit(self, path: str, given: Json, asking: Asking, *, tool: str) -> None:
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
                call=asking.call,
                tool=tool,
                given=given,
                wider=(Option(more, "session"),),
                dangerous=steers,
                detail={
                    "grant": grant,
                    **({"subagent": asking.subagent} if asking.subagent else {}),
                    **await _shown(asking),
                },
            )
        )
        if not accepted(answer):
            raise denied(answer)

    async def foreign(self, wanted: ForeignCall, asking: Asking) -> None:
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
        if asking.subagent is not None:
            raise ToolDenied(_SUBAGENT_FOREIGN)
        answer = await self.ask(
            permission_decision(
                self._turn,
                wanted.text,
                call=asking.call,
                tool=wanted.tool,
                given=wanted.given,
                wider=(
                    Option("Yes, and this tool for the rest of the session", "session"),
                    Option(f"Yes, and every tool of {wanted.owner}", f"rule:{wanted.rule}"),
                ),
                detail={"grant": wanted.grant, **await _shown(asking)},
            )
        )
        if not accepted(answer):
            raise denied(answer, REJECTED_CALL)

    async def ask(self, opened: DecisionOpened) -> Answer | None:
        """The answer; None when nobody will give one. Raises ``ToolDenied`` where nobody can be asked, or need be."""
        self.check_goes_on()
        try:
            answer = await self._turn.decide(opened)
        except DecisionClosed:
            answer = None
        except HubError as problem:
            raise ToolDenied(f"Nobody could be asked: {problem}") from problem
        self.check_goes_on()
        if opened.kind == "permission" and is_hard(answer):
            self._break_off(opened, refusal(answer))
        return answer

    def check_goes_on(self) -> None:
        """Raise ``ToolDenied`` once the person has refused all that the turn does."""
        if self._broken_off:
            raise ToolDenied(BROKEN_OFF)

    def _break_off(self, refused: DecisionOpened, said: str) -> None:
        """Nothing more begins, and nobody is asked any more: what waits for an answer has not begun either."""
        self._broken_off = True
        session = self._turn.session
        if refused.call is not None:
            self.refused[refused.call] = said
        for other in list(session.state.decisions.values()):
            if other.turn == self._turn.turn:
                if other.call is not None:
                    self.refused.setdefault(other.call, BROKEN_OFF)
                session.cancel_decision(other.decision, "rejected")

    def commands_granted(self, exact: str, verdict: Verdict) -> bool:
        """Whether a person has permitted this very command, or commands such as this one."""
        grants = self._turn.session.state.grants
        return exact in grants or ALL_COMMANDS in grants or (COMMANDS in grants and not verdict.dangerous)

    def _granted(self, grant: str) -> bool:
        return grant in self._turn.session.state.grants


async def _shown(asking: Asking, description: str | None = None) -> Mapping[str, Json]:
    """What a person is shown beside what is asked: what the model says of it, and the calls behind it."""
    said = description[:DESCRIPTION_CHARS] if description else None
    shown: dict[str, Json] = {"description": said, "batch": await asking.behind()}
    return {name: value for name, value in shown.items() if value}


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


def _refused(why: str) -> Json:
    """The result of a command that did not run."""
    return {"stdout": "", "stderr": why, "exitCode": 1}
