"""What Codex asks before it acts, as decisions, and the answers in its words.

The session's mode is read anew for each request, so a change counts at once:

=================  ==============================================================================================
mode               what Codex asks leave for
=================  ==============================================================================================
``ask``            a person is asked, but for what they permitted for the rest of the session
``accept_edits``   changes of files in the session's folders are accepted, but of what git takes its orders from
``plan``           everything is declined
``all``            everything is accepted
=================  ==============================================================================================

What was permitted counts for native turns too, and the other way round: the grants are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.agents.common.asking import dialog_about
from dragoman.agents.common.fields import dict_of, dicts_of, text_of
from dragoman.agents.native.calls import Place
from dragoman.agents.native.path_guard import PathBlocked, PathInvalid
from dragoman.agents.native.permissions import Reason, Verdict, classify
from dragoman.agents.native.permits import (
    ALL_COMMANDS,
    EDITS,
    MORE_COMMANDS,
    Permits,
    accepted,
    permission_decision,
    steers_git,
)
from dragoman.agents.native.rejections import denied
from dragoman.agents.native.tools.tool import ToolDenied
from dragoman.hub.events import Answer, DecisionOpened, Json, Option
from dragoman.hub.turns import TurnContext

from .codex_calls import COMMAND, PATCH, Calls, bounded, changed_paths, plain_command
from .codex_server import Asked

Fields = dict[str, Any]


class Unknown(Exception):
    """A request that is not known here."""


class Approvals:
    """Answers the requests of one round. ``remark`` is given what a person says with a refusal, for Codex to read."""

    def __init__(
        self, turn: TurnContext, place: Place, permits: Permits, calls: Calls, remark: Callable[[str], None]
    ) -> None:
        self._turn = turn
        self._place = place
        self._permits = permits
        self._calls = calls
        self._remark = remark
        self._open: dict[int | str, str] = {}
        self._closed = False
        self._answers: dict[str, Callable[[Asked], Awaitable[Fields]]] = {
            "item/commandExecution/requestApproval": self._command,
            "item/fileChange/requestApproval": self._patch,
            "item/permissions/requestApproval": self._rights,
            "item/tool/requestUserInput": self._questions,
            "mcpServer/elicitation/request": self._form,
        }

    @property
    def waiting(self) -> bool:
        """Whether a person is asked now."""
        return bool(self._open)

    async def answer(self, asked: Asked) -> Fields:
        """The result for this request, once there is one. Raises ``Unknown``."""
        answer = self._answers.get(asked.method)
        if answer is None:
            raise Unknown(asked.method)
        return await answer(asked)

    def withdrawn(self, request: object) -> None:
        """Codex needs this answer no more."""
        decision = self._open.get(request) if isinstance(request, int | str) else None
        if decision is not None:
            self._turn.session.cancel_decision(decision, "withdrawn by the agent")

    def close(self) -> None:
        """Codex needs no answer any more, and will get none."""
        self._closed = True
        for request in tuple(self._open):
            self.withdrawn(request)

    # What is asked

    async def _command(self, asked: Asked) -> Fields:
        command = text_of(asked.params, "command")
        if command is None or asked.params.get("kind", "command") != "command":
            return await self._other(asked)
        command, cwd = plain_command(command), text_of(asked.params, "cwd") or str(self._place.cwd)
        # What was permitted of a command was permitted of it in the session's folder.
        exact = f"bash({command})" if cwd == str(self._place.cwd) else f"bash({command} in {cwd})"
        settled = self._by_mode()
        if settled is not None:
            return _decision(settled)
        verdict = await asyncio.to_thread(classify, command, cwd, self._place.roots)
        if self._permits.commands_granted(exact, verdict):
            return _decision("accept")
        call, _ = self._calls.of(text_of(asked.params, "itemId"))
        answer = await self._ask(
            asked,
            permission_decision(
                self._turn,
                command,
                call=call,
                tool=COMMAND,
                given={"command": command, "cwd": cwd},
                wider=MORE_COMMANDS,
                dangerous=verdict.dangerous,
                reason=_reason(verdict),
                detail=_detail(asked, exact) | {"tool_grant": ALL_COMMANDS},
            ),
        )
        return self._decided(answer)

    async def _patch(self, asked: Asked) -> Fields:
        call, given = self._calls.of(text_of(asked.params, "itemId"))
        paths = changed_paths(given)
        steers = any(map(steers_git, paths))
        grant = f"{EDITS}({', '.join(paths)})" if steers else EDITS
        settled = self._by_mode()
        if settled is not None:
            return _decision(settled)
        inside = bool(paths) and await asyncio.to_thread(self._inside, paths)
        # A grant for edits is one for edits in the session's folders.
        if inside and (self._granted(grant) or (self._permits.mode == "accept_edits" and not steers)):
            return _decision("accept")
        for_session = Option(f"Yes, and every edit{' of these files' * steers} for the rest of the session", "session")
        answer = await self._ask(
            asked,
            permission_decision(
                self._turn,
                f"{PATCH} {', '.join(paths)}",
                call=call,
                tool=PATCH,
                given=given,
                wider=(for_session,) if inside else (),
                dangerous=steers,
                reason=Reason.REVIEW if inside else Reason.OUTSIDE,
                detail=_detail(asked, grant),
            ),
        )
        return self._decided(answer)

    async def _rights(self, asked: Asked) -> Fields:
        wanted = dict_of(asked.params, "permissions")
        settled = self._by_mode() or await self._yes_or_no(asked, "more rights for its commands", bounded(wanted))
        return {"permissions": wanted if settled == "accept" else {}, "scope": "turn"}

    async def _other(self, asked: Asked) -> Fields:
        """Leave for something beside a command: an address on the network, say."""
        host = text_of(dict_of(asked.params, "networkApprovalContext"), "host")
        command = text_of(asked.params, "command")
        what = f"network access to {host}" if host is not None else f"input for {command or 'what it runs'}"
        named = ("networkApprovalContext", "kind", "command", "reason")
        shown = {name: bounded(asked.params[name]) for name in named if asked.params.get(name) is not None}
        return _decision(self._by_mode() or await self._yes_or_no(asked, what, shown))

    async def _yes_or_no(self, asked: Asked, what: str, shown: Json) -> str:
        reason = text_of(asked.params, "reason")
        call, _ = self._calls.of(text_of(asked.params, "itemId"))
        text = f"Codex asks for {what}{f': {reason}' if reason else ''}"[:_TEXT]
        answer = await self._ask(asked, permission_decision(self._turn, text, call=call, tool=None, given=shown))
        return "accept" if accepted(answer) else "decline"

    async def _questions(self, asked: Asked) -> Fields:
        given = list(dicts_of(asked.params.get("questions")))
        dialog = dialog_about("request_user_input", {"questions": given})
        # As many as were understood, in their order: one without a text is no question.
        asking = [entry for entry in given if text_of(entry, "question", "text") is not None]
        if not asking:
            return {"answers": {}}
        questions = dialog.questions
        single = questions[0] if len(questions) == 1 else None
        answer = await self._ask(
            asked,
            DecisionOpened(
                decision=self._turn.session.ids(),
                kind="question",
                text=dialog.text,
                turn=self._turn.turn,
                tool="request_user_input",
                options=single.options if single is not None else (),
                questions=() if single is not None else questions,
                secret=any(entry.get("isSecret") is True for entry in asking),
            ),
        )
        if answer is None:
            return {"answers": {}}
        parts = (answer,) if single is not None and not answer.answers else answer.answers
        said = {
            text_of(entry, "id") or str(number): {
                "answers": _words(part, [option.label for option in question.options])
            }
            for number, (entry, question, part) in enumerate(zip(asking, questions, parts, strict=False))
        }
        return {"answers": said}

    async def _form(self, asked: Asked) -> Fields:
        """A form of a tool server's is declined, for nobody here can fill it in. Leave to call its tools is asked for
        in the same way."""
        if dict_of(asked.params, "_meta").get("codex_approval_kind") != "mcp_tool_call":
            return {"action": "decline"}
        message = text_of(asked.params, "message") or ""
        what = f"a tool of {text_of(asked.params, 'serverName')}: {message}"
        return {"action": self._by_mode() or await self._yes_or_no(asked, what, bounded(asked.params.get("_meta")))}

    # Who decides

    def _by_mode(self) -> str | None:
        """What the mode alone decides."""
        return {"all": "accept", "plan": "decline"}.get(self._permits.mode)

    def _granted(self, grant: str) -> bool:
        return grant in self._turn.session.state.grants

    def _inside(self, paths: list[str]) -> bool:
        """Whether all of them lie where this session may write."""
        try:
            for path in paths:
                self._place.guard.check(PATCH, path)
        except (PathBlocked, PathInvalid, OSError):
            return False
        return True

    async def _ask(self, asked: Asked, opened: DecisionOpened) -> Answer | None:
        """The answer; None when nobody will give one."""
        if self._closed:
            return None
        self._open[asked.id] = opened.decision
        try:
            return await self._permits.ask(opened)
        except ToolDenied:
            return None
        finally:
            del self._open[asked.id]

    def _decided(self, answer: Answer | None) -> Fields:
        """The decision that an answer is. Where nobody gives one, Codex goes on without it."""
        if accepted(answer):
            return _decision("accept")
        told = denied(answer).told
        if told is not None:
            self._remark(told)
        elif answer is not None and answer.text:
            self._remark(f"This was not permitted. They said: {answer.text}")
        return _decision("decline")


_TEXT = 2_000
"""Characters of what is asked in Codex' own words."""


def _decision(decision: str) -> Fields:
    return {"decision": decision}


def _reason(verdict: Verdict) -> Reason:
    # Codex asks also about what our own classifier would let pass: it wants to run it without its sandbox.
    return Reason.REVIEW if verdict.approved else verdict.reason


def _detail(asked: Asked, grant: str) -> dict[str, Json]:
    why = text_of(asked.params, "reason")
    return {"grant": grant} if why is None else {"grant": grant, "why": why[:_TEXT]}


def _words(answer: Answer, labels: list[str]) -> list[str]:
    """An answer in the labels that Codex gave, or in words."""
    if answer.option is not None and answer.option <= len(labels):
        return [labels[answer.option - 1]]
    if answer.choices:
        return list(answer.choices)
    return [answer.text] if answer.text else []
