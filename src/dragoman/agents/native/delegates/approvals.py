"""What a program wants to be permitted: the session's mode, what was granted before, or a person.

The program asks where its own rules do not decide; the answer is ours, and read anew for each call. Commands and edits
go by ``permits`` like those of our own tools, with one difference: no command runs unasked because it looks harmless,
for the program runs it in an environment that we do not make. Other tools are asked about one by one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from dragoman.agents.native.calls import Place
from dragoman.agents.native.permissions import Reason, Verdict, classify
from dragoman.agents.native.permits import Asking, Permits, accepted, permission_decision
from dragoman.agents.native.rejections import UNANSWERED, denied
from dragoman.agents.native.tools.tool import ToolDenied
from dragoman.hub.events import Answer, DecisionOpened, Json, Option
from dragoman.hub.real_path import real_path
from dragoman.hub.turns import TurnContext

PLANNING = "This session is in plan mode: nothing may be changed until a plan is accepted."


class Approvals:
    """One turn's. Every method returns once the call may go on, and raises ``ToolDenied`` where it may not."""

    def __init__(self, turn: TurnContext, place: Place, permits: Permits) -> None:
        self._turn = turn
        self._place = place
        self._permits = permits

    async def command(self, command: str, *, call: str, dangerous: bool = False) -> None:
        """A command line that the program would run. ``dangerous``: the program itself warns of it."""
        verdict = await asyncio.to_thread(classify, command, self._place.cwd, self._place.roots)
        if dangerous:
            verdict = Verdict(Reason.DANGEROUS)
        elif verdict.approved:
            verdict = Verdict(Reason.REVIEW)
        await self._permits.command(command, verdict, Asking(call))

    async def edit(self, path: str, given: Json, *, tool: str, call: str) -> None:
        """A file that the program would change. Outside the session's folder every one is asked about."""
        inside = await asyncio.to_thread(self._inside, path)
        if inside is not None:
            await self._permits.edit(inside, given, Asking(call), tool=tool)
            return
        if self._permits.mode == "plan":
            raise ToolDenied(PLANNING)
        await self.other(tool, f"{tool} {path}", given, call=call, grant=f"{tool}({path})")

    async def other(self, tool: str, text: str, given: Json, *, call: str, grant: str | None = None) -> None:
        """Any other tool. ``grant`` is what a yes for the session permits, else this very tool."""
        wider = "this" if grant else tool
        grant = grant or f"{tool}()"
        if self._permits.mode == "all" or grant in self._turn.session.state.grants:
            return
        more = Option(f"Yes, and {wider} for the rest of the session", "session")
        answer = await self._permits.ask(
            permission_decision(
                self._turn, text, call=call, tool=tool, given=given, wider=(more,), detail={"grant": grant}
            )
        )
        if not accepted(answer):
            raise denied(answer)

    async def ask(self, opened: DecisionOpened) -> Answer:
        """The answer to a decision of the program's; ``ToolDenied`` where nobody gives one."""
        answer = await self._permits.ask(opened)
        if answer is None:
            raise ToolDenied(UNANSWERED)
        return answer

    def _inside(self, path: str) -> str | None:
        """The path from the session's folder, wherever links lead; None when it lies outside of all that it may touch.

        A link that is swapped later deceives this: what holds the program back then is itself.
        """
        try:
            real = real_path(self._place.cwd / path)
        except (OSError, ValueError):
            return None
        for root in self._place.roots:
            if real.is_relative_to(os.path.realpath(root)):
                return str(real.relative_to(os.path.realpath(root)))
        return None


def about(tool: str, given: Mapping[str, Any]) -> str:
    """A call of any tool in words: its name, and what of its input tells the most."""
    for name in ("url", "query", "file_path", "path", "pattern", "skill", "description"):
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return f"{tool} {value}"
    return tool
