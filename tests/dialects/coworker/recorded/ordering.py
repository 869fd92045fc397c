"""What holds between the chunks of a turn and all else that is said of it (spec 4.1, 4.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .recording import CHUNK, Frame

_AFTER_ALL = ("reasoning", "assistant_message")
"""Said of a turn once its stream is over, as its checkpoint is and why it failed."""

_FAILED = ("provider_error", "internal_error")


@dataclass
class _Turn:
    """One turn as far as it was heard."""

    identity: str = ""
    chunks: int = 0
    over: str = ""
    """What came that is to come after every chunk."""
    begun: Counter[str] = field(default_factory=Counter)
    """Inputs of tools that began, by tool."""
    started: Counter[str] = field(default_factory=Counter)
    """``tool>`` lines, by tool."""
    ended: Counter[str] = field(default_factory=Counter)
    """``tool<`` lines, by tool."""
    results: Counter[str] = field(default_factory=Counter)


def out_of_order(said: Sequence[Frame]) -> list[str]:
    """Every break of an order, in one line."""
    return [f"order: {problem}" for problem in _breaks(said)]


def _breaks(said: Sequence[Frame]) -> Iterator[str]:
    turn: _Turn | None = None
    seen: set[str] = set()
    for frame in said:
        if frame["type"] == "session_busy":
            busy = frame.get("busy")
            if busy is (turn is not None):
                yield f"busy was {busy} already"
            turn = _Turn() if busy else None
        elif frame["type"] == CHUNK:
            if turn is None:
                yield f"chunk {frame.get('index')} while nothing was busy"
                continue
            identity = frame.get("turnId", "")
            if not turn.identity and identity in seen:
                yield f"a turn goes on as {identity}, which was over"
            seen.add(identity)
            yield from _chunk(turn, frame)
        elif turn is not None:
            yield from _beside(turn, frame)


def _chunk(turn: _Turn, frame: Frame) -> Iterator[str]:
    index, sort, part = frame.get("index"), frame.get("partType"), frame.get("part")
    turn.identity = turn.identity or frame.get("turnId", "")
    if frame.get("turnId") != turn.identity:
        yield f"chunk {index} of another turn"
    if index != turn.chunks:
        yield f"chunk {index} where {turn.chunks} was due"
    turn.chunks += 1
    if turn.over:
        yield f"chunk {index} ({sort}) after {turn.over}"
    tool = part.get("toolName", "") if isinstance(part, dict) else ""
    if sort == "tool_input_start":
        turn.begun[tool] += 1
    elif sort == "tool_result":
        turn.results[tool] += 1
        if _logged(tool) and turn.results[tool] > turn.ended[tool]:
            yield f"result of {tool} before its tool< line"


def _beside(turn: _Turn, frame: Frame) -> Iterator[str]:
    saved = frame["type"] == "session_backup_state" and frame.get("reason") == "auto_checkpoint"
    failed = frame["type"] == "error" and frame.get("code") in _FAILED
    if frame["type"] in _AFTER_ALL or saved or failed:
        turn.over = turn.over or frame["type"]
    if frame["type"] != "log":
        return
    word, _, rest = frame.get("line", "").partition(" ")
    tool = rest.partition(" ")[0]
    if word == "tool>":
        turn.started[tool] += 1
        if turn.started[tool] > turn.begun[tool]:
            yield f"tool> {tool} before the model called it"
    elif word == "tool<":
        turn.ended[tool] += 1
        if turn.ended[tool] > turn.started[tool]:
            yield f"tool< {tool} without its tool> line"


def _logged(tool: str) -> bool:
    """Skills and tools of MCP servers log no lines (spec 4.6)."""
    return tool != "skill" and not tool.startswith("mcp__")
