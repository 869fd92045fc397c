"""The command line: one parser; each command's work is in its own module and imported when it is called."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from dragoman.server.settings import SettingsError, log_level

NOBODY_READS = 141
"""Exit code when whoever read our output has read enough: as of a program that SIGPIPE has ended."""

USE_ERROR = 2
"""Exit code for everything that was asked wrongly."""


class Parser(argparse.ArgumentParser):
    """argparse, except that an error of use is one line."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(USE_ERROR)


def build_parser() -> Parser:
    """Every command with its flags."""
    parser = Parser(
        prog="dragoman",
        description="Host AI agent sessions and speak the wire protocol each client already knows.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    serve = commands.add_parser("serve", help="start the server", allow_abbrev=False)
    _listening(serve, port=("--port", "-p"), as_json=("--json", "-j"))
    _serving(serve)

    run = commands.add_parser("run", help="serve one program on a terminal over coop", allow_abbrev=False)
    _listening(run)
    run.add_argument("--agent", metavar="NAME", help="what the program is: claude, codex, gemini, … (unknown)")
    run.add_argument("--agent-config", metavar="FILE", help="JSON: stop, start, settings and mcp of the agent")
    run.add_argument("--groom", metavar="HOW", help="set-up dialogs: auto answers them, manual, pristine (auto)")
    run.add_argument(
        "--resume",
        metavar="HINT",
        help="go on with a session of claude: its id, words of its project folder, or its .jsonl",
    )
    run.add_argument("--attach", metavar="tmux:NAME", help="instead of a program: what runs in this tmux session")
    run.add_argument("--ring-size", type=int, metavar="BYTES", help="raw output that is kept (1048576)")
    run.add_argument("--cols", type=int, help="terminal width (200)")
    run.add_argument("--rows", type=int, help="terminal height (50)")
    run.add_argument("--term", help="taken and without effect: programs get xterm-256color")
    run.add_argument("--record", action="store_true", default=None, help="record to asciicast v2 in the data folder")
    run.add_argument("--no-model", action="store_true", help="keep no screen model")
    run.add_argument("--exit-with-child", action="store_true", help="stop when the program has ended")
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- CMD ...", help="the program and its arguments")

    attach = commands.add_parser("attach", help="use a terminal session from this terminal", allow_abbrev=False)
    _reaching(attach)
    attach.add_argument("session", nargs="?", help="session id, or a unique beginning of one")

    sessions = commands.add_parser("sessions", help="list the sessions of a server", allow_abbrev=False)
    _reaching(sessions)
    sessions.add_argument("--json", action="store_true", help="print one JSON object per session")

    send = commands.add_parser(
        "send", help="send a prompt, or type into a terminal; inside an agent: allow its next stop", allow_abbrev=False
    )
    _reaching(send)
    send.add_argument("session", nargs="?", metavar="SESSION", help="session id, or a unique beginning of one")
    send.add_argument(
        "text",
        nargs="?",
        metavar="TEXT",
        help="what to send; - reads standard input. Without it, SESSION is JSON that allows this agent's next stop",
    )
    send.add_argument("--no-enter", action="store_true", help="terminal: do not press enter after the text")

    _providers(
        commands.add_parser("providers", help="list the model providers, and keep their keys", allow_abbrev=False)
    )
    _checkpoints(
        commands.add_parser(
            "checkpoints", help="images of a session's folder: take one, go back to one", allow_abbrev=False
        )
    )
    _skills(commands.add_parser("skills", help="list the skills of a folder, and switch them", allow_abbrev=False))
    _hooks(commands.add_parser("hooks", help="have agents that you start elsewhere seen here", allow_abbrev=False))
    _talking(commands.add_parser("chat", help="talk with an agent, in this terminal or by lines", allow_abbrev=False))

    _working(commands.add_parser("worker", help="do the runs that are queued in a workspace", allow_abbrev=False))

    keys = commands.add_parser("keys", help="show the address of this server's own key", allow_abbrev=False)
    keys.add_argument("--config", metavar="FILE", help="settings file (TOML)")
    keys.add_argument("--path", action="store_true", help="print where the key is instead")
    keys.add_argument("--json", action="store_true", help="print both as one JSON object")

    config = commands.add_parser("config", help="print the settings that hold", allow_abbrev=False)
    config.add_argument("--config", metavar="FILE", help="settings file (TOML)")
    return parser


def _serving(parser: Parser) -> None:
    parser.add_argument("--dialect", metavar="NAME", help="mount this dialect at the root, too")
    parser.add_argument("--dir", "-d", metavar="DIR", help="work in this folder: it is entered before all else")
    parser.add_argument(
        "--yolo",
        "-y",
        action="store_true",
        default=None,
        help="sessions that coworker clients make run every command unasked",
    )
    parser.add_argument(
        "--make-folders",
        action="store_true",
        default=None,
        help="make .agent, the output folder and the uploads folder, as agent-coworker does",
    )


def _listening(parser: Parser, *, port: Sequence[str] = ("--port",), as_json: Sequence[str] = ("--json",)) -> None:
    parser.add_argument("--config", metavar="FILE", help="settings file (TOML)")
    parser.add_argument("--host", help="address to bind (127.0.0.1)")
    parser.add_argument(*port, type=int, help="TCP port, 0 for a free one (7337)")
    parser.add_argument("--socket", metavar="PATH", help="listen on this unix socket too")
    parser.add_argument("--port-health", type=int, metavar="PORT", help="serve health and ready on this port too")
    parser.add_argument("--token", "--auth-token", help="require this token (better: DRAGOMAN_TOKEN)")
    parser.add_argument("--allow-host", action="append", metavar="NAME", help="also serve this host name")
    parser.add_argument("--allow-origin", action="append", metavar="ORIGIN", help="let pages of this origin in")
    parser.add_argument("--data", metavar="DIR", help="data folder")
    parser.add_argument(*as_json, action="store_true", help="print one JSON line on stdout when ready")
    parser.add_argument("--log-level", type=log_level, choices=("debug", "info", "warning", "error"))
    parser.add_argument("--log-json", action="store_true", default=None, help="log as JSON lines")
    parser.add_argument("--log-format", type=str.lower, choices=("text", "json"), help="the same, in another form")


def _reaching(parser: Parser) -> None:
    parser.add_argument("--url", help="the server (DRAGOMAN_URL, else the one that runs here)")
    parser.add_argument("--token", help="its token (DRAGOMAN_TOKEN)")


def _providers(parser: Parser) -> None:
    _reaching(parser)
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "key", "sign-in", "forget"),
        default="list",
        help="list them (the default); keep the key of one, read from a prompt or standard input; sign in to one by "
        "its own program; forget a key or a sign-in",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a provider, or brave or exa for web search")
    parser.add_argument("more", nargs="*", help=argparse.SUPPRESS)  # taken, so that no error repeats a key
    parser.add_argument("--verify", action="store_true", help="ask each one whether it takes its key")
    parser.add_argument("--json", action="store_true", help="print one JSON object per provider")


def _checkpoints(parser: Parser) -> None:
    _reaching(parser)
    parser.add_argument(
        "action",
        choices=("list", "take", "restore", "delete", "on", "off"),
        help="list them; save the folder now; go back to one, the first by default; let one go; whether the folder is "
        "saved after each turn",
    )
    parser.add_argument("session", metavar="SESSION", help="session id, or a unique beginning of one")
    parser.add_argument("checkpoint", nargs="?", metavar="CHECKPOINT", help="which one, as list shows it")
    parser.add_argument("--json", action="store_true", help="print one JSON object per checkpoint")


def _skills(parser: Parser) -> None:
    _reaching(parser)
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "read", "enable", "disable", "delete"),
        default="list",
        help="list them (the default); print one; switch a global one on or off; delete it for good",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a skill, as list shows it")
    parser.add_argument("--session", metavar="ID", help="whose folder (the newest session in this one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per skill")


def _hooks(parser: Parser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=("install", "uninstall", "status", "doctor"),
        default="status",
        help="put our hooks into the agents' settings; take them out; say how they stand (the default); try each one",
    )
    parser.add_argument(
        "agents",
        nargs="*",
        metavar="AGENT",
        help="claude, codex, gemini or all; without one, install means those that are here",
    )
    parser.add_argument("--config", metavar="FILE", help="settings file of the server (TOML)")
    parser.add_argument("--data", metavar="DIR", help="data folder of the server")
    parser.add_argument("--json", action="store_true", help="print one JSON object per agent")


def _talking(parser: Parser) -> None:
    _reaching(parser)
    parser.add_argument("--session", metavar="ID", help="take up this session: its id, or a unique beginning of it")
    parser.add_argument("--cwd", metavar="DIR", help="folder of a new session (this one)")
    parser.add_argument("--kind", choices=("native", "scripted"), help="kind of a new session (native)")
    parser.add_argument("--provider", metavar="NAME", help="who provides the model")
    parser.add_argument("--model", metavar="NAME", help="which model answers")
    parser.add_argument("--mode", choices=("ask", "accept_edits", "plan", "all"), help="what runs unasked")
    parser.add_argument("--print", metavar="PROMPT", help="one turn, its answer on stdout; - reads standard input")


def _working(parser: Parser) -> None:
    parser.add_argument(
        "--server", metavar="URL", help="where the runs are: root of WindieOS's protocol (BACKEND_HTTP_URL, else here)"
    )
    parser.add_argument(
        "--agents", metavar="URL", help="where the agents are (the server that runs here, else that of the runs)"
    )
    parser.add_argument("--runs-key", metavar="KEY", help="key of its runs (better: AGENT_RUNS_API_KEY)")
    parser.add_argument("--workspace", metavar="NAME", help="whose runs (AGENT_VM_WORKSPACE_ID)")
    parser.add_argument(
        "--worker-id", metavar="NAME", help="name of this worker, the same at each start (one of its own, once)"
    )
    parser.add_argument("--vm-id", metavar="NAME", help="name of this machine (its host name)")
    parser.add_argument("--user", metavar="NAME", help="whose agents do the runs (worker)")
    parser.add_argument("--install-token", metavar="TOKEN", help="an install's token (better: AGENT_INSTALL_TOKEN)")
    parser.add_argument("--folder", metavar="DIR", help="folder in which agents are to work, on the server")
    parser.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="between two heartbeats (2)")
    parser.add_argument("--once", action="store_true", help="end when one run is over; exit code 1 if it failed")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code."""
    _open_streams()
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if arguments.version:
        from importlib.metadata import version  # noqa: PLC0415  slow, and wanted here only

        print(f"dragoman {version('dragoman')}")
        raise SystemExit(0)
    if arguments.command is None:
        parser.error("a command is missing")
    module = importlib.import_module(f"dragoman.cli.{arguments.command}")
    try:
        code: int = module.run(arguments)
        sys.stdout.flush()
    except SettingsError as problem:
        code = complain(str(problem))
    except OSError as problem:
        if problem.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        code = _unwritten(problem)
    raise SystemExit(code)


def _unwritten(problem: OSError) -> int:
    """What was printed cannot be written; the exit code."""
    # The interpreter would try again at its end, and print a traceback.
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    if isinstance(problem, BrokenPipeError):
        return NOBODY_READS
    print(f"dragoman: it could not be written: {problem.strerror}", file=sys.stderr)
    return 1


def _open_streams() -> None:
    """Whoever starts us may have closed them: then there is nothing to read, and nobody who reads."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115  for as long as we run
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names come from anywhere, and a locale may know few letters


def complain(message: str) -> int:
    """One line on stderr; the exit code of an error of use."""
    print(f"dragoman: {message}", file=sys.stderr)
    return USE_ERROR
