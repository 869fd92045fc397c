"""Two conversations in canonical form, compared: every answer, every frame, every field, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from tests.dialects.leaves import unlike

from .recording import Answer, Ask, Frame, Step


def problems(expected: Sequence[Step], got: Sequence[Step]) -> list[str]:
    """Every difference in a line; empty where there is none."""
    found = [f"{len(got)} steps, not {len(expected)}"] if len(expected) != len(got) else []
    for number, (wanted, given) in enumerate(zip(expected, got, strict=False)):
        where = f"step {number} ({title(wanted)})"
        if wanted.closed != given.closed:
            found.append(f"{where}: closed with {given.closed}, not {wanted.closed}")
        found += _answers(wanted.answer, given.answer, where)
        for who in sorted({*wanted.heard, *given.heard}):
            found += _sequence(f"{where} {who}", wanted.heard.get(who, []), given.heard.get(who, []))
    return found


def title(step: Step) -> str:
    """The action in a few words."""
    action = step.action
    if isinstance(action, Ask):
        return f"{action.method} {action.path} {str(action.body or '')[:60]}".strip()
    return str(action)[:90]


def _answers(wanted: Answer | None, given: Answer | None, where: str) -> list[str]:
    if wanted is None or given is None:
        return [] if wanted is given else [f"{where}: answered {given}, not {wanted}"]
    found = [] if wanted.status == given.status else [f"{where}: status {given.status}, not {wanted.status}"]
    for name in ("ctype", "acao"):
        one, other = getattr(wanted, name), getattr(given, name)
        found += [] if one == other else [f"{where}: {name} {other!r}, not {one!r}"]
    return found + unlike(wanted.body, given.body, f"{where} answer")


def _sequence(what: str, wanted: Sequence[Frame], given: Sequence[Frame]) -> list[str]:
    """Pair by pair where the kinds agree; else what is missing, what is too much, and the pairs that remain."""
    left, right = [kind(frame) for frame in wanted], [kind(frame) for frame in given]
    found: list[str] = []
    for tag, i, j, k, n in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            for offset in range(j - i):
                found += unlike(wanted[i + offset], given[k + offset], f"{what} {left[i + offset]}")
        else:
            found += [f"{what}: missing {wanted[at]}" for at in range(i, j)]
            found += [f"{what}: not expected {given[at]}" for at in range(k, n)]
    return found


def kind(frame: Frame) -> str:
    """A frame in a word or two."""
    told = frame.get("data", frame.get("payload"))
    inner = told.get("type", "") if frame.get("type") == "event" and isinstance(told, dict) else ""
    return f"{frame.get('type')} {inner}".strip()
