"""What the hub asks of the parts that it does not know: agents, terminals, tapes, screens.

``dragoman.agents`` implements these; dialects use them through the session and never see what is behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import msgspec

from .events import Answer, DecisionResolved, DecisionRevised, Json, PromptSubmitted

if TYPE_CHECKING:
    from .permissions import Principal
    from .session import Session
    from .standing import Executor
    from .turns import TurnContext


class Style(msgspec.Struct, frozen=True, omit_defaults=True):
    """How cells look. Colours are ``"#rrggbb"``, a palette index 0-255, or None for the default."""

    fg: str | int | None = None
    bg: str | int | None = None
    bold: bool = False
    faint: bool = False
    italic: bool = False
    underline: bool = False
    strikethrough: bool = False
    blink: bool = False
    inverse: bool = False


class StyledRun(msgspec.Struct, frozen=True):
    """A stretch of one line in one style."""

    text: str
    style: Style


class CursorPosition(msgspec.Struct, frozen=True):
    """Row and column, counted from 0."""

    row: int
    col: int


class ScreenSnapshot(msgspec.Struct, frozen=True):
    """The terminal as a person sees it: exactly ``rows`` lines, trailing blanks trimmed.

    ``seq`` grows with every change, resizes included; equal ``seq`` means equal content. ``tape_offset`` is the
    offset of the first byte not yet in this picture.
    """

    lines: tuple[str, ...]
    cols: int
    rows: int
    alt_screen: bool
    cursor: CursorPosition
    cursor_visible: bool
    seq: int
    tape_offset: int
    title: str | None = None


class Screen(Protocol):
    """A terminal model fed with the program's bytes."""

    @property
    def cols(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def seq(self) -> int:
        """Number of changes so far."""

    @property
    def bracketed_paste(self) -> bool:
        """Whether the program asked for pastes to be marked (mode 2004)."""

    @property
    def held(self) -> bool:
        """Whether a synchronized update (mode 2026) is open and younger than its limit: do not publish now."""

    def snapshot(self) -> ScreenSnapshot:
        """The picture now; while ``held``, the last complete one."""

    def styled(self) -> tuple[tuple[StyledRun, ...], ...]:
        """The lines of the picture now, with how they look."""


class Tape(Protocol):
    """The newest raw bytes of a terminal, addressed by absolute offset (invariant 7)."""

    @property
    def start(self) -> int:
        """Offset of the oldest byte still held."""

    @property
    def end(self) -> int:
        """Offset after the newest byte: the total ever written."""

    def read(self, offset: int, limit: int | None = None) -> tuple[int, bytes]:
        """Bytes from ``offset`` on, at most ``limit``, and the offset they really start at.

        An offset before ``start`` is moved up to it. One beyond ``end`` is returned as it is, with no bytes.
        """


class Terminal(Protocol):
    """A program on a PTY: what dialects may do with it. Input goes to the program at once and is not recorded."""

    @property
    def tape(self) -> Tape: ...
    @property
    def screen(self) -> Screen | None:
        """The terminal model; None when the session runs with the model off."""

    @property
    def cols(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def pid(self) -> int | None:
        """The program's process id, or None once it ended."""

    @property
    def running(self) -> bool:
        """Whether the program may still write. False only after its last byte is on the tape."""

    @property
    def bytes_written(self) -> int:
        """Bytes that went to the program as input."""

    def write(self, data: bytes) -> None:
        """Send input. Raises ``InputRefused`` when the input buffer is full; after the end it does nothing."""

    def press(self, keys: Sequence[str]) -> int:
        """Send named keys, all or none; returns the bytes sent. Raises ``InvalidRequest`` ``unknown key: NAME``."""

    def resize(self, cols: int, rows: int, by: str | None = None) -> None:
        """Model first, then PTY. Raises ``InvalidSize`` before anything is touched."""

    def signal(self, name: str) -> None:
        """Send a signal to the program's group, by name or number.

        Raises ``InvalidRequest`` ``unknown signal: NAME``.
        """

    def watch(self, watcher: TerminalWatcher) -> Callable[[], None]:
        """Be told of new bytes, pictures and sizes until the returned function is called."""


class TapeReader(Protocol):
    """Somebody who reads a tape: ``offset`` is that of the next byte they want. Told apart by identity."""

    @property
    def offset(self) -> int: ...


class TerminalWatcher(Protocol):
    """Told on the event loop; must return at once and pull what it wants at its own pace."""

    def readers(self) -> Collection[TapeReader]:
        """Who reads the tape here now."""

    def tape_grew(self) -> None: ...
    def screen_changed(self) -> None:
        """A new picture may be published (debounced, never inside a synchronized update)."""

    def resized(self) -> None: ...


class StopVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an agent may stop. ``type`` is one of coop's stop types; ``reason`` is for the agent, when blocked."""

    type: str
    reason: str | None = None
    last_message: str | None = None


HookChannel = Literal["socket", "http", "file"]
"""How a hook's post came: through the user's own socket, by HTTP, or as a line of the events file."""


class HookPost(msgspec.Struct, frozen=True, kw_only=True):
    """One post of some agent's hook: the payload as it came, and what whoever handed it on knows beside it.

    ``agent`` and ``event`` name agent and hook where the poster said so outside the payload; ``at`` is when the hook
    ran, in milliseconds since 1970. ``session`` and ``secret`` are those of the session of ours, if any, that the
    agent says it runs in. ``parents`` are the pids of the hook's ancestors with their start times, the nearest first.
    """

    payload: dict[str, Json]
    channel: HookChannel
    agent: str | None = None
    event: str | None = None
    at: int | None = None
    session: str | None = None
    secret: str | None = None
    parents: tuple[tuple[int, int], ...] = ()


class HookIntake(Protocol):
    """What takes the hooks of agents that run elsewhere, and makes sessions of them."""

    async def take(self, post: HookPost) -> None:
        """Take a post; returns once what it says is durable.

        One that says nothing that can be understood, or of no session, is taken and changes nothing. Raises
        ``LimitReached`` and ``StorageUnavailable``.
        """

    async def ask(self, post: HookPost) -> str:
        """Take a post whose agent waits for an answer: what its hook is to print, empty where it is to ask by itself.

        Cancelled when the hook is gone: then somebody answered at the agent's own terminal. Raises as ``take``.
        """


class Hooks(Protocol):
    """An agent that takes what is posted to it: the agent's own hooks, and what is said of them."""

    def hears(self, agent: str, agent_session: str | None) -> bool | None:
        """Whether this agent's own hooks tell us of this session of that agent already.

        False for another program that runs inside it; None where nobody can say yet.
        """

    def proves(self, secret: str) -> bool:
        """Whether this is the secret that only what the agent started can know. Compares in constant time."""

    async def ingest(self, event: str, data: Json) -> None:
        """Take a hook's payload. ``event`` is the hook's name; returns once what it says is durable.

        Raises ``InvalidRequest`` for a payload that is no object.
        """

    async def stop(self, data: Json) -> StopVerdict:
        """The agent wants to stop: may it? The verdict is durable before it is returned."""

    async def signal(self, principal: Principal, body: Json) -> None:
        """Allow the agent's next stop, and say so with ``body``; returns once durable."""

    async def start(self, data: Json) -> str:
        """The agent's session begins: the script that its hook is to run; empty when there is nothing to inject."""


class Driver(Protocol):
    """What knows an agent's TUI: those who gave it something learn here what became of it."""

    async def taken(self, prompt: str) -> str | None:
        """Wait until the agent has evidently taken this prompt: None, or else why it did not."""

    async def carried_out(self, decision: str) -> str | None:
        """Wait until this decision's answer, partial or whole, has reached the dialog: None, or why it did not."""


@runtime_checkable
class ReadsAhead(Protocol):
    """An agent that can read what a turn will need while the turn's beginning is on its way to the disk."""

    def read_ahead(self) -> None:
        """A turn is about to begin. Has no effect but that the turn finds some of it read, and returns at once."""


@runtime_checkable
class ShowsPictures(Protocol):
    """An agent whose model may be shown pictures that came with a prompt and lie in the artifact store."""

    async def shows_pictures(self) -> bool:
        """Whether it is so as the session stands now. Where not, a picture is better given as a file."""


class Agent(Protocol):
    """What runs turns in one session. Made by an ``AgentFactory``; lives as long as its executor."""

    @property
    def terminal(self) -> Terminal | None:
        """The terminal, for an agent that has one."""

    @property
    def driver(self) -> Driver | None:
        """What knows the agent's TUI, where there is one."""

    @property
    def hooks(self) -> Hooks | None:
        """What takes the agent's hooks, for an agent that has any."""

    @property
    def own_tools(self) -> Collection[str]:
        """Names of the tools that it brings along: no client can offer one of the same name."""

    @property
    def offered_tools(self) -> Collection[str]:
        """Those of its own tools that its model is offered now; not those that servers of tools bring."""

    @property
    def holds(self) -> bool:
        """Whether ``close`` has something to end although no executor is live and no turn is open.

        Such a session stays in memory, and is closed or stopped like one that runs.
        """

    async def start(self) -> None:
        """Bring the executor to life (spawn the program…) and record ``agent.started``.

        Raises ``InvalidRequest`` when it cannot be.
        """

    def check(self, prompt: PromptSubmitted) -> None:
        """Raise ``Unsupported`` or another hub error if this agent cannot take the prompt, before it is recorded."""

    async def run_turn(self, turn: TurnContext) -> str | None:
        """Run one turn to its end and return its result text.

        Cancelled by task cancellation: clean up, stop every process of the turn, then let it propagate. Any other
        exception fails the turn; only ``TurnFailed`` has its text shown.
        """

    def answering(self, decision: str, answer: Answer) -> AbstractAsyncContextManager[None]:
        """Around the recording of an answer: what a person types at the agent's terminal cannot get in between.

        On leaving, the answer is recorded or was refused. Raises ``InputRefused`` when the person does not pause,
        ``InvalidAnswer`` for what cannot be said to this agent.
        """

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        """A decision that no ``TurnContext.decide`` waits for got its outcome, which is durable now.

        ``answer`` is what was really said, also where the log withholds it.
        """

    def progressed(self, revision: DecisionRevised) -> None:
        """Some questions of a dialog were answered (``revision.answered``, from the first one on) and others are left.

        Durable now. An answer that says nothing stands for a question that was answered elsewhere.
        """

    async def compact(self) -> None:
        """Shorten the context now, and record it (``context.compacted``).

        Called while no turn is open, once at a time; ``close`` ends it, and a turn that begins meanwhile is the agent's
        to hold back. Raises ``Unsupported`` where the agent has no context of ours.
        """

    async def close(self, budget: float) -> None:
        """End the executor within ``budget`` seconds and record ``agent.exited`` if it was live."""


class AgentFactory(Protocol):
    """Makes the agents of one kind. ``kind`` is the word in ``session.created``."""

    kind: str

    elsewhere: bool
    """Whether these agents run where the server does not start them, and live on without it: their folder need not be
    here, and ``recover`` alone says what became of what was open."""

    def validate(self, agent: str, cwd: str, options: dict[str, object]) -> dict[str, object]:
        """The options as the log may hold them: without what may be secret.

        Raises ``InvalidRequest`` if a session cannot be made with them.
        """

    def check_settings(self, changes: Mapping[str, Json]) -> None:
        """Raise ``InvalidRequest`` for settings that mean nothing to these agents; null removes one."""

    def widens(self, before: Mapping[str, Json], changes: Mapping[str, Json]) -> bool:
        """Whether a session with the settings ``before`` may be allowed more once they are changed so.

        Asked after ``check_settings``; a new session has none before. Who cannot tell says yes: see
        ``permissions.widening``.
        """

    def adopt(self, session: str, options: dict[str, object]) -> None:
        """Keep, outside the log, what ``validate`` left out."""

    def make(self, session: Session) -> Agent:
        """An agent for this session, not yet started."""

    async def sweep(self, kept: Collection[str]) -> Collection[str]:
        """At the server's start: remove what lies beside logs that are gone.

        ``kept`` are the sessions that have one. Returns those for which programs of an earlier server still run.
        """

    async def recover(self, session: Session, lost: Executor | None) -> None:
        """After a lost server: end what it left running for this session, and record what could not be ended."""

    def dropped(self, session: str) -> None:
        """The session's log is gone: remove what was kept beside it."""
