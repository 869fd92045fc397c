"""A prompt that is shown and not sent: what a request says of it, and what a turn's model would be given.

Seed: ``prompt-preview``, ``query-plan``; spec §8 "Introspection". What is shown is made by the functions that a turn is
made by (``turn_settings``, the Previews port), and told by those that its events are told by.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from dragoman.hub.events import HistoryMessage, Json
from dragoman.hub.previews import Previewed, PreviewWanted

from .agent_definition import AgentDefinition
from .client_manifest import AcceptedTool, validate_manifest
from .client_messages import Query, UserId, content_of
from .fields import Fault, Open, Shape, Text
from .history_calls import calls_of
from .host import Host
from .messages import UserMessageFull
from .turn_settings import Wanted, turn_settings
from .user_message import user_message_full

_OPENED, _CLOSED = "<user_query>", "</user_query>"

MOST_MESSAGES = 1000
"""Of a conversation that is shown. A model may be given more: this is for whoever looks."""

InteractionMode = Literal["chat", "agent"]


class PreviewMessage(Open, frozen=True, kw_only=True):
    """A message of the conversation, as providers have them. ``content`` is a text, or a list of parts; of those the
    texts count, pictures are not shown."""

    role: Literal["user", "assistant", "tool", "system"]
    content: Any = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: Any = None


class PreviewRequest(Shape, frozen=True, kw_only=True):
    """What would be asked. Without ``user_query_raw`` the query is what stands in the last ``<user_query>``."""

    user_id: UserId | None = None
    model_id: Annotated[str, Text(least=1, most=256, trim=True)] | None = None
    model_provider: Annotated[str, Text(least=1, most=128, trim=True)] | None = None
    interaction_mode: InteractionMode | None = None
    include_tools: bool = True
    workspace_path: Annotated[str, Text(least=1, most=4096, trim=True)] | None = None
    user_query_raw: Annotated[str, Text(most=32_768)] | None = None
    messages: tuple[PreviewMessage, ...] = ()
    agent_definition: AgentDefinition | None = None
    """*"""

    def faults(self) -> Iterator[Fault]:
        if len(self.messages) > MOST_MESSAGES:
            yield Fault("messages", f"must have at most {MOST_MESSAGES} entries")


class PlanRequest(PreviewRequest, frozen=True, kw_only=True):
    """The same, with the conversation that it would be asked in."""

    conversation_ref: Annotated[str, Text(trim=True, filled=True)] | None = None


class Asked(msgspec.Struct, frozen=True):
    """A conversation, taken apart. ``prompt`` is what a turn would begin with; None: nothing is asked, and ``history``
    is all there is. ``query`` is what the person wrote last."""

    history: tuple[HistoryMessage, ...]
    prompt: str | None
    query: str


def asked_of(messages: Sequence[PreviewMessage], raw: str | None) -> Asked:
    """The newest message is the prompt where it is the user's; else a query of its own (``raw``) is, as the server
    writes one out."""
    history = tuple(map(_history_message, messages))
    raw = raw if raw is not None and raw.strip() else None
    prompt: str | None = None
    if messages and messages[-1].role == "user":
        history, prompt = history[:-1], text_of(messages[-1].content)
    elif raw is not None:
        prompt = content_of(Query(text=raw, conversation_ref=""))
    said = prompt if prompt is not None else _last_said(history)
    return Asked(history, prompt, (raw or _query_in(said)).strip())


def text_of(content: object) -> str:
    """A message's text: of a list of parts, those that are texts."""
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


class Preview(msgspec.Struct, frozen=True):
    """What a turn's model would be given, and the client's tools that hold. ``user_message`` is None where nobody says
    anything; ``query`` is empty then."""

    shown: Previewed
    accepted: tuple[AcceptedTool, ...]
    user_message: UserMessageFull | None
    query: str


async def preview(host: Host, preferences: Mapping[str, Json], request: PreviewRequest) -> Preview:
    """What a turn with these settings of the user's and this request would give its model. Nothing is recorded.

    Raises ``InvalidRequest`` and ``Unsupported`` as the Previews port does.
    """
    asked = asked_of(request.messages, request.user_query_raw)
    definition = request.agent_definition
    accepted = await _accepted(definition)
    path = request.workspace_path or (definition.runtime.workspace_path if definition is not None else None)
    works_there = host.conversations.workspace(path)
    wanted = Wanted(
        definition=definition,
        accepted=accepted,
        preferences=preferences,
        workspace=path if works_there is None else None,
    )
    settings = turn_settings(wanted, host.settings)
    shown = await host.previews.preview(
        PreviewWanted(
            cwd=str(works_there or host.folder),
            settings=settings.session,
            prompt=asked.prompt or "",
            history=asked.history,
            tools=settings.offers,
        )
    )
    if asked.prompt is None:
        shown = msgspec.structs.replace(shown, messages=_without_prompt(shown.messages))
    return Preview(shown, accepted, _user_message(asked, shown.messages), asked.query)


async def _accepted(definition: AgentDefinition | None) -> tuple[AcceptedTool, ...]:
    if definition is None or definition.tools.client_manifest is None:
        return ()
    # In a thread: a manifest may be half a megabyte.
    accepted, _ = await asyncio.to_thread(validate_manifest, definition.tools.client_manifest)
    return accepted


def _user_message(asked: Asked, messages: Sequence[HistoryMessage]) -> UserMessageFull | None:
    """As a turn tells it: the newest message, where it is the user's. Without a prompt, what they said last."""
    content = _last_said(messages) if asked.prompt is None else str(messages[-1].content)
    if not content:
        return None
    before = sum(message.role == "user" for message in asked.history)
    first = before == 0 if asked.prompt is not None else before == 1
    return user_message_full(content, query=asked.query, first=first)


def _without_prompt(messages: tuple[HistoryMessage, ...]) -> tuple[HistoryMessage, ...]:
    """The port adds a prompt always: an empty one stands by itself, or behind an empty line in the message before."""
    *before, last = messages
    kept = str(last.content).removesuffix("\n\n")
    return (*before, msgspec.structs.replace(last, content=kept)) if kept else tuple(before)


def _last_said(messages: Sequence[HistoryMessage]) -> str:
    """What the user said last; empty where they said nothing."""
    said = (str(message.content) for message in reversed(messages) if message.role == "user")
    return next(said, "")


def _query_in(content: str) -> str:
    """What the person wrote, escaped as clients escape it where it stands in a section."""
    end = content.rfind(_CLOSED)
    begin = content.rfind(_OPENED, 0, end) if end >= 0 else -1
    return html.unescape(content[begin + len(_OPENED) : end]) if begin >= 0 else content


def _history_message(message: PreviewMessage) -> HistoryMessage:
    return HistoryMessage(
        message.role,
        text_of(message.content),
        tool=message.name,
        call=message.tool_call_id,
        calls=tuple(calls_of(message.tool_calls)),
    )
