"""``mcp-servers.json``: the MCP servers that a layer wants.

    {"servers": [{"name": …, "transport": {"type": "stdio", "command": …, "args": […], "env": {…}, "cwd": …},
                  "required": false, "retries": 3, "trusted": false}]}

The other transports are ``http`` and ``sse``, with ``url`` and ``headers``. Nothing here starts one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from dragoman.hub.workspace_config import Layer, McpServer

from .folders import absolute
from .values import named, web_problem

MOST_RETRIES = 10
"""Further tries that an entry may ask for."""

_Name = Annotated[str, Meta(min_length=1, max_length=100)]


class _Stdio(msgspec.Struct, frozen=True, tag="stdio"):
    command: Annotated[str, Meta(min_length=1)]
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None


class _Web(msgspec.Struct, frozen=True):
    url: str
    headers: dict[str, str] = {}


class _Http(_Web, frozen=True, tag="http"):
    pass


class _Sse(_Web, frozen=True, tag="sse"):
    pass


class _Entry(msgspec.Struct, frozen=True):
    name: _Name
    transport: _Stdio | _Http | _Sse
    required: bool = False
    retries: int | float = 3
    trusted: bool = False


class _Unusable(Exception):
    """``str()`` says why, without what the entry holds."""


def servers_of(
    given: Mapping[str, object],
    layer: Layer,
    where: str,
    problems: list[str],
    *,
    cwd: Path,
    home: Path,
    most: int,
) -> dict[str, McpServer]:
    """A layer's servers by name. The later of two with one name counts. An entry that cannot be used is left out."""
    entries = given.get("servers", [])
    if not isinstance(entries, list):
        problems.append(f"{where}: 'servers' is skipped: it should be a list")
        return {}
    if len(entries) > most:
        problems.append(f"{where}: servers after the first {most} are skipped")
    servers: dict[str, McpServer] = {}
    for number, entry in enumerate(entries[:most], 1):
        try:
            server = _server(entry, layer, cwd, home)
        except _Unusable as problem:
            problems.append(f"{where}: server {number}{_called(entry)} is skipped: {problem}")
            continue
        if server.name in servers:
            problems.append(f"{where}: server {number}{_called(entry)} takes the place of an earlier one")
        servers[server.name] = server
    return servers


def _server(given: object, layer: Layer, cwd: Path, home: Path) -> McpServer:
    try:
        entry = msgspec.convert(given, _Entry)
    except msgspec.ValidationError as error:
        raise _Unusable(_in_words(str(error))) from None
    name = entry.name.strip()
    if not name or not name.isprintable():
        raise _Unusable("its name has characters that cannot be shown, or no others")
    match entry.transport:
        case _Stdio() as program:
            server = _program(name, layer, program, cwd, home)
        case _Http() | _Sse() as web:
            server = _service(name, layer, web)
    return msgspec.structs.replace(
        server,
        required=entry.required,
        retries=int(min(max(entry.retries, 0), MOST_RETRIES)),
        trusted=entry.trusted and layer != "project",  # opening a folder must not give it power
    )


def _program(name: str, layer: Layer, program: _Stdio, cwd: Path, home: Path) -> McpServer:
    if not program.command.strip():
        raise _Unusable("its command is blank")
    if any("\0" in text for text in (program.command, *program.args, program.cwd or "")):
        raise _Unusable("a command cannot hold NUL")
    if any(not key or set(key) & {"=", "\0"} or "\0" in value for key, value in program.env.items()):
        raise _Unusable("its environment has a name or a value that no environment can have")
    return McpServer(
        name=name,
        layer=layer,
        transport="stdio",
        command=program.command,
        args=program.args,
        env=program.env,
        cwd=str(absolute(program.cwd, cwd, home)) if program.cwd else None,
    )


def _service(name: str, layer: Layer, web: _Http | _Sse) -> McpServer:
    if (why := web_problem(web.url)) is not None:
        raise _Unusable(f"its URL cannot be used: {why}")
    if any(not key or not (key + value).isprintable() for key, value in web.headers.items()):
        raise _Unusable("its headers have a name or a value that no header can have")
    transport: Literal["http", "sse"] = "http" if isinstance(web, _Http) else "sse"
    return McpServer(name=name, layer=layer, transport=transport, url=web.url, headers=web.headers)


def _in_words(error: str) -> str:
    """What a decoder says, but no value: it names types and places, and in some sentences what stands there."""
    if error.startswith(("Expected", "Object missing")):
        return error
    _, _, place = error.rpartition(" - at ")
    return f"a value that cannot be used - at {place}"


def _called(entry: object) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return f" ({named(name)})" if isinstance(name, str) else ""
