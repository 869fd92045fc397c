"""What each message of a client does (seed: Client -> Server Messages; spec §3).

Whatever the log says of it is told from the log, to every link of the session; here are the replies to the asking link.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.hub.clock import Clock
from dragoman.hub.errors import (
    AlreadyResolved,
    AnsweredAlready,
    CheckpointFailed,
    ConflictingRepeat,
    InvalidRequest,
    NotPermitted,
    StorageUnavailable,
    UnknownCheckpoint,
    UnknownDecision,
    UnknownTurn,
    Unsupported,
)
from dragoman.hub.events import Answer, Json
from dragoman.hub.permissions import Principal, Right
from dragoman.hub.providers import Providers
from dragoman.hub.session import Session
from dragoman.hub.skills import Skills
from dragoman.hub.workspace_config import WorkspaceConfigs
from dragoman.services.observability import QueryProxy
from dragoman.services.observability.harness import SETTING, tidied
from dragoman.services.observability.slo import evaluate

from . import client_messages as asked
from . import messages as wire
from . import workspace_messages as around
from .backups import failure_reason, session_backup_state
from .errors import BACKUP, INTERNAL, INVALID, Kind, error
from .javascript import clipped, trimmed
from .projection import MESSAGE_ID, echo
from .prompts import as_answer, find
from .sign_in import ProviderRequests
from .skill_views import commands_list, skill_content, skills_list

if TYPE_CHECKING:
    from .link import CoworkerLink

VIA = "coworker"
"""How this dialect names itself in the log."""

Work = Coroutine[Any, Any, None]


class Around(msgspec.Struct, frozen=True):
    """What the commands of all links use. ``checks`` is how many one evaluation may have."""

    providers: Providers
    skills: Skills
    configs: WorkspaceConfigs
    queries: QueryProxy
    clock: Clock
    checks: int
    methods: asked.Methods


class Commands:
    """Those of one link."""

    def __init__(self, link: CoworkerLink, around: Around) -> None:
        self._link = link
        self._session: Session = link.session
        self._id: str = link.session.id
        self._who: Principal = link.principal
        self._around: Around = around
        self._providers: ProviderRequests = ProviderRequests(around.providers, self._id, link.say)

    def handle(self, message: asked.ClientMessage) -> Work | None:
        """Do what waits for nothing at once, and return the rest as work. Raises ``HubError``; so does the work."""
        return _HANDLERS[type(message)](self, message)

    def introduce_providers(self) -> Work:
        """What a link is told of them unasked, as soon as it is known."""
        return self._providers.greet()

    # Link

    def _hello(self, message: asked.ClientHello) -> None:
        """Silent (seed: Handshake Flow), but to a client that asks for what the seed lacks."""
        if message.features:
            self._link.grant(message.features)

    def _ping(self, _: asked.Ping) -> None:
        self._link.say(wire.Pong(session_id=self._id))

    # Turns

    async def _prompt(self, message: asked.UserMessage) -> None:
        await self._submit(message.text, None, message.client_message_id)

    async def _execute(self, message: asked.ExecuteCommand) -> None:
        name = trimmed(message.name)
        expanded = await self._around.skills.expand(self._cwd, name, message.arguments or "")
        if expanded is None:
            self._fail(f"Unknown command: {name}", INVALID)
        elif not expanded.text.strip():
            self._fail(f'Command "{name}" expanded to empty prompt', INVALID)
        else:
            await self._submit(expanded.shown, expanded.text, message.client_message_id)

    async def _submit(self, text: str, content: str | None, message_id: str | None) -> None:
        """On a link that may have come back, a message id that was used since the last reset is no new prompt."""
        known = message_id is not None and self._link.features.knows_repeats
        detail: dict[str, Json] = {} if message_id is None else {MESSAGE_ID: message_id}
        try:
            receipt = await self._session.submit(
                self._who,
                text,
                via=VIA,
                client_message_id=f"{self._session.state.resets}:{message_id}" if known else None,
                content=content,
                detail=detail,
            )
        except ConflictingRepeat:
            raise ConflictingRepeat(message_id or "") from None  # by the name that the client gave it
        if receipt.duplicate:
            self._link.say(echo(self._id, text, message_id))

    async def _cancel(self, _: asked.Cancel) -> None:
        """Silent while nothing runs."""
        turn = self._session.state.turn
        if turn is not None:
            try:
                await self._session.cancel(self._who, turn.turn, via=VIA)
            except UnknownTurn:
                return  # it ended of itself

    async def _reset(self, _: asked.Reset) -> None:
        self._check_ours()
        await self._session.reset_history(self._who)

    # What is asked

    async def _answer_question(self, message: asked.AskResponse) -> None:
        found = find(self._session.state, message.request_id, approval=False)
        if found is None:
            self._unknown("ask_response", message.request_id)
            return
        answer = as_answer(found, message.answer)
        await self._answer("ask_response", message.request_id, found.opened.decision, answer, found.question)

    async def _answer_approval(self, message: asked.ApprovalResponse) -> None:
        found = find(self._session.state, message.request_id, approval=True)
        if found is None:
            self._unknown("approval_response", message.request_id)
            return
        answer = Answer(accept=message.approved)
        await self._answer("approval_response", message.request_id, found.opened.decision, answer, None)

    async def _answer(self, what: str, request: str, decision: str, answer: Answer, question: int | None) -> None:
        try:
            await self._session.answer(self._who, decision, answer, via=VIA, question=question)
        except (AlreadyResolved, AnsweredAlready, UnknownDecision):
            self._unknown(what, request)

    def _unknown(self, what: str, request: str) -> None:
        """The seed has no error for it (spec §3)."""
        self._link.say(wire.Log(session_id=self._id, line=f"[warn] {what} for unknown requestId: {clipped(request)}"))

    # Model and tools

    async def _set_model(self, message: asked.SetModel) -> None:
        self._check_ours()
        changes: dict[str, Json] = {"model": trimmed(message.model)}
        if message.provider is not None:
            changes["provider"] = message.provider
        await self._session.change_settings(self._who, changes)

    async def _set_enable_mcp(self, message: asked.SetEnableMcp) -> None:
        self._check_ours()
        await self._session.change_settings(self._who, {"enable_mcp": message.enable_mcp})

    def _list_tools(self, _: asked.ListTools) -> None:
        self._link.say(around.Tools(session_id=self._id, tools=tuple(sorted(self._session.offered_tools))))

    # Providers

    def _provider(self, work: Callable[[ProviderRequests], Awaitable[None]]) -> Work:
        """Keys and sign-ins are the server's: for whoever may administer it."""
        self._check_everything(Right.ADMIN)

        async def run() -> None:
            await work(self._providers)

        return run()

    # Commands and skills

    async def _list_commands(self, _: asked.ListCommands) -> None:
        self._link.say(commands_list(self._id, await self._around.skills.commands(self._cwd)))

    async def _list_skills(self, _: asked.ListSkills) -> None:
        self._link.say(skills_list(self._id, await self._around.skills.skills(self._cwd)))

    async def _read_skill(self, message: asked.ReadSkill) -> None:
        name = trimmed(message.skill_name)
        found = await self._around.skills.read(self._cwd, name)
        if found is None:
            self._fail(f'Skill "{name}" not found.', INVALID)
        else:
            self._link.say(skill_content(self._id, found))

    def _toggle(self, change: Callable[[Path, str], Awaitable[None]], name: str) -> Work:
        """Skills are the person's, not the session's."""
        self._check_everything(Right.WRITE)
        return self._toggled(change, trimmed(name))

    async def _toggled(self, change: Callable[[Path, str], Awaitable[None]], name: str) -> None:
        try:
            await change(self._cwd, name)
        except InvalidRequest as problem:
            self._fail(str(problem), INVALID)
        except StorageUnavailable as problem:
            self._fail(str(problem), INTERNAL)
        else:
            await self._list_skills(asked.ListSkills())
            await self._list_commands(asked.ListCommands())

    # Backups

    async def _backup_get(self, _: asked.SessionBackupGet) -> None:
        await self._session.workspace_ready()
        await self._session.durable(self._session.head, limit=self._session.limits.ack_seconds)
        self._link.say(session_backup_state(self._session.shown, self._session.checkpoint_folder, "requested"))

    async def _backup_checkpoint(self, _: asked.SessionBackupCheckpoint) -> None:
        await self._backed_up("manual checkpoint failed", self._session.checkpoint(self._who))

    async def _backup_restore(self, message: asked.SessionBackupRestore) -> None:
        await self._backed_up("restore failed", self._session.restore_checkpoint(self._who, message.checkpoint_id))

    async def _backup_delete(self, message: asked.SessionBackupDeleteCheckpoint) -> None:
        try:
            await self._backed_up("delete failed", self._session.delete_checkpoint(self._who, message.checkpoint_id))
        except UnknownCheckpoint as unknown:
            self._fail(f"Unknown checkpoint id: {unknown.checkpoint}", Kind("validation_failed", "backup"))

    async def _backed_up(self, failed: str, work: Awaitable[object]) -> None:
        """Without a first snapshot nothing else is said than why there is none (spec §9)."""
        try:
            await work
        except (CheckpointFailed, UnknownCheckpoint) as problem:
            why = failure_reason(self._session.state, self._session.checkpoint_folder)
            if why is not None:
                self._fail(why, BACKUP)
            elif isinstance(problem, CheckpointFailed):
                self._fail(f"{failed}: {problem}", BACKUP)
            elif failed == "restore failed":
                self._fail(f"restore failed: Error: Unknown checkpoint: {problem.checkpoint}", BACKUP)
            else:
                raise

    # Harness and observability

    def _context_get(self, _: asked.HarnessContextGet) -> None:
        context = self._session.state.settings.get(SETTING)
        self._link.say(around.HarnessContext(session_id=self._id, context=context))

    async def _context_set(self, message: asked.HarnessContextSet) -> None:
        context = msgspec.to_builtins(tidied(message.context, self._around.clock.now()))
        await self._session.change_settings(self._who, {SETTING: context})
        self._link.say(around.HarnessContext(session_id=self._id, context=context))

    async def _query(self, message: asked.ObservabilityQuery) -> None:
        config = await self._around.configs.read(self._cwd)
        result = await self._around.queries.query(message.query, config.observability)
        self._link.say(around.ObservabilityQueryResult(session_id=self._id, result=result))

    async def _evaluate(self, message: asked.HarnessSloEvaluate) -> None:
        config = await self._around.configs.read(self._cwd)
        result = await evaluate(
            message.checks,
            lambda request: self._around.queries.query(request, config.observability),
            now=self._around.clock.now(),
            report_only=config.report_only,
            strict_mode=config.strict_mode,
            most=self._around.checks,
        )
        self._link.say(around.HarnessSloResult(session_id=self._id, result=result))

    # Inside

    @property
    def _cwd(self) -> Path:
        return Path(self._session.state.cwd)

    def _check_ours(self) -> None:
        """A program on a terminal has a model, servers and a conversation of its own."""
        if self._session.state.kind == "terminal":
            raise Unsupported("this session's agent runs on a terminal: say it to the agent itself")

    def _check_everything(self, right: Right) -> None:
        """What is more than this session is for whoever may see more than single ones."""
        self._who.check(self._id, right)
        if self._who.only is not None:
            raise NotPermitted(right)

    def _fail(self, message: str, kind: Kind) -> None:
        self._link.say(error(self._id, message, kind))


Handler = Callable[[Commands, Any], Work | None]

_HANDLERS: dict[type, Handler] = {
    asked.ClientHello: Commands._hello,
    asked.Ping: Commands._ping,
    asked.UserMessage: Commands._prompt,
    asked.ExecuteCommand: Commands._execute,
    asked.Cancel: Commands._cancel,
    asked.Reset: Commands._reset,
    asked.AskResponse: Commands._answer_question,
    asked.ApprovalResponse: Commands._answer_approval,
    asked.SetModel: Commands._set_model,
    asked.SetEnableMcp: Commands._set_enable_mcp,
    asked.ListTools: Commands._list_tools,
    asked.ProviderCatalogGet: lambda commands, _: commands._providers.show_catalog(),
    asked.ProviderAuthMethodsGet: lambda commands, _: commands._providers.show_methods(),
    asked.RefreshProviderStatus: lambda commands, _: commands._providers.refresh(),
    asked.ProviderAuthAuthorize: lambda commands, message: commands._provider(lambda it: it.authorize(message)),
    asked.ProviderAuthCallback: lambda commands, message: commands._provider(lambda it: it.callback(message)),
    asked.ProviderAuthSetApiKey: lambda commands, message: commands._provider(lambda it: it.set_api_key(message)),
    asked.ListCommands: Commands._list_commands,
    asked.ListSkills: Commands._list_skills,
    asked.ReadSkill: Commands._read_skill,
    asked.DisableSkill: lambda it, message: it._toggle(it._around.skills.disable, message.skill_name),
    asked.EnableSkill: lambda it, message: it._toggle(it._around.skills.enable, message.skill_name),
    asked.DeleteSkill: lambda it, message: it._toggle(it._around.skills.delete, message.skill_name),
    asked.SessionBackupGet: Commands._backup_get,
    asked.SessionBackupCheckpoint: Commands._backup_checkpoint,
    asked.SessionBackupRestore: Commands._backup_restore,
    asked.SessionBackupDeleteCheckpoint: Commands._backup_delete,
    asked.HarnessContextGet: Commands._context_get,
    asked.HarnessContextSet: Commands._context_set,
    asked.ObservabilityQuery: Commands._query,
    asked.HarnessSloEvaluate: Commands._evaluate,
}
"""What waits for nothing returns None; the rest is work that runs beside the link."""

BUSY_REFUSES = (
    asked.Reset,
    asked.SetModel,
    asked.SetEnableMcp,
    asked.DisableSkill,
    asked.EnableSkill,
    asked.DeleteSkill,
    asked.ProviderAuthAuthorize,
    asked.ProviderAuthCallback,
    asked.ProviderAuthSetApiKey,
    asked.SessionBackupCheckpoint,
    asked.SessionBackupRestore,
    asked.SessionBackupDeleteCheckpoint,
)
"""What is refused while the agent works, before anything else of it is looked at. Prompts are refused by the hub."""
