"""``dragoman send``: a prompt for a session, or text typed into a terminal.

Inside an agent, with one argument or none: the signal that allows its next stop (``coop send``).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
from urllib.parse import urlsplit

from .chat_text import whole
from .main import complain
from .reaching import Reach, reach

WAITS = "it waits: the agent is working"

LIMIT = 30.0
"""Seconds for the server to take a signal."""


def run(arguments: argparse.Namespace) -> int:
    """Send, and say what became of it."""
    if arguments.text is None:
        return signal("{}" if arguments.session is None else arguments.session, arguments)

    async def work(server: Reach) -> int:
        row = await server.find(arguments.session)
        text = whole(sys.stdin.read() if arguments.text == "-" else arguments.text)
        path = f"/sessions/{row['session']}"
        if row["kind"] == "terminal":
            await server.http.post(f"{path}/input", text=text, enter=not arguments.no_enter)
            if row["agent"] != "unknown" and row["status"] == "working":
                print(WAITS, file=sys.stderr)
            return 0
        receipt = await server.http.post(f"{path}/prompts", text=text, when_busy="queue")
        print(f"{receipt['disposition']} {receipt.get('turn') or receipt['prompt']}")
        if receipt["disposition"] == "queued":
            print(WAITS, file=sys.stderr)
        return 0

    return reach(work, arguments)


def signal(body: str, arguments: argparse.Namespace) -> int:
    """Allow the next stop of the agent that this runs in. Exit code 0, 1 (refused, no answer) or 2 (asked wrongly)."""
    try:
        json.loads(body)
    except ValueError:
        return complain(f"send: {body[:60]!r} is no JSON; for a prompt: dragoman send SESSION TEXT")
    url = os.environ.get("COOP_URL")
    if not url:
        return complain("send: COOP_URL is not set: outside of an agent, give a session and a text")
    try:
        status, answer = _post(url.rstrip("/"), body, _proof(arguments))
    except (OSError, ValueError, http.client.HTTPException) as problem:
        print(f"dragoman: no server answers at {url}: {problem}", file=sys.stderr)
        return 1
    print(answer, file=sys.stdout if status < 400 else sys.stderr)
    return 0 if status < 400 else 1


def _proof(arguments: argparse.Namespace) -> dict[str, str]:
    token = arguments.token or os.environ.get("DRAGOMAN_TOKEN")
    secret = os.environ.get("DRAGOMAN_HOOK_SECRET")
    return {
        **({"Authorization": f"Bearer {token}"} if token else {}),
        **({"X-Dragoman-Hook": secret} if secret else {}),
    }


def _post(url: str, body: str, proof: dict[str, str]) -> tuple[int, str]:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=LIMIT)
    try:
        headers = {"Content-Type": "application/json", **proof}
        connection.request("POST", f"{parts.path}/api/v1/hooks/stop/resolve", body.encode(), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()
