"""The lines by which a person watches who comes and what they ask (seed: Server Console Output; spec §12).

They are for a terminal: what a client sent stands in them cut short, without secrets, and without characters that move
a cursor or turn a line around.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable

log = logging.getLogger("dragoman.console")
"""Its lines are written as they are, without time and level (``server.logs``)."""

IDENTITY = 6
SESSION = 4
PROMPT = 50
REASON = 300
"""Characters that are shown of an identity, a session id, a prompt, and a reason."""

_AHEAD = 4096
"""Characters beyond the cut in which a secret may end that begins before it."""

_HIDDEN = "***"

_SHAPES = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|pplx)[-_][A-Za-z0-9_-]{12,}"
    r"|\bAIza[A-Za-z0-9_-]{20,}"
    r"|\bgh[a-z]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{12,}"
    r"|\bxox[a-z]-[A-Za-z0-9-]{10,}"
    r"|\beyJ[\w-]{10,}\.[\w-]{4,}(?:\.[\w-]*)?"
    r"|\bBearer\s+[\w.~+/=-]+",
)
"""What keys of model providers and other services look like."""

_NAMED = re.compile(
    r"([?&](?:access_)?token=)[^&\s\"']+"
    r"|(\b(?:invite_code|password|passwd|secret|api_?key)\"?\s*[=:][\s\"']*)[^\s\"',}]+",
    re.IGNORECASE,
)
"""Secrets that say of themselves what they are."""


class Console:
    """Writes the lines. ``alive`` counts the dialect's sessions, ``secrets`` are those that nobody is to read: the
    server's token, invite codes. The newest ``kept`` lines stay, for ``/admin/logs``."""

    def __init__(
        self,
        alive: Callable[[], int],
        *,
        secrets: Callable[[], Iterable[str]] = tuple,
        recommends_signature: bool = False,
        kept: int = 1000,
    ) -> None:
        self._alive = alive
        self._secrets = secrets
        self._recommends = recommends_signature
        self._lines: deque[str] = deque(maxlen=kept)

    @property
    def lines(self) -> tuple[str, ...]:
        """The newest lines, oldest first."""
        return tuple(self._lines)

    # Sockets

    def opened(self, peer: str) -> None:
        """A WebSocket was opened from this address."""
        self._say(f"⚡ ws+ {self._shown(peer, REASON)} ({self._alive()} active)")

    def closed(self) -> None:
        """One is gone; its session may stay."""
        self._say(f"⚡ ws- ({self._alive()} active)")

    # What was taken

    def connected(
        self,
        identity: str | None,
        session: str,
        status: str,
        *,
        claimed: int = 0,
        server_newer: bool = False,
        reattached: bool = False,
    ) -> None:
        """Somebody was let in; ``identity`` is None for an unsigned caller, ``claimed`` counts the messages that the
        client told of."""
        self._say(f"✓ CONNECT {self._who(identity, session)} status={status}")
        if claimed:
            self._say(f"  ↑ client session: {claimed} messages")
        if server_newer:
            self._say("  ↕ merged sessions (server newer)")
        if reattached:
            self._say("  ↻ reattaching to running agent")
        if identity is None and self._recommends:
            self._say("  ! unsigned: a signature is recommended under careful")

    def input(self, identity: str | None, session: str, prompt: str, *, images: int = 0, files: int = 0) -> None:
        """A prompt begins a turn."""
        self._say(f"✓ INPUT {self._who(identity, session)} prompt={self._shown(prompt, PROMPT)}...")
        came = [f"{count} {what}" for count, what in ((images, "images"), (files, "files")) if count]
        if came:
            self._say(f"  ↑ {', '.join(came)}")

    def runtime_input(self, session: str, prompt: str) -> None:
        """A prompt goes to the turn that runs."""
        self._say(f"↳ RUNTIME_INPUT session={self._cut(session, SESSION)} prompt={self._shown(prompt, PROMPT)}...")

    def received(self, kind: str) -> None:
        """A message of another type came."""
        self._say(f"← recv: {self._shown(kind, PROMPT)}")

    # What was not

    def refused(self, kind: str, reason: str) -> None:
        """A message of this type was refused; ``reason`` is what its sender was told."""
        how = "auth error" if kind == "CONNECT" else "rejected"
        self._say(f"✗ {self._shown(kind, PROMPT)} {how}: {self._shown(reason, REASON)}")

    def not_connected(self) -> None:
        """An INPUT came before CONNECT, or while that waits at the gate."""
        self._say("✗ INPUT rejected: not authenticated (send CONNECT first)")

    def agent_error(self, message: str) -> None:
        """A turn failed."""
        self._say(f"✗ agent error: {self._shown(message, REASON)}")

    # Inside

    def _who(self, identity: str | None, session: str) -> str:
        name = "anonymous" if identity is None else self._cut(identity, IDENTITY)
        return f"identity={name} session={self._cut(session, SESSION)}"

    def _cut(self, text: str, length: int) -> str:
        return f"{self._shown(text, length)}..."

    def _shown(self, text: str, length: int) -> str:
        """The beginning of what somebody sent, fit for a terminal and for other people's eyes."""
        return printable(self._without_secrets(text[: length + _AHEAD])[:length])

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets():
            if secret:
                text = text.replace(secret, _HIDDEN)
        named = _NAMED.sub(lambda found: f"{found[1] or found[2]}{_HIDDEN}", text)
        return _SHAPES.sub(_HIDDEN, named)

    def _say(self, line: str) -> None:
        self._lines.append(line)
        log.info("%s", line)


def printable(text: str) -> str:
    """The text with what does not print (controls, line ends, direction marks, half characters) written out."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _written(each) for each in text)


def _written(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
