"""What Claude Code asks before it uses a tool, and the answer in its words.

``can_use_tool`` is one question for three things: a permission, the questions of ``AskUserQuestion``, and the plan of
``ExitPlanMode``. The answer is ``{"behavior": "allow", "updatedInput": …}`` or ``{"behavior": "deny", "message": …}``.
"""

from __future__ import annotations

from typing import Any

from dragoman.agents.common.asking import asks, dialog_about
from dragoman.agents.common.fields import dict_of, text_of
from dragoman.agents.native.plans import mode_after, plan_decision
from dragoman.agents.native.tools.tool import ToolDenied
from dragoman.hub.events import Answer, DecisionOpened, Json, Option, Question, SettingsChanged
from dragoman.hub.turns import TurnContext

from .approvals import Approvals, about

EDITS = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})
"""Tools that change a file."""


class ClaudeAsking:
    """Answers what the program asks in one turn."""

    def __init__(self, turn: TurnContext, approvals: Approvals) -> None:
        self._turn = turn
        self._approvals = approvals

    async def answer(self, request: dict[str, Any]) -> dict[str, Json]:
        """The response to a ``can_use_tool``. Returns once it is decided; never fails for what is asked."""
        tool, given = text_of(request, "tool_name") or "", dict_of(request, "input")
        call = text_of(request, "tool_use_id") or ""
        try:
            changed = await self._permitted(tool, given, call, request)
        except ToolDenied as denied:
            return {"behavior": "deny", "message": denied.told or str(denied)}
        return {"behavior": "allow", "updatedInput": changed}

    async def _permitted(self, tool: str, given: dict[str, Any], call: str, request: dict[str, Any]) -> dict[str, Json]:
        """The input to go on with. Raises ``ToolDenied``."""
        kind = asks(tool)
        if kind == "question":
            return {**given, "answers": await self._questions(tool, given, call)}
        if kind == "plan":
            await self._plan(tool, given, call)
        elif (command := text_of(given, "command")) is not None and tool == "Bash":
            await self._approvals.command(command, call=call, dangerous=_warns(request))
        elif tool in EDITS and (path := text_of(given, "file_path", "notebook_path")) is not None:
            await self._approvals.edit(path, given, tool=tool, call=call)
        else:
            await self._approvals.other(tool, about(tool, given), given, call=call)
        return given

    async def _plan(self, tool: str, given: dict[str, Any], call: str) -> None:
        opened = plan_decision(
            self._turn.session.ids(), text_of(given, "plan") or "", turn=self._turn.turn, call=call, tool=tool
        )
        answer = await self._approvals.ask(opened)
        mode = mode_after(answer, opened)
        if mode is None:
            said = f" They said: {answer.text}" if answer.text else ""
            raise ToolDenied(f"The plan is not accepted.{said} Go on planning.")
        self._turn.record(SettingsChanged(changes={"mode": mode}))

    async def _questions(self, tool: str, given: dict[str, Any], call: str) -> dict[str, Json]:
        """What was answered, by the question's own text, as the tool wants it."""
        questions = dialog_about(tool, given, call).questions
        if not questions:
            raise ToolDenied("There was no question.")
        first = questions[0]
        alone = len(questions) == 1 and not first.multiple
        answer = await self._approvals.ask(
            DecisionOpened(
                decision=self._turn.session.ids(),
                kind="question",
                text=first.question,
                turn=self._turn.turn,
                call=call,
                tool=tool,
                input=given,
                options=first.options,
                questions=() if alone else questions,
            )
        )
        if answer.accept is False:
            raise ToolDenied("The person did not answer.")
        return _answers(questions, answer)


def _answers(questions: tuple[Question, ...], answer: Answer) -> dict[str, Json]:
    """An answer that is not split belongs to the first question."""
    given = answer.answers or (answer,)
    pairs = zip(questions, given, strict=False)
    return {question.question: said for question, one in pairs if (said := _said(one, question.options))}


def _said(answer: Answer, options: tuple[Option, ...]) -> str:
    if answer.text is not None:
        return answer.text
    if answer.option is not None:
        return options[answer.option - 1].label if answer.option <= len(options) else str(answer.option)
    return ", ".join(answer.choices)


def _warns(request: dict[str, Any]) -> bool:
    """Whether the program itself takes the call for dangerous."""
    return request.get("decision_reason_type") == "safetyCheck"
