"""The slash commands of ``dragoman chat``: what each is called, what it says of itself, what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from .chat_talk import NoCommand, Talk
from .chat_text import one_line
from .sessions import line as session_line

MODES = ("ask", "accept_edits", "plan", "all")
"""Permission modes of a native session."""

SESSIONS = 20
"""Sessions that ``/sessions`` shows, the newest last."""

WORDS = 100


async def _help(talk: Talk, _: str) -> None:
    for name, (does, _work) in COMMANDS.items():
        talk.say(f"  {name:<11} {does}", "")
    await talk.learn_commands()
    for name, does in offered(talk).items():
        talk.say(f"  {name:<11} {does}", "")
    talk.say("  Enter sends, Alt-Enter makes a new line, Ctrl-C cancels the turn, Ctrl-D leaves", "dim")


async def _model(talk: Talk, words: str) -> None:
    await _setting(talk, "model", words)


async def _provider(talk: Talk, words: str) -> None:
    await _setting(talk, "provider", words)


async def _mode(talk: Talk, words: str) -> None:
    if words and words not in MODES:
        talk.say(f"there is no mode {words!r}: {', '.join(MODES)}", "warn")
        return
    await _setting(talk, "mode", words)


async def _setting(talk: Talk, name: str, value: str) -> None:
    """Say what holds, or change it; the event that follows says so."""
    if not value:
        talk.say(f"  {name}: {standing(talk, name) or 'as the server has it'}")
        return
    await talk.ask("settings", settings={name: value})


async def _clear(talk: Talk, _: str) -> None:
    await talk.ask("reset_history")


async def _compact(talk: Talk, _: str) -> None:
    await talk.ask("compact", late="it takes longer; what becomes of it will be said")


async def _sessions(talk: Talk, _: str) -> None:
    rows = await talk.rows(SESSIONS)
    for row in rows or ():
        here = "▸" if row["session"] == talk.session else " "
        talk.say(f"{here} {session_line(row)}", "")


async def _status(talk: Talk, _: str) -> None:
    snapshot = await talk.ask("snapshot")
    if snapshot is None:
        return
    talk.say(f"  {snapshot['session']}  {snapshot['kind']}  {snapshot['status']}", "")
    talk.say(f"  {snapshot['cwd']}", "")
    held = ", ".join(f"{name} {standing(talk, name)}" for name in ("provider", "model", "mode") if standing(talk, name))
    if held:
        talk.say(f"  {held}", "")
    talk.say(f"  {len(snapshot['decisions'])} decisions wait, {len(snapshot['queue'])} prompts wait", "")


async def _cancel(talk: Talk, _: str) -> None:
    if not talk.busy:
        talk.say("there is no turn to cancel")
    await talk.cancel()


async def _exit(talk: Talk, _: str) -> None:
    talk.leave()


Command = Callable[[Talk, str], Awaitable[None]]

COMMANDS: dict[str, tuple[str, Command]] = {
    "/help": ("these lines", _help),
    "/model": ("which model answers; /model NAME chooses another", _model),
    "/provider": ("who provides it; /provider NAME chooses another", _provider),
    "/mode": (f"what runs unasked: {', '.join(MODES)}", _mode),
    "/clear": ("begin anew: the agent forgets what was said", _clear),
    "/compact": ("sum up what was said, to make room", _compact),
    "/sessions": ("the sessions of this server", _sessions),
    "/status": ("how this session stands", _status),
    "/cancel": ("end the turn that runs", _cancel),
    "/exit": ("leave", _exit),
}


def is_command(text: str) -> bool:
    """Whether a typed line is one: a slash and a word without another slash, so that a path is none."""
    word = text.partition(" ")[0]
    return word.startswith("/") and "/" not in word[1:] and "\n" not in text.strip()


def is_known(text: str) -> bool:
    """Whether it is one that there is: what else begins with a slash may be an answer."""
    return is_command(text) and text.strip().partition(" ")[0] in COMMANDS


async def command(talk: Talk, text: str) -> str | None:
    """Do what a line that begins with a slash says: a command of this chat, else one of the session's folder.

    The key of the prompt that came of it (as ``Talk.submit``), or None.
    """
    name, _, words = text.strip().partition(" ")
    known = COMMANDS.get(name)
    if known is not None:
        await known[1](talk, words.strip())
        return None
    try:
        return await talk.run(name.removeprefix("/"), words.strip())
    except NoCommand:
        names = " ".join([*COMMANDS, *offered(talk)])
        talk.say(f"there is no {one_line(name, WORDS)}: {names}", "warn")
        return None


def offered(talk: Talk) -> dict[str, str]:
    """The commands of the session's folder that are no command of this chat, and what each does."""
    names = {f"/{one_line(found['name'], WORDS)}": found for found in talk.commands}
    return {
        name: one_line(" ".join([found.get("description") or "", *found["hints"]]).strip(), WORDS)
        for name, found in names.items()
        if name not in COMMANDS
    }


def standing(talk: Talk, name: str) -> str:
    """A setting that holds; of a model and its provider also what last ran."""
    value: Any = talk.settings.get(name) or talk.row.get(name) or ""
    return one_line(str(value), WORDS)
