"""``dragoman chat``: a conversation with an agent, in this terminal or by lines."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from dragoman.client.hub import HubClient
from dragoman.server.settings import Settings, default_file, load

from .chat_plain import PATIENCE, Printer, print_once, talk_by_lines
from .chat_server import NoServer, own_server, private_file, quiet_logs
from .chat_talk import Talk
from .chat_text import whole
from .leaving import leave_without_waiting, own_threads
from .main import complain
from .reaching import Reach, reach

INTERRUPTED = 130
"""Exit code after Ctrl-C where there was no turn to cancel."""


def run(arguments: argparse.Namespace) -> int:
    """Talk until the person leaves. With ``--print``: 0 completed, 1 failed, 130 cancelled, 2 asked wrongly."""
    if (problem := misuse(arguments)) is not None:
        return complain(f"chat: {problem}")
    if arguments.print == "-":
        arguments.print = sys.stdin.read()
    if arguments.print is not None:
        arguments.print = whole(arguments.print)
    settings = load(default_file(os.environ), os.environ, {})

    async def work(server: Reach) -> int:
        return await _until_signalled(_chat(server, arguments, settings))

    async def alone(settings: Settings) -> int:
        threads = own_threads()
        code = await _until_signalled(_with_its_own(arguments, settings))
        leave_without_waiting(threads, code)
        return code

    try:
        with quiet_logs(settings):
            return reach(work, arguments, otherwise=alone)
    except NoServer as problem:
        return complain(str(problem))
    except KeyboardInterrupt:
        return INTERRUPTED


def misuse(arguments: argparse.Namespace) -> str | None:
    """What is wrong with the flags, if anything."""
    if arguments.session is not None and (arguments.kind is not None or arguments.cwd is not None):
        return "--session takes up a session that has its kind and folder: leave --kind and --cwd out"
    if arguments.cwd is not None and not Path(arguments.cwd).is_dir():
        return f"--cwd {arguments.cwd!r} is no folder"
    if arguments.print is not None and not arguments.print.strip():
        return "--print needs a prompt"
    return None


async def _until_signalled(chat: Awaitable[int]) -> int:
    """The chat; SIGTERM and a terminal that closes end it in order."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    ended_by: list[int] = []

    def end(number: int) -> None:
        ended_by.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    try:
        return await chat
    except asyncio.CancelledError:
        if not ended_by:
            raise
        return 128 + ended_by[0]


async def _with_its_own(arguments: argparse.Namespace, settings: Settings) -> int:
    async with own_server(settings) as server:
        return await _chat(server, arguments, settings, own=True)


async def _chat(server: Reach, arguments: argparse.Namespace, settings: Settings, *, own: bool = False) -> int:
    session = await _session(server, arguments)
    async with HubClient(server.url, token=server.token) as client:
        if arguments.print is not None:
            return await _print(client, session, arguments)
        if sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            return await _in_terminal(client, session, server.note, arguments, settings, own=own)
        return await _by_lines(client, session, server.note, arguments)


async def _session(server: Reach, arguments: argparse.Namespace) -> str:
    """The session that is taken up, or a new one; with the settings that were given."""
    names = ("provider", "model", "mode")
    given: dict[str, Any] = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if arguments.session is None:
        folder = str(Path(arguments.cwd or ".").resolve())
        kind = arguments.kind or "native"
        return str((await server.http.post("/sessions", kind=kind, cwd=folder, settings=given))["session"])
    session = str((await server.find(arguments.session))["session"])
    if given:
        await server.http.patch(f"/sessions/{session}", settings=given)
    return session


async def _print(client: HubClient, session: str, arguments: argparse.Namespace) -> int:
    notices = Printer(sys.stderr)
    talk = Talk(client, session, lambda _: None, notice=notices, patience=PATIENCE)
    await talk.open()
    return await _attended(talk, print_once(talk, arguments.print, allow=arguments.mode == "all"))


async def _by_lines(client: HubClient, session: str, note: str, arguments: argparse.Namespace) -> int:
    printer = Printer(sys.stdout)
    if note:
        Printer(sys.stderr)([[("dim", note)]])
    talk = Talk(client, session, printer, printer.columns, patience=PATIENCE)
    await talk.open(recall=arguments.session is not None)
    code = await _attended(talk, talk_by_lines(talk, allow=arguments.mode == "all"))
    return printer.ended(code)


async def _in_terminal(
    client: HubClient, session: str, note: str, arguments: argparse.Namespace, settings: Settings, *, own: bool
) -> int:
    from .chat_input import Terminal  # noqa: PLC0415  prompt_toolkit is heavy, and wanted here only

    terminal = Terminal(private_file(settings.data.path(), "chat_history"))
    talk = Talk(client, session, terminal.show, terminal.columns)
    if note:
        talk.say(note)
    await talk.open(recall=arguments.session is not None)
    await talk.learn_commands()
    talk.say(f"· in {talk.row['cwd']}")
    talk.say(f"· session {session[:8]}; /help says what else can be typed")

    async def typing() -> int:
        await terminal.run(talk)
        return 0 if talk.over is None else 1

    code = await _attended(talk, typing())
    again = f"dragoman chat --session {session[:8]}"
    goes_on = talk.busy and talk.over is None and not own
    print(f"{'the turn goes on; ' if goes_on else ''}{again} comes back to it")
    return code


async def _attended(talk: Talk, work: Any) -> int:
    """Do the work while the link and the session's end are watched."""
    async with asyncio.TaskGroup() as tasks:
        watching = [tasks.create_task(talk.attend()), tasks.create_task(talk.watch_link())]
        code: int = await work
        for task in watching:
            task.cancel()
    return code
