"""One step of a turn: a model call told to the log as it streams, and the calls it made, run as they come.

The order in the log: the step starts; parts open, grow and close, each closed text a message; a call as soon as its
input is complete, and its result as soon as it has one; then the tokens, then the step's end (docs/mapping.md rule 6).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import msgspec

from dragoman.hub.client_tools import ClientCall
from dragoman.hub.errors import HubError
from dragoman.hub.events import (
    Json,
    LogWritten,
    MessageAdded,
    PartDelta,
    PartEnded,
    PartStarted,
    Problem,
    RawPart,
    SourceCited,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
)
from dragoman.hub.events.stream import PartKind
from dragoman.hub.events.tools import ToolStatus
from dragoman.hub.turns import TurnContext

from .batch import Batch
from .calls import CallRunner, Done, shown_input
from .model_call import Answer, call_model, whole
from .providers.conversation import ModelRequest
from .providers.port import (
    CallMade,
    Cited,
    PartClosed,
    PartGrew,
    PartOpened,
    Provider,
    ProviderCallEnded,
    ProviderFailed,
    RawReceived,
    StreamEvent,
)
from .rejections import BROKEN_OFF
from .usage import Meter

BACKLOG = 512
"""Events recorded ahead of the disk before the stream waits for it."""

LOOK_EVERY = 64
"""Events of the stream between two looks at that: who waited for all of them would stand still each time."""

PARTIAL = "partial"
"""``message.added.kind`` of a text that was cut off: by a cancel, or by its provider."""


class Reached(msgspec.Struct, frozen=True):
    """What the model is reached through for one step, and how many tokens it takes."""

    provider: Provider
    raw: bool
    window: int


class StepRunner:
    """Runs one step. Make one per step; ``run`` once."""

    def __init__(
        self, turn: TurnContext, number: int, calls: CallRunner, meter: Meter, is_taken: Callable[[str], bool]
    ) -> None:
        self._turn = turn
        self._number = number
        self._calls = calls
        self._meter = meter
        self._is_taken = is_taken
        self._ids: dict[str, str] = {}
        self._began: dict[str, float] = {}
        """When a call that the provider runs itself was first heard of, by its part."""
        self._answer = Answer("")
        self._events = 0
        self._spoke = False
        """Whether anything was said that people wait for."""
        self._tools: asyncio.TaskGroup
        self.conversation_tokens = 0
        """Tokens of the conversation after this step, once it has ended well."""
        self._offered: frozenset[str] = frozenset()
        self._client_tools: frozenset[str] = frozenset()
        self._running: list[asyncio.Task[Done]] = []
        self._client_calls: list[CallMade] = []
        self._batch = Batch()

    async def run(self, reached: Reached, request: ModelRequest, client_tools: Sequence[str]) -> Answer:
        """The step to its end, with every result in. Raises ``ProviderFailed``."""
        provider = reached.provider
        self._answer = Answer(provider.name)
        self._offered = frozenset(tool.name for tool in request.tools)
        self._client_tools = frozenset(client_tools)
        self._turn.record(
            StepStarted(turn=self._turn.turn, step=self._number, provider=provider.name, model=request.model)
        )
        failure: ProviderFailed | None = None
        try:
            async with asyncio.TaskGroup() as self._tools:
                failure = await self._stream(reached, request)
                self._batch.complete()
                if failure is None:
                    await self._spent(request, reached.window)
                if failure is not None:
                    self._stop_tools()
                elif self._client_calls and self._calls.broken_off:
                    self._refuse_client_calls()
                elif self._client_calls:
                    await self._run_client_calls()
        except BaseException:
            with contextlib.suppress(HubError):  # the log may be over, or full: why this step ends counts more
                self._close_parts()
            raise
        if failure is not None:
            self._failed(failure)
            raise failure
        self._ended()
        return self._answer

    async def _stream(self, reached: Reached, request: ModelRequest) -> ProviderFailed | None:
        try:
            await call_model(
                reached.provider,
                request,
                self._calls.place.settings.turn,
                on_event=self._take,
                on_retry=self._retried,
                raw=reached.raw,
            )
        except ProviderFailed as failure:
            return failure
        return None

    def _stop_tools(self) -> None:
        """The model will never hear of their results. They have one all the same: the turn's end gives it to them."""
        for task in self._running:
            task.cancel()

    async def _run_client_calls(self) -> None:
        """Together: those for one client are a bundle. What is no JSON goes out as the text that it is."""
        calls = [
            ClientCall(
                call=made.call, tool=made.tool, input=shown_input(made.arguments), provider_metadata=made.metadata
            )
            for made in self._client_calls
        ]
        seconds = self._calls.place.settings.tools.client_seconds
        await self._turn.session.call_client_tools(self._turn, calls, seconds)

    def _refuse_client_calls(self) -> None:
        """The person refused another call, and with it whatever had not begun."""
        turn = self._turn.turn
        for made in self._client_calls:
            given = shown_input(made.arguments)
            self._turn.record(ToolCalled(call=made.call, tool=made.tool, input=given, turn=turn, executor="client"))
            problem = Problem(code="denied", message=BROKEN_OFF, source="permissions")
            self._turn.record(
                ToolEnded(
                    call=made.call,
                    tool=made.tool,
                    status="denied",
                    output=BROKEN_OFF,
                    problem=problem,
                    turn=turn,
                    duration_ms=0,
                )
            )

    # What the stream says

    async def _take(self, event: StreamEvent) -> None:
        if isinstance(event, PartGrew):
            self._grew(event)
            if not self._spoke:
                # The first word leaves at once, and not with all that has come together with it.
                self._spoke = True
                await self._turn.recorded()
        elif isinstance(event, RawReceived):
            self._raw(event)
        else:
            self._told(event)
        self._events += 1
        if self._events % LOOK_EVERY == 0:
            await self._turn.recorded(but=BACKLOG)

    def _grew(self, event: PartGrew) -> None:
        self._answer.take(event)
        part, kind = self._ids[event.part], self._answer.kind_of(event.part)
        self._turn.record(PartDelta(turn=self._turn.turn, part=part, kind=kind, text=event.text))

    def _told(self, event: StreamEvent) -> None:
        """All but what comes by the thousand."""
        if isinstance(event, PartOpened):
            self._opened(event)
        elif isinstance(event, PartClosed):
            self._closed(event)
        elif isinstance(event, CallMade):
            self._called(event)
        elif isinstance(event, ProviderCallEnded):
            self._provider_called(event)
        elif isinstance(event, Cited):
            self._turn.record(SourceCited(turn=self._turn.turn, source=event.source))
        else:
            self._answer.take(event)

    def _opened(self, event: PartOpened) -> None:
        self._answer.take(event)
        part = self._ids[event.part] = self._unique(event.part)
        if event.by_provider:
            self._began[part] = self._turn.session.clock.monotonic()
        self._turn.record(
            PartStarted(
                turn=self._turn.turn,
                part=part,
                kind=event.kind,
                tool=event.tool,
                executor="provider" if event.by_provider else None,
                dynamic=event.tool in self._offered and self._calls.is_found(event.tool),
                provider_metadata=event.metadata,
            )
        )

    def _closed(self, event: PartClosed) -> None:
        kind, text = self._answer.kind_of(event.part), self._answer.text_of(event.part)
        self._answer.take(event)
        part = self._ids[event.part]
        self._turn.record(PartEnded(turn=self._turn.turn, part=part, kind=kind, provider_metadata=event.metadata))
        if kind != "tool_input" and (text or (kind == "reasoning" and event.metadata is not None)):
            record_said(self._turn, kind, text, metadata=event.metadata)

    def _called(self, event: CallMade) -> None:
        call = self._ids.get(event.call) or self._unique(event.call)
        event = msgspec.structs.replace(event, call=call)
        self._answer.take(event)
        if event.tool in self._client_tools:
            self._client_calls.append(event)
            self._batch.add(event)
        else:
            recorded = self._calls.called(event, tools=self._offered, batch=self._batch)
            if not self._calls.refused(recorded):
                self._running.append(self._tools.create_task(self._calls.run(recorded), name=f"tool:{call}"))

    def _provider_called(self, event: ProviderCallEnded) -> None:
        call = self._ids.get(event.call) or self._unique(event.call)
        turn = self._turn.turn
        self._turn.record(ToolCalled(call=call, tool=event.tool, input=event.input, turn=turn, executor="provider"))
        status: ToolStatus = "error" if event.failed else "ok"
        now = self._turn.session.clock.monotonic()
        duration = round((now - self._began.get(call, now)) * 1000)
        self._turn.record(
            ToolEnded(
                call=call,
                tool=event.tool,
                status=status,
                output=event.output,
                turn=turn,
                duration_ms=duration,
            )
        )

    def _raw(self, event: RawReceived) -> None:
        try:
            self._record_raw(event.raw, event.sdk_type)
        except HubError:
            self._raw_mended(event)

    def _raw_mended(self, event: RawReceived) -> None:
        """One that the log did not take: without half characters, or else why it is not there."""
        try:
            self._record_raw(whole(event.raw), event.sdk_type)
        except (HubError, RecursionError) as problem:
            self._record_raw({"omitted": str(problem)}, event.sdk_type)

    def _record_raw(self, raw: Json, sdk_type: str | None) -> None:
        self._turn.record(RawPart(turn=self._turn.turn, raw=raw, sdk_type=sdk_type))

    def _retried(self, failure: ProviderFailed, delay: float) -> None:
        self._close_parts()
        line = f"model call failed ({failure}); trying again in {delay:g} s"
        self._turn.record(LogWritten(line=line, level="warning", turn=self._turn.turn))

    # Its end

    async def _spent(self, request: ModelRequest, window: int) -> None:
        """The model has said all of its answer, and what that cost; its tools may run on."""
        turn = self._turn.turn
        usage = await self._meter.measure(request, self._answer)
        self.conversation_tokens = usage.conversation_tokens or 0
        self._turn.record(
            msgspec.structs.replace(
                usage,
                message=f"{turn}:{self._number}",
                turn=turn,
                step=self._number,
                context_window=window,
                answered=True,
            )
        )

    def _ended(self) -> None:
        finished = self._answer.finished
        assert finished is not None, "a stream ends with Finished"
        self._turn.record(
            StepEnded(
                turn=self._turn.turn,
                step=self._number,
                finish_reason=finished.reason,
                raw_finish_reason=finished.raw_reason,
                response=finished.response,
                provider_metadata=finished.metadata,
            )
        )

    def _failed(self, failure: ProviderFailed) -> None:
        self._close_parts()
        self._turn.record(
            StepEnded(turn=self._turn.turn, step=self._number, finish_reason="error", problem=problem_of(failure))
        )

    def _close_parts(self) -> None:
        """What the model said before it was cut off stays said, and the next turn knows of it."""
        for part in self._answer.open_parts:
            kind, text = self._answer.kind_of(part), self._answer.text_of(part)
            self._turn.record(PartEnded(turn=self._turn.turn, part=self._ids[part], kind=kind))
            if kind == "text" and text:
                record_said(self._turn, kind, text, mark=PARTIAL)
            self._answer.take(PartClosed(part))

    def _unique(self, given: str) -> str:
        """The provider's id where it is new, else one made from it."""
        unique = given or self._turn.session.ids()
        while self._is_taken(unique):
            unique = f"{given}-{self._turn.session.ids()[:8]}"
        return unique


def record_said(
    turn: TurnContext, kind: PartKind, text: str, *, mark: str | None = None, metadata: Json = None
) -> None:
    """Record a part's whole text as a message: what the model said, or thought. ``mark`` is the message's kind."""
    turn.record(
        MessageAdded(
            message=turn.session.ids(),
            role="assistant" if kind == "text" else "reasoning",
            text=text,
            turn=turn.turn,
            kind=mark,
            provider_metadata=metadata,
        )
    )


def problem_of(failure: ProviderFailed) -> Problem:
    """A provider's failure as the log has it."""
    detail = {"status": failure.status, "error": failure.detail}
    shown = {key: value for key, value in detail.items() if value is not None}
    return Problem(code=f"provider_{failure.cause}", message=str(failure), source="provider", detail=shown or None)
