"""A windie link: its handshake, what it says, and what it is told (seed: WebSocket; spec §3, §4, §6)."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from dragoman.dialects.base import Outbox, Wire
from dragoman.dialects.frames import text_frame
from dragoman.hub.errors import HubError, LimitReached
from dragoman.hub.events import PromptSubmitted
from dragoman.hub.session import Session
from dragoman.services.installs import InstallsUnavailable, InvalidToken, MissingToken

from .agent_definition import AgentDefinition
from .callers import Caller, caller_of
from .client_manifest import AcceptedTool, validate_manifest
from .client_messages import ClientMessage, Handshake
from .commands import Commands
from .decoding import HandshakeRefused, ProtocolProblem, decode, decode_handshake, size_of
from .following import Following
from .messages import ClientToolManifest, Error, ReplyPayload, StartupPayload, encode_reply, encode_startup
from .projection import Projection
from .remote_tools import remote_tools

if TYPE_CHECKING:
    from .dialect import WindieDialect
    from .users import User

log = logging.getLogger("dragoman.links")

REFUSED = 1008
"""How a link ends that is not let in, or says nothing for long; the contract gives no reason with it (spec §3)."""

TIMEOUT_REASON = "receive timeout"
TOO_MANY = "Too many concurrent requests. Please wait."
LOGGED = 10
"""Messages of a link that nothing can be done with and that are logged; further ones would only fill the log."""

FAILED = "An internal error occurred"


class WindieLink:
    """One client. ``token`` is what it showed as it connected. Implements ``Link``."""

    joins = False
    """Every message is a frame of its own: a pause would only delay it."""

    def __init__(self, dialect: WindieDialect, token: str | None, wire: Wire) -> None:
        self.id = secrets.token_hex(8)
        self.caller: Caller | None = None
        self.definition: AgentDefinition | None = None
        self.accepted: tuple[AcceptedTool, ...] = ()
        """The tools of the handshake's manifest that hold."""
        self._dialect = dialect
        self._settings = dialect.settings
        self._token = token
        self._wire = wire
        self._user: User | None = None
        self._commands: Commands | None = None
        self._outbox = Outbox(dialect.settings.outbox_bytes)
        self._followed: OrderedDict[str, Following] = OrderedDict()
        self._behind: deque[tuple[dict[str, int], bytes]] = deque()
        """Answers that wait until these conversations are told up to there. One for each stop that is worked on."""
        self._retold: deque[Following] = deque()
        """Turns that are over, and are told once more."""
        self._decoding = False
        self._working = 0
        self._urgent = 0
        """Results and stops that are worked on: none waits for another message, and so reading can wait for them."""
        self._held = 0
        """Bytes of the messages that are worked on."""
        self._noise = 0
        self._over = False
        self._gone = False
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._patience = self._loop.call_later(self._settings.handshake_seconds, self._too_late)

    # Link

    @property
    def congested(self) -> bool:
        waiting = self._urgent + len(self._behind)
        return self._decoding or self._outbox.full or waiting >= self._settings.tasks

    def receive(self, message: str | bytes) -> None:
        if self._over or self._dialect.closing:
            return
        self._heard_at = self._loop.time()
        if self.caller is None:
            self._decoding = True
            self._dialect.tasks.start(self._shake(message), "handshake")
        elif size_of(message) < self._settings.offload_bytes:
            self._take(self._decoded(message), size_of(message))
        else:
            self._decoding = True
            self._dialect.tasks.start(self._decode_aside(message), "decode")

    def pong(self, payload: bytes) -> None:
        """This link sends no pings of its own."""

    def pull(self) -> bytes | None:
        if self._gone:
            return None
        frame = self._outbox.take() or self._due()
        if frame is not None:
            return frame
        until = self._behind[0][0] if self._behind else {}
        for name, following in self._followed.items():
            frame = following.take(until.get(name))
            if frame is not None:
                self._followed.move_to_end(name)  # the others get their turn
                return frame
        return self._due() or self._told_again()

    def lost(self) -> None:
        self._over = True
        self._let_go()

    # For commands and the user

    def reply(self, message_id: str | None, payload: ReplyPayload | Error) -> None:
        """Answer a message."""
        if not self._over:
            self._outbox.put(text_frame(encode_reply(message_id, payload)))
            self._wire.wake()

    def reply_behind(self, message_id: str, payload: ReplyPayload) -> None:
        """Answer a message once all is told that has happened by now in the conversations that this link follows."""
        places = {name: following.session.head for name, following in self._followed.items()}
        self._behind.append((places, text_frame(encode_reply(message_id, payload))))
        self._wire.wake()

    def follow(self, session: Session, since: int | None = None) -> None:
        """Be told of this conversation from now on: all of its open turn, or what comes after ``since``."""
        if self._over or session.id in self._followed or self._user is None or self.caller is None:
            return
        self._make_room()
        self._followed[session.id] = Following(
            session,
            link=self.id,
            user_id=self.caller.user_id,
            frames=self._dialect.frames,
            tasks=self._dialect.tasks,
            wake=self._wire.wake,
            start=None if since is None else (since, Projection(session.id, begun=since > 1)),
        )
        self._wire.wake()

    def has_told_from(self, session: Session, seq: int) -> bool:
        """Whether this link has followed a conversation since before this event of it."""
        following = self._followed.get(session.id)
        return following is not None and following.began < seq

    def retell(self, session: Session, prompt: PromptSubmitted, after: int) -> None:
        """Tell a turn that is over from its beginning, which is behind ``after``. Raises ``LimitReached``."""
        if len(self._retold) >= self._settings.tasks:
            raise LimitReached(TOO_MANY)
        assert self.caller is not None
        state = session.shown
        projection = Projection(session.id, (prompt,), begun=state.turns > 1 or state.histories > 0)
        self._retold.append(
            Following(
                session,
                link=self.id,
                user_id=self.caller.user_id,
                frames=self._dialect.frames,
                tasks=self._dialect.tasks,
                wake=self._wire.wake,
                start=(after, projection),
                only=prompt.client_message_id,
            )
        )
        self._wire.wake()

    def follows(self, session: str) -> bool:
        """Whether it is told of this conversation, and still there."""
        return not self._over and session in self._followed

    def sessions(self) -> list[Session]:
        """The conversations that it is told of, or was until it was lost."""
        return [following.session for following in self._followed.values()]

    def mute(self, session: Session, turn_ref: str) -> None:
        """Tell nothing more of this turn: it was stopped from here."""
        following = self._followed.get(session.id)
        if following is not None:
            following.mute(turn_ref)

    def noise(self) -> int:
        """The level at which one more message is logged that nothing can be done with."""
        self._noise += 1
        return logging.INFO if self._noise <= LOGGED else logging.DEBUG

    def revoked(self) -> None:
        """Its token is nobody's any more."""
        self._end("its install was revoked")

    # Handshake

    async def _shake(self, message: str | bytes) -> None:
        try:
            handshake, manifest = await self._read_handshake(message)
            install = await self._dialect.host.access.identify(self._token)
        except HandshakeRefused as refused:
            self._end(f"its handshake is none: {refused}")
        except (MissingToken, InvalidToken):
            self._end("it showed no install's token")
        except InstallsUnavailable as problem:
            self._end(f"nobody can be told from anybody: {problem}")
        else:
            if not self._over:
                self._begin(handshake, manifest, caller_of(install, handshake.user_id))
        finally:
            self._decoding = False
            self._wire.wake()

    async def _read_handshake(self, message: str | bytes) -> tuple[Handshake, ClientToolManifest | None]:
        """The handshake, and what becomes of its manifest. A large one is read in a thread."""
        settings = self._settings

        def read() -> tuple[Handshake, ClientToolManifest | None]:
            handshake = decode_handshake(
                message, limit=settings.handshake_limit, values=settings.message_values, tolerate=settings.tolerate
            )
            definition = handshake.agent_definition
            if definition is None or definition.tools.client_manifest is None:
                return handshake, None
            accepted, rejected = validate_manifest(definition.tools.client_manifest)
            return handshake, ClientToolManifest(accepted=accepted, rejected=rejected)

        return read() if size_of(message) < settings.offload_bytes else await self._dialect.aside(read)

    def _begin(self, handshake: Handshake, manifest: ClientToolManifest | None, caller: Caller) -> None:
        if caller.user_id != handshake.user_id:
            log.info("a windie link says that it is %.128r and is %s", handshake.user_id, caller.user_id)
        self.caller, self.definition = caller, handshake.agent_definition
        self._user = self._dialect.user(caller)
        self._commands = Commands(self, self._user, self._dialect.host)
        if manifest is not None:
            self.accepted = manifest.accepted
            self._startup(manifest)
        self._startup(remote_tools(self._dialect.host))
        self._patience.cancel()
        self._patience = self._loop.call_later(self._settings.receive_seconds, self._too_silent)
        self._user.join(self)

    def _startup(self, payload: StartupPayload) -> None:
        self._outbox.put(text_frame(encode_startup(payload)))

    # Messages

    def _decoded(self, message: str | bytes) -> ClientMessage | ProtocolProblem:
        try:
            return decode(message, limit=self._settings.message_limit, values=self._settings.message_values)
        except ProtocolProblem as problem:
            # One that was never raised: its traceback would hold the message until cycles are next looked for.
            return ProtocolProblem(problem.message, problem.message_id)

    async def _decode_aside(self, message: str | bytes) -> None:
        """In the dialect's thread; no further message is taken meanwhile, so that their order stays."""
        try:
            self._take(await self._dialect.aside(lambda: self._decoded(message)), size_of(message))
        finally:
            self._decoding = False
            self._wire.wake()

    def _take(self, message: ClientMessage | ProtocolProblem, size: int) -> None:
        """Every message is worked on by itself, so that a tool's result is taken while its query waits for it.

        ``size`` is in bytes; what is worked on is kept as long.
        """
        commands = self._commands
        assert commands is not None
        if isinstance(message, ProtocolProblem):
            assert self.caller is not None
            log.log(self.noise(), "PARSE_VALIDATION_ERROR: from %s: %.300r", self.caller.user_id, message.message)
            self.reply(message.message_id, Error(message=message.message))
        elif commands.is_exempt(message):
            self._urgent += 1
            self._dialect.tasks.start(self._run(commands, message), "result").add_done_callback(self._urgent_done)
        elif self._working >= self._settings.tasks or self._held + size > self._settings.tasks_bytes:
            self.reply(message.id, Error(message=TOO_MANY))
        else:
            self._working += 1
            self._held += size
            task = self._dialect.tasks.start(self._run(commands, message), "message")
            task.add_done_callback(lambda _: self._worked(size))

    def _urgent_done(self, _: object) -> None:
        self._urgent -= 1
        self._wire.wake()

    def _worked(self, size: int) -> None:
        self._working -= 1
        self._held -= size

    async def _run(self, commands: Commands, message: ClientMessage) -> None:
        if self._gone:
            return
        try:
            await commands.handle(message)
        except HubError as problem:
            self.reply(message.id, Error(message=str(problem)))
        except Exception:
            log.exception("a windie message failed")
            self.reply(message.id, Error(message=FAILED))

    def _told_again(self) -> bytes | None:
        while self._retold:
            told = self._retold[0]
            frame = told.take()
            if frame is not None:
                return frame
            if not (told.ended or told.gone or told.cursor >= told.session.shown.seq):
                return None  # more of it is on its way from the disk
            told.close()
            self._retold.popleft()
        return None

    def _due(self) -> bytes | None:
        """The oldest answer that was waiting for conversations to be told, once they are."""
        if not self._behind:
            return None
        places, frame = self._behind[0]
        for name, seq in places.items():
            following = self._followed.get(name)
            # What could not be written to the disk has not happened, and is told to nobody.
            if following is not None and following.cursor < min(seq, following.session.head) and not following.gone:
                return None
        self._behind.popleft()
        return frame

    # Life

    def _make_room(self) -> None:
        """Let go of conversations at rest, the longest untold first."""
        for name, following in list(self._followed.items()):
            if len(self._followed) < self._settings.followed:
                return
            if following.gone or following.at_rest:
                following.close()
                del self._followed[name]
                assert self._user is not None
                self._user.released(following.session, following.cursor)

    def _too_late(self) -> None:
        self._end(f"PARSE_TIMEOUT_ERROR: it did not say who it is within {self._settings.handshake_seconds:g} s")

    def _too_silent(self) -> None:
        left = self._heard_at + self._settings.receive_seconds - self._loop.time()
        if left > 0:
            self._patience = self._loop.call_later(left, self._too_silent)
        else:
            self._end("nothing was heard from it for too long", TIMEOUT_REASON)

    def _end(self, why: str, reason: str = "") -> None:
        if not self._over:
            self._over = True
            log.info("a windie link of %s is ended: %s", self.caller.user_id if self.caller else "nobody", why)
            self._wire.close(REFUSED, reason)
            self._let_go()  # a client that does not read would take its time to be gone

    def _let_go(self) -> None:
        """Nothing goes on for this link."""
        if self._gone:
            return
        self._gone = True
        self._patience.cancel()
        if self._commands is not None:
            self._commands.lost()
        for following in (*self._followed.values(), *self._retold):
            following.close()
        if self._user is not None:
            self._user.leave(self)
