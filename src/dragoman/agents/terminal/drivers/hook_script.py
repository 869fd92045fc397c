"""What an agent runs as its hook: hands the payload to the server and prints what the agent must be told.

Run by itself (``python -I -S hook_script.py EVENT``), so it imports nothing of ours and little of anything. It never
fails the agent: when nobody answers it prints nothing and leaves with 0, which no agent takes for consent.
"""

import json
import os
import socket
import sys
import time

CONNECT = 5.0
AGAIN = 0.02
ANSWER = 30.0


def main() -> None:
    """Post one hook; see the module."""
    began = time.time_ns() // 1_000_000
    event = sys.argv[1] if len(sys.argv) > 1 else ""
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    path, secret = os.environ.get("DRAGOMAN_HOOKS", ""), os.environ.get("DRAGOMAN_HOOK_SECRET", "")
    if not path:
        return
    try:
        data = json.loads(text) if text.strip() else {}
        obey(post(path, secret, {"event": event, "at": began, "data": data}))
    except Exception:  # noqa: BLE001  whatever it was, it must not be the agent's trouble
        return


def post(path: str, secret: str, message: object) -> "dict[str, str]":
    """Send the secret and one line, read one line."""
    # Half a character, as in a text that the agent has cut, is no UTF-8: it becomes a question mark.
    line = f"{secret}\n{json.dumps(message, ensure_ascii=False)}\n".encode("utf-8", "replace")
    with socket.socket(socket.AF_UNIX) as link:
        connect(link, path)
        link.settimeout(ANSWER)
        link.sendall(line)
        reply = b""
        while not reply.endswith(b"\n"):
            part = link.recv(65536)
            if not part:
                break
            reply += part
    answer = json.loads(reply) if reply else {}
    return answer if isinstance(answer, dict) else {}


def connect(link: socket.socket, path: str) -> None:
    """Be let in; a server that has no room at this moment is asked again for ``CONNECT`` seconds."""
    link.settimeout(CONNECT)
    until = time.monotonic() + CONNECT
    while True:
        try:
            return link.connect(path)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(AGAIN)


def obey(answer: "dict[str, str]") -> None:
    """Run and print what the server says."""
    if answer.get("script"):
        import subprocess  # noqa: PLC0415  a sixth of a hook's time, and few answers need it

        subprocess.run(["sh", "-c", answer["script"]], stdin=subprocess.DEVNULL, check=False)
    if answer.get("print"):
        sys.stdout.buffer.write(answer["print"].encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
