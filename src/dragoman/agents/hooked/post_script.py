"""What an agent of the person's runs as its hook: hands the payload to the server, and prints an answer if it waits.

Run by itself, as a copy that ``dragoman hooks install`` makes (``python3 -I -S post.py SOCKET AGENT EVENT``), so it
imports nothing of ours and little of anything, and may be run by any Python 3. It must never be the agent's trouble:
it leaves with 0 whatever happens, and within ``WITHIN`` seconds, server or no server. Only a permission's hook waits
longer, as long as the server gives signs of life, and only that prints anything; no agent takes silence for consent.
"""

import os
import signal
import socket
import sys
import time

WITHIN = 1.0
"""Seconds for everything, but the wait for a permission's answer."""

QUIET = 15.0
"""Seconds without a sign of life from the server after which nothing more is waited for."""

AGAIN = 0.02
"""Seconds after which a server that has no room is asked again."""

BYTES = 32 * 1024 * 1024
"""Of a payload; what is larger is left out."""

WHOLE = 3 * 1024 * 1024
"""Bytes up to which a payload is handed on as it is: the server takes little more (``hub.hook_bytes``)."""

KEPT = 64 * 1024
"""Characters of each text in a larger one, such as a picture that a tool has read: that it was read is worth more."""

PATH_BYTES = 100
"""The longest path of a unix socket that is used as it is; the system takes a few more."""

ANCESTORS = 32
"""Processes above us that are told of: one of them is the agent."""

WAITS = "PermissionRequest"
CHECK = "DRAGOMAN_HOOK_CHECK"
"""Set by ``dragoman hooks doctor``: then what the server says is printed, whatever hook this is."""


def main() -> None:
    began, parent = time.time_ns() // 1_000_000, os.getppid()
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)
    signal.setitimer(signal.ITIMER_REAL, WITHIN)
    path, agent, event = sys.argv[1:4]
    payload = read_all(0)
    if payload is None:
        return
    line = post(began, agent, event, payload if len(payload) <= WHOLE else shortened(payload))
    link = connected(path)
    link.sendall(line)
    said = heard(link, parent if event == WAITS else None)
    # half an answer, of a server that was killed, is none
    if said.endswith(b"\n") and (event == WAITS or CHECK in os.environ):
        write_all(1, said.strip())


def leave(*_: object) -> None:
    """Whoever wants us to end need not ask twice, and the agent is not to take it for a failure."""
    os._exit(0)


def read_all(fd: int) -> "bytes | None":
    """What is said there; None where it is more than anybody takes."""
    parts: list[bytes] = []
    size = 0
    while True:
        part = os.read(fd, 1 << 20)
        if not part:
            return b"".join(parts) if size <= BYTES else None
        size += len(part)
        if size <= BYTES:  # the rest is heard, too: the agent is not to be cut off
            parts.append(part)


def shortened(payload: bytes) -> bytes:
    """The same with its long texts cut; as it is where it cannot be read."""
    import json  # noqa: PLC0415  what is seldom needed is not to cost anything at each hook

    def cut(value: object) -> object:
        if isinstance(value, str):
            return value if len(value) <= KEPT else value[:KEPT] + "…"
        if isinstance(value, dict):
            return {name: cut(entry) for name, entry in value.items()}
        return [cut(entry) for entry in value] if isinstance(value, list) else value

    try:
        return json.dumps(cut(json.loads(payload.decode("utf-8", "replace")))).encode()
    except (ValueError, RecursionError):
        return payload


def connected(path: str) -> socket.socket:
    """A link to the server; one that has no room at this moment is asked again until time is up."""
    name = os.fsencode(path)
    if len(name) > PATH_BYTES:
        os.chdir(os.path.dirname(name))  # noqa: PTH120  pathlib takes longer than all the rest
        name = os.path.basename(name)  # noqa: PTH119
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(WITHIN)
    while True:
        try:
            link.connect(name)
        except BlockingIOError:
            time.sleep(AGAIN)
        else:
            return link


def post(began: int, agent: str, event: str, payload: bytes) -> bytes:
    """One line of JSON. The payload is put in as it is: the server knows how to read what is not quite JSON."""
    text = payload.decode("utf-8", "replace").replace("\n", " ").replace("\r", " ").strip("\ufeff ") or "null"
    session, secret = os.environ.get("DRAGOMAN_SESSION", ""), os.environ.get("DRAGOMAN_HOOK_SECRET", "")
    parents = ",".join(f"[{pid},{start}]" for pid, start in ancestors(os.getppid()))
    head = (
        f'{{"agent":{quoted(agent)},"event":{quoted(event)},"at":{began},'
        f'"session":{quoted(session)},"secret":{quoted(secret)},'
        f'"pid":{os.getpid()},"parents":[{parents}],"data":'
    )
    return (head + text + "}\n").encode("utf-8", "replace")


def quoted(text: str) -> str:
    """Names and ids as JSON; other characters than they are made of are left out."""
    kept = "".join(letter for letter in text[:200] if " " <= letter <= "~" and letter not in '"\\')
    return f'"{kept}"'


def ancestors(pid: int) -> "list[tuple[int, int]]":
    """The processes above us, as far as the system shows them: pid, and start in ticks since the machine's."""
    found: list[tuple[int, int]] = []
    while pid > 1 and len(found) < ANCESTORS:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
                text = file.read()
        except OSError:
            break
        # the name, in parentheses, may hold anything
        fields = text[text.rindex(b")") + 2 :].split()
        found.append((pid, int(fields[19])))
        pid = int(fields[1])
    return found


def heard(link: socket.socket, parent: "int | None") -> bytes:
    """All that the server says until it closes. Empty lines say that it lives.

    With ``parent`` it is waited for, until that process, which wants the answer, is gone.
    """
    said = b""
    while True:
        part = link.recv(65536)
        if not part:
            return said
        said = (said + part).lstrip()
        if parent is not None:
            if os.getppid() != parent:  # the shell that ran us was ended, and we were not told
                return b""
            signal.setitimer(signal.ITIMER_REAL, QUIET)
            link.settimeout(None)


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    try:
        main()
    finally:
        os._exit(0)  # whatever it was; and nothing is said of it
