"""What a host says on its console of a conversation, told from the conversation alone (seed: Server Console Output)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .compare import FAILURES
from .recording import Entry, Frame, Left, Opened, Received, Sent

_OF_SEED = re.compile(r"⚡ ws|✓ (CONNECT|INPUT) |✗ (CONNECT|INPUT|agent) |  [↑↕↻] ")

NOT_YET = "authenticate first (send CONNECT)"


def of_seed(line: str) -> bool:
    """Whether the seed has such lines."""
    return bool(_OF_SEED.match(line))


def in_words_of_seed(line: str) -> str:
    """A line of the original's console as the seed has it: it names callers otherwise, and shows more of all ids."""
    line = re.sub(r"agent_address=(0x....)\w+\.\.\.", r"identity=\1...", line)
    line = re.sub(r"session=(....)\w{4}\.\.\.", r"session=\1...", line)
    return line.replace("resuming forwarding to", "reattaching to").removesuffix(" (server_newer)")


def without_counts(lines: Sequence[str]) -> tuple[list[str], int, int]:
    """The lines about messages, and how many sockets came and went."""
    said = [line for line in lines if not line.startswith("⚡")]
    return said, sum(line.startswith("⚡ ws+") for line in lines), sum(line.startswith("⚡ ws-") for line in lines)


_ANSWERED = frozenset(("CONNECT", "INPUT", "ONBOARD_SUBMIT", "SEAL"))
"""Messages that always have an answer; so have those of administrators."""


@dataclass
class _Socket:
    """What is known of one: who it is, what waits for an answer, and which CONNECT waits at the gate."""

    identity: str = ""
    session: str = ""
    asked: list[Frame] = field(default_factory=list)
    gated: Frame = field(default_factory=dict)
    told: list[Frame] = field(default_factory=list)

    def answered(self, kind: str = "") -> Frame:
        """The oldest message of a type, or of any, that waits for an answer; an empty one where none does."""
        for at, message in enumerate(self.asked):
            if kind in ("", message["type"]):
                return self.asked.pop(at)
        return {}


def lines_of(entries: Sequence[Entry]) -> list[str]:
    """The lines, but for how many sessions there were."""
    teller = _Teller()
    return [line for entry in entries for line in teller.told(entry)]


class _Teller:
    def __init__(self) -> None:
        self._sockets: dict[str, _Socket] = {}
        self._failed: set[str] = set()

    def told(self, entry: Entry) -> Iterator[str]:
        """What one entry makes the console say."""
        match entry:
            case Opened(conn):
                self._sockets[conn] = _Socket()
                yield "⚡ ws+ 127.0.0.1"
            case Left():
                yield "⚡ ws-"
            case Sent(conn, message):
                self._asked(self._sockets[conn], message)
            case Received(conn, frame):
                yield from self._said(self._sockets[conn], frame)

    def _asked(self, socket: _Socket, message: object) -> None:
        if not isinstance(message, dict):
            socket.asked.append({"type": "no message"})
        elif message["type"] in _ANSWERED or message["type"].startswith("ADMIN_"):
            socket.asked.append(message)

    def _said(self, socket: _Socket, frame: Frame) -> Iterator[str]:
        if "session" in frame:
            socket.told.append(frame["session"])
        match frame["type"]:
            case "CONNECTED":
                yield from self._connected(socket, socket.answered("CONNECT") or socket.gated, frame)
            case "ONBOARD_REQUIRED":
                socket.gated = socket.answered("CONNECT")
            case "ONBOARD_SUCCESS" | "ADMIN_RESULT":
                socket.answered()
            case "user_input" if not frame.get("runtime_input"):
                yield from self._ran(socket, socket.answered("INPUT"))
            case "RUNTIME_INPUT_ACK":
                socket.answered("INPUT")
            case "ERROR":
                yield from self._refused(socket, frame["message"])

    def _connected(self, socket: _Socket, asked: Frame, frame: Frame) -> Iterator[str]:
        socket.identity = asked.get("from", "") if asked.get("signature") else ""
        socket.session = frame["session_id"]
        yield f"✓ CONNECT {_who(socket)} status={frame['status']}"
        claimed = self._session(asked.get("session") or {}).get("messages")
        if claimed:
            yield f"  ↑ client session: {len(claimed)} messages"
        if frame.get("server_newer"):
            yield "  ↕ merged sessions (server newer)"
        if frame["status"] == "running":
            yield "  ↻ reattaching to running agent"

    def _session(self, given: Frame) -> Frame:
        """The session that a client gave, also where it is one that it had been told."""
        if "<given back>" not in given:
            return given
        conn, at = given["<given back>"]
        told: Frame = self._sockets[conn].told[at]
        return told

    def _ran(self, socket: _Socket, asked: Frame) -> Iterator[str]:
        if not asked:  # told again, or to somebody else
            return
        yield f"✓ INPUT {_who(socket)} prompt={asked['prompt'][:50]}..."
        brought = [f"{len(asked[kind])} {kind}" for kind in ("images", "files") if asked.get(kind)]
        if brought:
            yield f"  ↑ {', '.join(brought)}"

    def _refused(self, socket: _Socket, message: str) -> Iterator[str]:
        if message in FAILURES:
            if socket.session not in self._failed:
                yield f"✗ agent error: {message}"
            self._failed.add(socket.session)
            return
        match socket.answered().get("type"):
            case "CONNECT":
                yield f"✗ CONNECT auth error: {message}"
            case "INPUT" if message == NOT_YET:
                yield "✗ INPUT rejected: not authenticated (send CONNECT first)"
            case "INPUT" if message != "prompt required":
                yield f"✗ INPUT rejected: {message}"


def _who(socket: _Socket) -> str:
    identity = f"{socket.identity[:6]}..." if socket.identity else "anonymous"
    return f"identity={identity} session={socket.session[:4]}..."
