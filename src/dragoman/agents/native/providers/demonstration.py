"""The offline demonstration: no model, plainly labelled, so that a machine without a key still shows a whole turn.

A greeting gets a plain answer. Some prompts show what an agent can do, with real tools in the session's folder.
"""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

import msgspec

from .conversation import Message, ModelRequest, ToolMessage, UserMessage
from .port import CallMade, Finished, PartClosed, PartGrew, PartOpened, RawReceived, Spent, StreamEvent

MODEL = "demonstration"

LABEL = "[Offline demonstration, not a model]"
"""Begins everything it says."""

PACE = 0.01
"""Seconds between two words, so that a person sees them stream."""

_HELP = f"""\
{LABEL} No model is set up, so I can only show how things look. Say one of these:

- show tools: looks around in this folder
- show a permission: asks before it runs a command
- show a question: asks you something
- show thinking: thinks before it answers
- show todos: keeps a list of tasks

To talk to a model, give a key with `dragoman providers key NAME`, or start a model server on this machine."""


class _Say(msgspec.Struct, frozen=True):
    text: str
    thought: str = ""


class _Use(msgspec.Struct, frozen=True):
    """Tool calls of one answer, each a name and its input."""

    calls: tuple[tuple[str, dict[str, object]], ...]


_Play = Callable[[Sequence[ToolMessage]], _Say | _Use]


class Demonstration:
    """See the module."""

    name = "demonstration"
    searches = False

    def __init__(self, pace: float = PACE) -> None:
        self._pace = pace

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        """The next answer of what the newest prompt asked to be shown."""
        prompt, results = _since_prompt(request.messages)
        act = _play_for(prompt)(results)
        if raw:
            yield RawReceived({"demonstration": msgspec.to_builtins(act)}, "demonstration")
        if isinstance(act, _Use):
            for event in _calls(act, len(request.messages)):
                yield event
            yield Spent(0, 0)
            yield Finished("tool_calls", "demonstration")
            return
        for kind, text in (("reasoning", act.thought), ("text", act.text)):
            if text:
                yield PartOpened(kind, kind)  # type: ignore[arg-type]
                for word in _words(text):
                    await asyncio.sleep(self._pace)
                    yield PartGrew(kind, word)
                yield PartClosed(kind)
        yield Spent(0, 0)
        yield Finished("stop", "demonstration")

    async def close(self) -> None:
        """There is no connection."""


def _since_prompt(messages: Sequence[Message]) -> tuple[str, list[ToolMessage]]:
    """The newest thing said to it, and the results since."""
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return _asked(message.text), results[::-1]
        if isinstance(message, ToolMessage):
            results.append(message)
    return "", results


def _calls(act: _Use, place: int) -> Iterable[StreamEvent]:
    for number, (tool, given) in enumerate(act.calls):
        call, text = f"call_{place}_{number}", json.dumps(given)
        yield PartOpened(call, "tool_input", tool)
        yield PartGrew(call, text)
        yield PartClosed(call)
        yield CallMade(call, tool, text)


def _asked(text: str) -> str:
    """The newest prompt: what was said in turns that ended badly is joined with it, and it comes last. Some clients put
    it into a section of its own, behind what else the model is to see."""
    inside = text.rpartition("<user_query>")[2].partition("</user_query>")
    if inside[1]:
        return html.unescape(inside[0].strip())
    return text.rpartition("\n\n")[2]


def _words(text: str) -> list[str]:
    head, *rest = text.split(" ")
    return [head, *(f" {word}" for word in rest)]


def _play_for(prompt: str) -> _Play:
    wish = prompt.strip().lower().rstrip(".!?")
    for words, play in _PLAYS.items():
        if wish.endswith(words):
            return play
    if wish.split(",")[0].split(" ")[0] in _GREETINGS:
        return lambda _: _Say(f"{LABEL} Hello! What would you like to see? Say `help` for what I can show.")
    if wish in ("help", "?", "show"):
        return lambda _: _Say(_HELP)
    return lambda _: _Say(f"{LABEL} I cannot answer that. Say `help` for what I can show.")


def _tools(results: Sequence[ToolMessage]) -> _Say | _Use:
    if not results:
        return _Use((("glob", {"pattern": "*"}), ("bash", {"command": "pwd"})))
    return _Say(
        f"{LABEL} I looked for files and asked where we are, both at once. The folder holds:\n\n{_first(results)}"
    )


def _permission(results: Sequence[ToolMessage]) -> _Say | _Use:
    if not results:
        return _Use((("bash", {"command": "date > /dev/null && echo permitted"}),))
    said = "You permitted the command, and it ran." if "permitted" in results[0].text else "The command did not run."
    return _Say(f"{LABEL} {said}")


def _question(results: Sequence[ToolMessage]) -> _Say | _Use:
    if not results:
        return _Use((("ask", {"question": "Which colour do you like best?", "options": ["red", "green", "blue"]}),))
    return _Say(f"{LABEL} Your answer was: {_first(results)}")


def _thinking(_: Sequence[ToolMessage]) -> _Say | _Use:
    return _Say(f"{LABEL} That was a thought, and this is the answer.", "A demonstration should show a thought here.")


def _todos(results: Sequence[ToolMessage]) -> _Say | _Use:
    states = (("in_progress", "pending"), ("completed", "in_progress"), ("completed", "completed"))
    if len(results) == len(states):
        return _Say(f"{LABEL} Both tasks are done; nothing was really done.")
    labels = (("Begin", "Beginning"), ("End", "Ending"))
    todos = [
        {"content": content, "status": state, "activeForm": active}
        for (content, active), state in zip(labels, states[len(results)], strict=True)
    ]
    return _Use((("todoWrite", {"todos": todos}),))


def _first(results: Sequence[ToolMessage]) -> str:
    return results[0].text


_GREETINGS = frozenset({"hello", "hi", "hey", "hallo", "bonjour", "moin", "greetings", "good"})

_PLAYS: dict[str, _Play] = {
    "show tools": _tools,
    "show a permission": _permission,
    "show a question": _question,
    "show thinking": _thinking,
    "show todos": _todos,
}
