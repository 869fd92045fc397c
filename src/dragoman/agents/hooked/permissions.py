"""What an agent elsewhere asks a person: answered through the hook that waits for it, or only shown.

A hook that waits may print the answer. Nothing that came another way than through the user's own socket, or from the
agent's own log, ends its waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec

from dragoman.agents.common.fields import dicts_of, text_of
from dragoman.agents.common.observation import Dialog
from dragoman.hub.errors import InvalidAnswer
from dragoman.hub.events import Answer, DecisionOpened, DecisionResolved, Json, Option, Question
from dragoman.hub.session import Session

ELSEWHERE = "elsewhere"
"""In a decision's detail: it is answered where the agent runs, and nowhere else."""

YES, NO = "Yes", "No"

DENIED = "The user does not want this to be done."
"""What the agent is told of a no without words."""

DENIED_CALLS = 1000
"""Calls that are remembered as denied: their ends are told soon."""

LABEL_CHARS = 200
"""Of what a row says would be permitted."""


class _Ask:
    """One hook that waits. ``always`` are the rules that its rows from the second on would give the agent."""

    def __init__(self, dialog: Dialog, always: tuple[Json, ...], *, blocks: bool) -> None:
        self.dialog = dialog
        self.always = always
        self.blocks = blocks
        self.call: str | None = None
        self.printed: asyncio.Future[str] = asyncio.get_running_loop().create_future()


class Permissions:
    """The decisions of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asks: dict[str, _Ask] = {}
        self._denied: deque[str] = deque(maxlen=DENIED_CALLS)
        self._hearsay: set[str] = set()
        """Decisions of which only others than the agent have said that it asks."""

    @property
    def open(self) -> bool:
        return bool(self._session.state.decisions)

    def denied(self, call: str) -> bool:
        """Whether a person said no to this call."""
        return call in self._denied

    def note_refused(self, dialog: Dialog) -> None:
        """Nobody will be asked, and the agent takes that for a no."""
        call = dialog.call or self._call(dialog.tool, dialog.input)
        if call is not None:
            self._denied.append(call)

    # Asking

    def ask(self, dialog: Dialog, suggestions: Json, *, seconds: float, blocks: bool) -> str:
        """Open a decision that a hook waits for; its id. ``blocks``: the agent shows no dialog of its own meanwhile."""
        always = tuple(_rules(suggestions)) if not blocks else ()
        decision = self._session.ids()
        ask = _Ask(dialog, tuple(rule for rule, _ in always), blocks=blocks)
        self._asks[decision] = ask
        rows: tuple[Option, ...] = ()
        if dialog.kind != "question":
            more = (Option(label, value=f"rule:{label}") for _, label in always)
            rows = (Option(YES, value="once"), *more, Option(NO, value="deny"))
        try:
            ask.call = self._open(decision, dialog, rows, seconds=seconds)
        except BaseException:
            del self._asks[decision]
            raise
        return decision

    def give_up(self, decision: str) -> None:
        """No hook will wait for it after all."""
        del self._asks[decision]
        self._session.cancel_decision(decision, "it could not be asked")

    async def printed(self, decision: str) -> str:
        """What the hook is to print, once that is decided. Cancelled when the hook is gone: somebody answered there."""
        ask = self._asks[decision]
        try:
            return await ask.printed
        finally:
            del self._asks[decision]

    def show(self, dialog: Dialog, *, own: bool = True) -> str:
        """Open a decision that nobody can answer here; its id. ``own``: the agent itself says that it asks."""
        decision = self._session.ids()
        self._open(decision, dialog, (), detail={ELSEWHERE: True})
        if not own:
            self._hearsay.add(decision)
        return decision

    def forget_hearsay(self) -> None:
        """The agent itself asks now: what others said that it asks is the same, or was never true."""
        for decision in self._hearsay:
            self._session.cancel_decision(decision, "the agent asks itself")
        self._hearsay.clear()

    def check(self, decision: str) -> None:
        """Raise ``InvalidAnswer`` for one that cannot be answered here."""
        if decision in self._session.state.decisions and decision not in self._asks:
            raise InvalidAnswer("this is answered where the agent runs")

    def _open(
        self,
        decision: str,
        dialog: Dialog,
        options: tuple[Option, ...],
        *,
        seconds: float | None = None,
        detail: dict[str, Json] | None = None,
    ) -> str | None:
        session, call = self._session, dialog.call or self._call(dialog.tool, dialog.input)
        session.open_decision(
            DecisionOpened(
                decision=decision,
                kind="permission" if options or dialog.kind != "question" else "question",
                text=dialog.text,
                call=call,
                tool=dialog.tool,
                input=dialog.input,
                options=options,
                questions=() if options else dialog.questions,
                subtype=dialog.subtype,
                expires_at=None if seconds is None else session.clock.now() + int(seconds * 1000),
                detail=detail or {},
            )
        )
        return call

    def _call(self, tool: str | None, given: Json) -> str | None:
        """The call that is meant, as a hook that asks does not say so: the newest open one with that input. Codex adds
        to the input, and has another tool than the call where a patch is run by a shell: there it is the newest."""
        asked = {opened.call for opened in self._session.state.decisions.values()}
        calls = [call for call in self._session.state.calls.values() if call.call not in asked]
        for call in reversed(calls):
            if call.tool == tool and call.input == given:
                return call.call
        codex = self._session.state.agent == "codex"
        return calls[-1].call if codex and calls else None

    # What became of it

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        """An outcome is durable: the hook prints it, if there is something to print."""
        ask = self._asks.get(outcome.decision)
        if ask is None or ask.printed.done():
            return
        given = answer if outcome.outcome == "answered" and outcome.via != "terminal" else None
        if given is not None and given.accept is False and ask.call is not None:
            self._denied.append(ask.call)
        ask.printed.set_result("" if given is None else _said(given, ask))
        if outcome.outcome == "expired" and self._session.state.executor is not None:
            self.show(ask.dialog)

    def settle(
        self, reason: str, *, own: bool, call: str | None = None, tool: str | None = None, given: Json = None
    ) -> bool:
        """It was answered where the agent runs; whether anything was open. For one call, or without one for all.

        ``own``: the agent itself says so, through a channel that nobody else has.
        """
        everything = call is None and tool is None
        settled = False
        for decision, opened in tuple(self._session.state.decisions.items()):
            if decision in self._asks and not own:
                continue
            unnamed = opened.tool is None and opened.call is None
            same = opened.call == call if opened.call is not None else (opened.tool, opened.input) == (tool, given)
            if everything or same or unnamed:
                settled |= self._session.settle_decision(decision, reason=reason)
        return settled

    def release(self, reason: str, *, blocking: bool = False) -> None:
        """No answer will come from here: hooks print nothing, and what they asked is asked where the agent runs.

        ``blocking``: only those that hold their agent up.
        """
        for decision, opened in tuple(self._session.state.decisions.items()):
            ask = self._asks.get(decision)
            if opened.detail.get(ELSEWHERE) or (blocking and (ask is None or not ask.blocks)):
                continue
            self._session.cancel_decision(decision, reason)
            if ask is not None and not ask.printed.done():
                ask.printed.set_result("")
            self.show(_dialog_of(opened))

    def drop(self, reason: str) -> None:
        """The agent is gone, and with it all that it asked."""
        for decision in tuple(self._session.state.decisions):
            self._session.cancel_decision(decision, reason)
            ask = self._asks.get(decision)
            if ask is not None and not ask.printed.done():
                ask.printed.set_result("")

    @property
    def waiting(self) -> bool:
        """Whether a hook waits for an answer."""
        return bool(self._asks)

    @property
    def holds_agent(self) -> bool:
        """Whether a hook waits that holds its agent up."""
        return any(ask.blocks for ask in self._asks.values())


def _dialog_of(opened: DecisionOpened) -> Dialog:
    return Dialog(
        kind=opened.kind,
        text=opened.text,
        subtype=opened.subtype,
        tool=opened.tool,
        input=opened.input,
        call=opened.call,
        questions=opened.questions,
    )


def _said(answer: Answer, ask: _Ask) -> str:
    """An answer in the words that Claude Code and Codex take from a hook (spec cin §9.1)."""
    decision: dict[str, Json]
    if answer.accept is False:
        decision = {"behavior": "deny", "message": answer.text or DENIED}
    elif ask.dialog.kind == "question":
        decision = {
            "behavior": "allow",
            "updatedInput": {**_object(ask.dialog.input), "answers": _answers(answer, ask)},
        }
    elif answer.accept:
        decision = {"behavior": "allow"}
        rule = _rule(answer, ask.always)
        if rule is not None:
            decision["updatedPermissions"] = [rule]
    else:
        return ""
    said = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    return msgspec.json.encode(said).decode()


def _answers(answer: Answer, ask: _Ask) -> dict[str, str]:
    """By question what was said to it: an option's label, several of them, or words."""
    given = answer.answers or (answer,)
    return {
        question.question: _words(question, one) for question, one in zip(ask.dialog.questions, given, strict=False)
    }


def _words(question: Question, answer: Answer) -> str:
    if answer.choices:
        return ", ".join(answer.choices)
    if answer.option is not None and answer.option <= len(question.options):
        return question.options[answer.option - 1].label
    return answer.text or ""


def _object(given: Json) -> dict[str, Json]:
    return given if isinstance(given, dict) else {}


def _rule(answer: Answer, always: tuple[Json, ...]) -> Json:
    if not always:
        return None
    if answer.option is not None:
        return always[answer.option - 2] if 2 <= answer.option <= len(always) + 1 else None
    return always[0] if answer.scope not in (None, "", "once") else None


def _rules(suggestions: Json) -> list[tuple[Json, str]]:
    """What the agent itself offers to permit from now on, and how a row says it."""
    labelled = ((suggestion, _label(suggestion)) for suggestion in dicts_of(suggestions))
    return [(suggestion, label[:LABEL_CHARS]) for suggestion, label in labelled if label is not None]


def _label(suggestion: dict[str, Any]) -> str | None:
    match text_of(suggestion, "type"):
        case "addRules" | "replaceRules" if suggestion.get("behavior") == "allow":
            rules = ", ".join(_rule_text(rule) for rule in dicts_of(suggestion.get("rules")))
            return f"Yes, and don't ask again for {rules}" if rules else None
        case "addDirectories":
            named = suggestion.get("directories")
            folders = ", ".join(it for it in named if isinstance(it, str)) if isinstance(named, list) else ""
            return f"Yes, and allow access to {folders}" if folders else None
        case "setMode":
            mode = text_of(suggestion, "mode")
            return f"Yes, and go on in mode {mode}" if mode is not None else None
        case _:
            return None


def _rule_text(rule: dict[str, Any]) -> str:
    content = text_of(rule, "ruleContent")
    tool = text_of(rule, "toolName") or "this tool"
    return f"{tool}({content})" if content is not None else tool
