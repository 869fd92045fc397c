"""What a server that runs no native session does not pay for."""

from __future__ import annotations

import subprocess
import sys

_LATE = ("dragoman.agents.native.agent", "dragoman.agents.native.tools.table", "aiohttp", "pydantic_ai", "openai")


def test_a_server_starts_without_the_agent_its_tools_and_the_vendors_packages() -> None:
    program = f"import dragoman.server.serve, sys; print([name for name in {_LATE!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
