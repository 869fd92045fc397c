"""What every provider demands of a conversation, told without asking one."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.agents.native.providers.conversation import AssistantMessage, Message, ToolMessage, UserMessage


def faults(messages: Sequence[Message]) -> list[str]:
    """What is wrong with a conversation; nothing when any provider would take it."""
    found: list[str] = []
    owed: list[str] = []
    seen: set[str] = set()
    last: Message | None = None
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if not owed or owed[0] != message.call:
                found.append(f"{place}: result of {message.call}, owed are {owed}")
            owed = [call for call in owed if call != message.call]
        elif owed:
            found.append(f"{place}: {type(message).__name__} while results of {owed} are owed")
            owed = []
        if isinstance(message, UserMessage):
            found += [f"{place}: two messages of a user in a row"] if isinstance(last, UserMessage) else []
            found += [f"{place}: says nothing"] if not message.text and not message.images and place > 0 else []
        elif isinstance(message, AssistantMessage):
            found += [f"{place}: an answer without parts"] if not message.parts else []
            owed = [call.call for call in message.calls]
            found += [f"{place}: call {call} was there before" for call in owed if call in seen]
            seen.update(owed)
        last = message
    if owed:
        found.append(f"at the end results of {owed} are owed")
    if messages and isinstance(messages[0], ToolMessage):
        found.append("begins with a result")
    return found
