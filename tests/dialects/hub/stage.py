"""A server whose agents call the tools of clients as a test says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.hub.client_tools import ClientCall
from dragoman.hub.events import ToolEnded
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext
from tests.hub.rig import PuppetFactory

from .conftest import MakeRig
from .rig import Link, Message, Rig, eventually


class Stage:
    """A server whose puppets call what the test says, and one session of theirs."""

    def __init__(self, rig: Rig, puppets: PuppetFactory, session: Session) -> None:
        self.rig, self.puppets, self.session = rig, puppets, session
        self.results: list[ToolEnded] = []
        self._calls = 0

    async def turn(self, *tools: str, timeout: float = 60.0) -> None:
        """Start a turn that calls these tools in one step."""

        async def behave(turn: TurnContext) -> str | None:
            self._calls += len(tools)
            calls = [ClientCall(call=f"c{self._calls}-{n}", tool=tool, input={"n": n}) for n, tool in enumerate(tools)]
            self.results = await turn.session.call_client_tools(turn, calls, timeout)
            return "went on"

        self.puppets.behave = behave
        await self.session.submit(LOCAL, "go", via="test", when_busy="queue")

    async def over(self) -> list[tuple[str, str | None]]:
        """What became of the calls, once the turn has gone on to its end."""
        await eventually(
            lambda: self.session.shown.turn is None and self.session.head == self.session.shown.seq, "over"
        )
        return [(end.status, end.problem and end.problem.code) for end in self.results]

    async def declare(self, link: Link, *names: str) -> Message:
        return await link.ask("declare_tools", session=self.session.id, tools=offers(*names))


def offers(*names: str) -> Sequence[dict[str, Any]]:
    return [{"name": name, "description": "x", "parameters": {"type": "object"}} for name in names]


async def make_stage(make_rig: MakeRig, **more: Any) -> Stage:
    puppets = PuppetFactory()
    rig = await make_rig(factories=(puppets,), **more)
    return Stage(rig, puppets, await rig.session("puppet"))
