"""What an agent runs as its hook: hands the payload to the server and prints what the agent must be told.

Run by itself (``python -I -S hook_script.py EVENT``), so it imports nothing of ours and little of anything. It never
fails the agent: when nobody answers it prints nothing and leaves with 0, which no agent takes for consent.
"""

import json
import os
import socket
import subprocess
import sys
import time

CONNECT = 1.0
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
        answer = post(path, {"secret": secret, "event": event, "at": began, "data": data})
    except (OSError, ValueError):
        return
    script = answer.get("script")
    if script:
        sys.stdout.flush()
        subprocess.run(["sh", "-c", script], stdin=subprocess.DEVNULL, check=False)
    if answer.get("print"):
        sys.stdout.write(answer["print"])


def post(path: str, message: object) -> "dict[str, str]":
    """Send one line, read one line."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(CONNECT)
        link.connect(path)
        link.settimeout(ANSWER)
        link.sendall(json.dumps(message).encode() + b"\n")
        reply = b""
        while not reply.endswith(b"\n"):
            part = link.recv(65536)
            if not part:
                break
            reply += part
    answer = json.loads(reply) if reply else {}
    return answer if isinstance(answer, dict) else {}


if __name__ == "__main__":
    main()
