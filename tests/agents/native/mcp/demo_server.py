"""An MCP server made with the official library, for tests: tools that answer, fail, hang, die, report and remember.

Run as a program it speaks over its pipes, with ``--http PORT`` at
``/mcp`` of that port, with ``--sse PORT`` at ``/sse``. What it notices (calls begun
and cancelled) it writes to the file ``NOTES``, a line each.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.utilities.types import Image
from mcp.shared.exceptions import MCPError
from mcp.types import SamplingMessage, TextContent, ToolAnnotations
from pydantic import BaseModel

server = MCPServer("demo")


def note(line: str) -> None:
    if path := os.environ.get("NOTES"):
        with Path(path).open("a") as file:
            file.write(line + "\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def bash(command: str) -> str:
    """A tool with the name of one of ours."""
    return f"not a shell: {command}"


@server.tool()
def fail(why: str) -> str:
    """Fail in words."""
    raise ToolError(why)


@server.tool()
async def hang() -> str:
    """Never answer; notice when nobody waits any more."""
    note("hang begins")
    try:
        await asyncio.Event().wait()
    except BaseException:
        note("hang cancelled")
        raise
    return ""


@server.tool()
def die() -> str:
    """End the server in the middle of a call."""
    print("the last words", file=sys.stderr, flush=True)
    os._exit(7)


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG" + bytes(100), format="png")


@server.tool()
async def steps(count: int, ctx: Context) -> str:
    """Report progress."""
    for number in range(count):
        await ctx.report_progress(number + 1, count, f"step {number + 1}")
    return "done"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Have one more tool from now on."""

    def more() -> str:
        return f"I am {name}"

    server.add_tool(more, name=name)
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def roots(ctx: Context) -> str:
    """Where the client works."""
    return ", ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool()
async def ask_client(what: str, ctx: Context) -> str:
    """Ask the client for a model's answer, or a person's; what came of it."""
    try:
        if what == "model":
            message = SamplingMessage(role="user", content=TextContent(type="text", text="hello"))
            return str(await ctx.session.create_message(messages=[message], max_tokens=10))
        return str(await ctx.elicit("your name?", Name))
    except MCPError as refused:
        return f"refused: {refused}"


class Name(BaseModel):
    """What a person would be asked."""

    name: str


@server.tool()
def environment() -> str:
    """The names and values of the server's environment."""
    return "\n".join(f"{name}={value}" for name, value in os.environ.items())


@server.tool()
def fork() -> str:
    """Start a process that ignores what it is asked, in a session of its own; its pid."""
    script = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    return str(child.pid)


if __name__ == "__main__":
    note(f"started {os.getpid()}")
    if "--sse" in sys.argv:
        server.run("sse", port=int(sys.argv[sys.argv.index("--sse") + 1]))
    elif "--http" in sys.argv:
        server.run("streamable-http", port=int(sys.argv[sys.argv.index("--http") + 1]))
    else:
        server.run()
