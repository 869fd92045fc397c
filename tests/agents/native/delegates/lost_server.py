"""A server to be killed while Claude Code's stand-in works for it: ``python -m …lost_server FOLDER PROMPT``.

Prints the session's id once the program has spoken, and then does nothing more.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.hub.rig import until

from .claude_rig import claude_hub


async def main(folder: Path, prompt: str) -> None:
    async with claude_hub(folder) as hub:
        session = await hub.session(provider="claude-code")
        await hub.submit(session, prompt)
        await until(lambda: session.shown.status.last_message, "its words")
        print(session.id, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
