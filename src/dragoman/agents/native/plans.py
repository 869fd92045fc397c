"""A plan that a person is shown: how it is asked about, and the mode in which it is carried out."""

from __future__ import annotations

from dragoman.hub.events import Answer, DecisionOpened, Option

from .modes import MODES


def plan_decision(
    decision: str, plan: str, *, turn: str, call: str | None = None, tool: str | None = None
) -> DecisionOpened:
    """The decision about a plan."""
    return DecisionOpened(
        decision=decision,
        kind="plan",
        text=plan,
        turn=turn,
        call=call,
        tool=tool,
        options=(
            Option("Accept, and ask me before each edit", "mode:ask"),
            Option("Accept, and edit without asking", "mode:accept_edits"),
            Option("Go on planning", "deny"),
        ),
    )


def mode_after(answer: Answer, opened: DecisionOpened) -> str | None:
    """The mode that an accepted plan is carried out in; None when it was not accepted."""
    if answer.option is not None and answer.option <= len(opened.options):
        value = opened.options[answer.option - 1].value or ""
        return value.removeprefix("mode:") if value.startswith("mode:") else None
    wanted = answer.values.get("mode")
    return (wanted if wanted in MODES and wanted != "plan" else "ask") if answer.accept else None
