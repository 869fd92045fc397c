"""``dragoman send``: a prompt for a session, or text typed into a terminal."""

from __future__ import annotations

import argparse
import sys

from .reaching import Reach, reach


def run(arguments: argparse.Namespace) -> int:
    """Send, and say what became of it."""

    async def work(server: Reach) -> int:
        row = await server.find(arguments.session)
        text = sys.stdin.read() if arguments.text == "-" else arguments.text
        path = f"/sessions/{row['session']}"
        if row["kind"] == "terminal":
            await server.http.post(f"{path}/input", text=text, enter=not arguments.no_enter)
            return 0
        receipt = await server.http.post(f"{path}/prompts", text=text, when_busy="queue")
        print(f"{receipt['disposition']} {receipt.get('turn') or receipt['prompt']}")
        return 0

    return reach(work, arguments)
