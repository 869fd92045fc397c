"""A conversation's log as stream events: a pure fold (mapping: windie; spec §6, "Turn order").

Each event of a turn has the turn's name and a number, from 1 without a gap: both follow from the log alone, so every
link is told the same under the same number, however late it comes. What a link must not run it is shown otherwise, in
the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from dragoman.hub.events import (
    Compacted,
    ContextReported,
    DecisionOpened,
    Event,
    HistoryMerged,
    Json,
    MessageAdded,
    PartDelta,
    PromptSubmitted,
    PromptWithdrawn,
    ToolCalled,
    ToolEnded,
    ToolProgressed,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from dragoman.hub.state import SessionState

from .messages import (
    AssistantMessageFull,
    BundledTool,
    ContextCompactionCompleted,
    ContextCompactionFailed,
    ContextCompactionStarted,
    Error,
    LlmThought,
    QueryAccepted,
    StreamingComplete,
    StreamingResponse,
    StreamPayload,
    SystemPrompt,
    ToolBundle,
    ToolCall,
    ToolCallMetadata,
    ToolFunction,
    ToolOutput,
    ToolSchema,
    ToolSchemas,
    UserMessageFull,
    WebSearchProgress,
)
from .token_count import Spending
from .user_message import user_message_full

NO_ANSWER = "The agent finished without saying anything."
"""What is sent where a turn ends well and said nothing."""

CANCELLED = "The query was stopped from elsewhere."
INTERRUPTED = "The server stopped while this query ran. Send it again if it should go on."
WITHDRAWN = "The query was taken back before it began."

VIA = "windie"
"""What the log says of prompts that came here."""

BACKEND = "backend"
"""Who runs a tool that no client does, in the contract's word."""

BETWEEN = "\n\n"
"""What stands between two texts of one turn."""

NO_CALL_ID = "tool_call_0"
"""What stands for a provider's id of a call where there is none (seed: tool-call)."""

WEB_SEARCH = "web_search"

WIRE_NAMES = {"webSearch": WEB_SEARCH}
"""Tools of ours that the contract knows by another name."""


_INTRODUCTION = (QueryAccepted, SystemPrompt, UserMessageFull, ToolSchemas)
"""What comes before anything that the model does."""


class Said(msgspec.Struct, frozen=True):
    """One stream event: whose turn, its number there, when (milliseconds since 1970), and what is said.

    ``client`` names the link that is to run it, for a call or a bundle of a client's.
    """

    turn_ref: str
    sequence: int
    at: int
    payload: StreamPayload
    client: str | None = None

    def shown_to(self, link: str) -> StreamPayload:
        """What this link is told: what another one runs, it is not to run."""
        if self.client in (None, link):
            return self.payload
        if isinstance(self.payload, ToolCall):
            metadata = msgspec.structs.replace(self.payload.metadata, skip_local_execution=True)
            return msgspec.structs.replace(self.payload, metadata=metadata)
        assert isinstance(self.payload, ToolBundle)
        return _bundle_elsewhere(self.payload)


class _Turn:
    """What is being told of one turn."""

    def __init__(self, ref: str, prompt: PromptSubmitted | None, *, first: bool) -> None:
        self.ref = ref
        self.prompt = prompt
        self.first = first
        self.number = 0
        self.introduced = False
        """Whether it was said what the model is given, or can be no more."""
        self.reported: set[str] = set()
        """Which parts of that were."""
        self.texts: list[str] = []
        """All that the answer has said so far, text by text."""
        self.growing: dict[str, str] = {}
        """What deltas said since the last whole message, by kind."""
        self.bundles: dict[str, list[ToolCalled]] = {}
        self.running: dict[str, ToolCall] = {}
        """Calls that no client runs, and that have no result yet."""
        self.spending = Spending()
        self.has_output = False
        """Whether anything was said that the model did."""


class Projection:
    """The fold of one conversation. Feed it every event of the log in order.

    It may begin anywhere but inside a turn: then ``waiting`` are the prompts that wait there, and ``begun`` is whether
    the conversation had a turn before, ``compaction`` a shortening that is under way: its end is not told, as its start
    was not (``beginning``).
    """

    def __init__(
        self,
        session: str,
        waiting: Iterable[PromptSubmitted] = (),
        *,
        begun: bool = False,
        compaction: str | None = None,
    ) -> None:
        self._session = session
        self._waiting: dict[str, PromptSubmitted] = {prompt.prompt: prompt for prompt in waiting}
        self._turn: _Turn | None = None
        self._begun = begun
        """Whether anything was said before the next turn, here or in what a client remembers."""
        self._compactions: dict[str, int] = {}
        self._unheard = compaction
        self._at = 0

    def take(self, event: Event) -> Iterator[Said]:
        """What is to be said of this event. Consume it before the next event is given."""
        self._at = event.at
        project = _PROJECTED.get(type(event.fact))
        if project is not None:
            yield from project(self, event)

    # Turns

    def _submitted(self, event: Event) -> Iterable[Said]:
        fact = event.fact
        assert isinstance(fact, PromptSubmitted)
        self._waiting[fact.prompt] = fact
        return ()

    def _withdrawn(self, event: Event) -> Iterable[Said]:
        fact = event.fact
        assert isinstance(fact, PromptWithdrawn)
        prompt = self._waiting.pop(fact.prompt, None)
        if prompt is not None and (ref := _query_id(prompt)) is not None:
            yield Said(ref, 1, self._at, Error(message=WITHDRAWN))

    def _started(self, event: Event) -> Iterable[Said]:
        fact = event.fact
        assert isinstance(fact, TurnStarted)
        prompt = self._waiting.pop(fact.prompt, None)
        ref = _query_id(prompt) if prompt is not None else None
        self._turn = _Turn(ref or fact.turn, prompt, first=not self._begun)
        self._begun = True
        yield self._next(self._turn, QueryAccepted())

    def _ended(self, event: Event) -> Iterable[Said]:
        fact, turn = event.fact, self._turn
        assert isinstance(fact, TurnEnded)
        self._turn = None
        if turn is None:
            return
        if fact.outcome == "completed":
            yield from self._completed(turn, fact)
        else:
            yield self._next(turn, Error(message=_why(fact)))

    def _completed(self, turn: _Turn, fact: TurnEnded) -> Iterable[Said]:
        yield from self._introduce(turn)
        if not turn.texts:
            yield self._text(turn, fact.result or NO_ANSWER)
        whole = "".join(turn.texts)
        yield self._next(turn, AssistantMessageFull(content=whole))
        if (count := turn.spending.total()) is not None:
            yield self._next(turn, count)
        yield self._next(turn, StreamingComplete(final_response=whole))

    def _remembered(self, event: Event) -> Iterable[Said]:
        fact = event.fact
        assert isinstance(fact, HistoryMerged)
        self._begun = bool(fact.messages) or (self._begun and not fact.replace)
        return ()

    # What the model is given

    def _reported(self, event: Event) -> Iterable[Said]:
        fact, turn = event.fact, self._turn
        assert isinstance(fact, ContextReported)
        if turn is None or fact.part in turn.reported or turn.has_output:
            return  # a part is said once, and before any output: what changes within a turn is seen at the next change
        turn.reported.add(fact.part)
        if fact.part == "system_prompt":
            yield self._next(turn, SystemPrompt(content=_as_text(fact.content)))
        elif fact.part == "tool_schemas":
            yield self._next(turn, tool_schemas(fact.content))
        else:
            turn.introduced = True
            yield self._user_message(turn, _as_text(fact.content))

    def _introduce(self, turn: _Turn) -> Iterable[Said]:
        """The query as it came, where the agent does not say what it made of it."""
        if not turn.introduced and turn.prompt is not None:
            turn.introduced = True
            prompt = turn.prompt
            yield self._user_message(turn, prompt.content if prompt.content is not None else prompt.text)

    def _user_message(self, turn: _Turn, content: str) -> Said:
        prompt = turn.prompt
        payload = user_message_full(
            content,
            query=prompt.text if prompt is not None else content,
            first=turn.first,
            screenshot=prompt is not None and any(it.kind != "file" for it in prompt.attachments),
            window=_window(prompt),
        )
        return self._next(turn, payload)

    # What it says

    def _grew(self, event: Event) -> Iterable[Said]:
        fact, turn = event.fact, self._turn
        assert isinstance(fact, PartDelta)
        if turn is None or fact.kind not in ("text", "reasoning") or not fact.text:
            return
        yield from self._introduce(turn)
        going_on = turn.growing.get(fact.kind)
        turn.growing[fact.kind] = (going_on or "") + fact.text
        if fact.kind == "reasoning":
            yield self._next(turn, LlmThought(status=fact.text))
        else:
            yield self._text(turn, fact.text, goes_on=going_on is not None)

    def _added(self, event: Event) -> Iterable[Said]:
        """A whole message; where deltas have said it already, only that it is over."""
        fact, turn = event.fact, self._turn
        assert isinstance(fact, MessageAdded)
        kind = {"assistant": "text", "reasoning": "reasoning"}.get(fact.role)
        if turn is None or kind is None:
            return
        if turn.growing.pop(kind, None) is not None or not fact.text:
            return
        yield from self._introduce(turn)
        yield self._next(turn, LlmThought(status=fact.text)) if kind == "reasoning" else self._text(turn, fact.text)

    def _asked(self, event: Event) -> Iterable[Said]:
        """The contract has no message for a question: it is said in words, with where it can be answered."""
        fact, turn = event.fact, self._turn
        assert isinstance(fact, DecisionOpened)
        if turn is not None:
            yield from self._introduce(turn)
            yield self._text(turn, asking(fact, self._session))

    def _text(self, turn: _Turn, text: str, *, goes_on: bool = False) -> Said:
        if turn.texts and not goes_on:
            text = BETWEEN + text
        turn.texts.append(text)
        return self._next(turn, StreamingResponse(text=text))

    def _spent(self, event: Event) -> Iterable[Said]:
        assert isinstance(event.fact, UsageReported)
        if self._turn is not None:
            self._turn.spending.take(event.fact)
        return ()

    # Tools

    def _called(self, event: Event) -> Iterable[Said]:
        fact, turn = event.fact, self._turn
        assert isinstance(fact, ToolCalled)
        if turn is None or (fact.executor == "client" and fact.client is None):
            return
        yield from self._introduce(turn)
        if fact.bundle is not None:
            yield from self._bundled(turn, fact)
            return
        call = ToolCall(
            tool_name=fact.tool if fact.executor == "client" else wire_name(fact.tool),
            parameters=_parameters(fact.input),
            request_id=request_id(self._session, event.seq),
            metadata=_call_metadata(fact),
        )
        if fact.executor != "client":
            turn.running[fact.call] = call
        yield self._next(turn, call, fact.client)

    def _bundled(self, turn: _Turn, fact: ToolCalled) -> Iterable[Said]:
        """One message, once all its steps are there."""
        assert fact.bundle is not None
        steps = turn.bundles.setdefault(fact.bundle, [])
        steps.append(fact)
        if len(steps) < (fact.bundle_size or 1):
            return
        del turn.bundles[fact.bundle]
        steps.sort(key=lambda step: step.position or 0)
        tools = tuple(BundledTool(name=step.tool, args=_parameters(step.input)) for step in steps)
        yield self._next(turn, ToolBundle(bundle_id=fact.bundle, tools=tools), fact.client)

    def _tool_ended(self, event: Event) -> Iterable[Said]:
        """What a client ran, its own people have seen; and a call that no client was given was never announced."""
        fact, turn = event.fact, self._turn
        assert isinstance(fact, ToolEnded)
        if turn is not None and turn.running.pop(fact.call, None) is not None:
            yield self._next(turn, tool_output(fact))

    def _progressed(self, event: Event) -> Iterable[Said]:
        """The contract has a word for a search's progress only."""
        fact, turn = event.fact, self._turn
        assert isinstance(fact, ToolProgressed)
        call = turn.running.get(fact.call) if turn is not None else None
        if turn is not None and call is not None and call.tool_name == WEB_SEARCH:
            yield self._next(turn, WebSearchProgress(text=_as_text(fact.output), request_id=call.request_id))

    # Shortening

    def _compacted(self, event: Event) -> Iterable[Said]:
        """A name and numbers of its own, also inside a turn."""
        fact = event.fact
        assert isinstance(fact, Compacted)
        if fact.compaction == self._unheard:
            return
        number = self._compactions.pop(fact.compaction, 0) + 1
        if fact.phase == "started":
            self._compactions[fact.compaction] = number
        yield Said(fact.compaction, number, self._at, compaction(fact))

    def _next(self, turn: _Turn, payload: StreamPayload, client: str | None = None) -> Said:
        turn.number += 1
        turn.has_output = turn.has_output or not isinstance(payload, _INTRODUCTION)
        return Said(turn.ref, turn.number, self._at, payload, client)


def beginning(state: SessionState) -> tuple[int, Projection]:
    """Where somebody begins who sees a session from now on, and the projection that stands there: before the open turn,
    if there is one, so that they are told all of it."""
    turn = state.turn
    if turn is None:
        begun = state.turns > 0 or state.histories > 0
        return state.seq, Projection(state.session, state.queue, begun=begun, compaction=state.compaction)
    waiting = state.queue if turn.submitted is None else (turn.submitted, *state.queue)
    return turn.seq - 1, Projection(state.session, waiting, begun=state.turns > 1 or state.histories > 0)


def wire_name(tool: str) -> str:
    """What the contract calls a tool."""
    return WIRE_NAMES.get(tool, tool)


def request_id(session: str, seq: int) -> str:
    """The name under which a client gives a call's result: the place of its ``tool.called``. Opaque to clients."""
    return f"{session}-{seq}"


def tool_schemas(reported: Json) -> ToolSchemas:
    """The tools of ``context.reported``, in the contract's nested form."""
    tools = reported if isinstance(reported, list) else []
    return ToolSchemas(
        tool_schemas=tuple(
            ToolSchema(
                function=ToolFunction(
                    name=wire_name(tool["name"]), description=tool["description"], parameters=tool["schema"]
                )
            )
            for tool in tools
        )
    )


def tool_output(fact: ToolEnded) -> ToolOutput:
    """The result of a tool that no client ran."""
    well = fact.status == "ok"
    problem = fact.problem.message if fact.problem is not None else None
    return ToolOutput(
        tool_name=wire_name(fact.tool),
        success=well,
        execution_time=fact.duration_ms / 1000 if fact.duration_ms is not None else msgspec.UNSET,
        output=fact.output,
        error=None if well else problem or _as_text(fact.output),
        screenshot_ref=fact.artifacts[0] if fact.artifacts else msgspec.UNSET,
        metadata=dict(fact.detail) if fact.detail else msgspec.UNSET,
    )


def compaction(fact: Compacted) -> StreamPayload:
    """What a phase of a shortening is on the wire."""
    reason, strategy, before = fact.reason or "unknown", fact.strategy or "summary", fact.tokens_before
    if fact.phase == "started":
        projected = fact.tokens_after if fact.tokens_after is not None else before or 0
        return ContextCompactionStarted(
            reason=reason, strategy=strategy, before_tokens=before or 0, projected_tokens=projected
        )
    if fact.phase == "failed":
        error = fact.problem or "the context could not be shortened"
        return ContextCompactionFailed(
            reason=reason, strategy=strategy, error=error, before_tokens=msgspec.UNSET if before is None else before
        )
    return ContextCompactionCompleted(
        reason=reason,
        strategy=strategy,
        before_tokens=before or 0,
        after_tokens=fact.tokens_after or 0,
        removed_messages=max(0, (fact.messages_before or 0) - (fact.messages_after or 0)),
        summary_text=fact.summary if fact.summary is not None else msgspec.UNSET,
    )


def asking(fact: DecisionOpened, session: str) -> str:
    """A question in words, and where it can be answered. A secret's text is its question only."""
    options = "; ".join(f"{number}) {option.label}" for number, option in enumerate(fact.options, 1))
    choices = f" ({options})" if options else ""
    return (
        f"[Waiting for an answer, which this client cannot give: {fact.text}{choices}. "
        f"Answer it with `dragoman chat --session {session}` or in any other client.]"
    )


def _query_id(prompt: PromptSubmitted) -> str | None:
    """The id of the query that this was; None for what came in another dialect, whose ids are its own."""
    return prompt.client_message_id if prompt.via == VIA else None


def _call_metadata(fact: ToolCalled) -> ToolCallMetadata:
    if fact.executor == "client":
        return ToolCallMetadata(tool_call_id=fact.call)
    return ToolCallMetadata(tool_call_id=fact.call, skip_local_execution=True, execution_owner=BACKEND)


def _bundle_elsewhere(bundle: ToolBundle) -> ToolCall:
    """A bundle that another link runs: the contract has no word for one that is only shown."""
    steps = [{"name": step.name, "args": step.args} for step in bundle.tools]
    metadata = ToolCallMetadata(tool_call_id=NO_CALL_ID, skip_local_execution=True)
    return ToolCall(
        tool_name="tool_bundle", parameters={"tools": steps}, request_id=bundle.bundle_id, metadata=metadata
    )


def _parameters(given: Json) -> dict[str, Any]:
    """A call's input as the object that the contract wants."""
    if isinstance(given, dict):
        return given
    return {} if given is None else {"input": given}


def _window(prompt: PromptSubmitted | None) -> str | None:
    """The active window, where the client's state says so."""
    state = prompt.detail.get("system_state_internal") if prompt is not None else None
    window = state.get("active_window") if isinstance(state, dict) else None
    return window if isinstance(window, str) and window else None


def _why(fact: TurnEnded) -> str:
    if fact.outcome == "cancelled":
        return CANCELLED
    if fact.outcome == "interrupted":
        return INTERRUPTED
    return fact.problem.message if fact.problem is not None else "The query failed."


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_PROJECTED: dict[type, Callable[[Projection, Event], Iterable[Said]]] = {
    PromptSubmitted: Projection._submitted,
    PromptWithdrawn: Projection._withdrawn,
    HistoryMerged: Projection._remembered,
    TurnStarted: Projection._started,
    TurnEnded: Projection._ended,
    ContextReported: Projection._reported,
    PartDelta: Projection._grew,
    MessageAdded: Projection._added,
    DecisionOpened: Projection._asked,
    UsageReported: Projection._spent,
    ToolCalled: Projection._called,
    ToolEnded: Projection._tool_ended,
    ToolProgressed: Projection._progressed,
    Compacted: Projection._compacted,
}
