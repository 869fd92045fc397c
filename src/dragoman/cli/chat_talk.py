"""One person's talk with one session: what came is shown, what was typed is sent, what waits is asked.

It knows the hub's words and no terminal. Where lines go is its owner's: ``show`` gets what happens in the session,
``notice`` (where it is another) what has to be said about the talk itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from dragoman.client.errors import ClientClosed, ClientError, Refused
from dragoman.client.hub import Event, Following, HubClient

from .chat_decisions import Answer, Decision, Decisions, Unclear, answer_to, describe, described_answer
from .chat_text import Line, clean, fit
from .chat_view import View, prompt_lines

LINK_CHECK = 0.25
"""Seconds between two looks whether the server is there."""

RECALLED = 200
"""Events looked at for the last exchange of a session that is taken up again."""

WORDS = 300

_NO_COMMAND = frozenset({"unknown_command", "unsupported"})
"""What a server answers that has no such command, or none at all."""


class NoCommand(Exception):
    """The session's folder has no slash command of that name."""


class Talk:
    """See the module. ``patience``: seconds without the server after which the talk is over; None waits for ever."""

    def __init__(
        self,
        client: HubClient,
        session: str,
        show: Callable[[list[Line]], None],
        columns: Callable[[], int | None] = lambda: None,
        *,
        notice: Callable[[list[Line]], None] | None = None,
        patience: float | None = None,
    ) -> None:
        self.client = client
        self.session = session
        self.view = View(columns, self._is_mine)
        self.decisions = Decisions()
        self.turn: str | None = None
        self.row: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.over: str | None = None
        """Why there is nothing more to talk with."""
        self.left = False
        """Whether the person asked to leave."""
        self.outcomes: dict[str, dict[str, Any]] = {}
        self.commands: list[dict[str, Any]] = []
        """The slash commands of the session's folder, as they were when ``learn_commands`` was last called."""
        self._show = show
        self._notice = notice or show
        self._patience = patience
        self._news = asyncio.Event()
        self._following: Following | None = None
        self._keys: set[str] = set()
        self._prompts: dict[str, str] = {}
        self._turns: dict[str, list[str]] = {}
        self._asked: tuple[str, str] | None = None

    # Its state

    @property
    def asking(self) -> Decision | None:
        """The decision that waits for this person's answer."""
        return self.decisions.current

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self.turn is not None

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that came made it true."""
        while not condition():
            self._news.clear()
            await self._news.wait()

    def wake(self) -> None:
        """Something else changed: let whoever waits look again."""
        self._news.set()

    def wake_from_afar(self) -> Callable[[], None]:
        """The same for another thread; without effect once the loop is gone."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._news.set)

        return wake

    # Its life

    async def open(self, *, recall: bool = False) -> None:
        """Begin to follow; ``recall`` shows the last exchange first. Raises ``Refused`` and its like."""
        snapshot = await self.client.snapshot(self.session)
        self.row, self.settings = snapshot, dict(snapshot["settings"])
        if recall:
            page = await self.client.events(self.session, before=snapshot["seq"] + 1, limit=RECALLED)
            self._show(recalled([event["fact"] for event in page["events"]]))
        self.turn = (snapshot.get("turn") or {}).get("turn")
        for decision in snapshot["decisions"]:
            self.decisions.open(decision)
        self._following = self.client.follow(self.session, self._on_event, after=snapshot["seq"], coalesce=True)
        self._ask()

    async def attend(self) -> None:
        """Wait for the end of the session or of the link, and say what it was."""
        assert self._following is not None
        try:
            await self._following.wait()
        except ClientClosed:
            return
        except Refused as problem:
            self.end(problem.message)
        except ClientError as problem:
            self.end(str(problem))

    async def watch_link(self) -> None:
        """Say that the server is away, and that it is back."""
        clock = asyncio.get_running_loop().time
        seen, since = True, clock()
        while True:
            await asyncio.sleep(LINK_CHECK)
            if self.over is not None:
                return
            if not seen and self._patience is not None and clock() - since > self._patience:
                self.end("the server is lost")
            if self.client.connected == seen:
                continue
            seen, since = self.client.connected, clock()
            self.say("· the server is back" if seen else "✗ the server is away; trying again", "dim" if seen else "bad")
            self._news.set()

    def end(self, why: str) -> None:
        """There is nothing more to talk with."""
        if self.over is None:
            self.over = why
            self.say(f"✗ {why}", "bad")
        self._news.set()

    # What a person does

    def say(self, text: str, style: str = "dim") -> None:
        """A line of our own."""
        self._notice([[(style, fit(clean(text).replace("\n", " "), WORDS))]])

    def echo(self, text: str) -> None:
        """What was typed, where typing leaves no trace."""
        self._show(prompt_lines(text))

    async def submit(self, text: str, *, when_busy: str = "steer") -> str | None:
        """Send a prompt; its key in ``outcomes``, or None when it was refused."""
        return await self._send(lambda key: self.client.submit(self.session, text, when_busy=when_busy, key=key))

    async def run(self, command: str, arguments: str, *, when_busy: str = "steer") -> str | None:
        """Send what a slash command of the session's folder means, as ``submit``. Raises ``NoCommand``."""
        workspace = self.client.workspace(self.session)
        try:
            return await self._send(
                lambda key: workspace.run(command, arguments, when_busy=when_busy, key=key), passing=_NO_COMMAND
            )
        except Refused as problem:
            raise NoCommand(problem.message) from None

    async def learn_commands(self) -> None:
        """Ask for the slash commands of the session's folder; a server that knows none has none."""
        try:
            self.commands = await self.client.workspace(self.session).commands()
        except (ClientError, TimeoutError):
            self.commands = []

    async def _send(
        self, sending: Callable[[str], Awaitable[dict[str, Any]]], *, passing: Collection[str] = ()
    ) -> str | None:
        """Send under a new key. What is refused is said, but for the codes ``passing``, which are raised."""
        key = str(uuid.uuid4())
        self._keys.add(key)
        try:
            receipt = await sending(key)
        except Refused as problem:
            if problem.code in passing:
                raise
            self.fail(problem)
            return None
        except (ClientError, TimeoutError) as problem:
            self.fail(problem)
            return None
        if receipt["disposition"] == "steering":
            self.say("· sent along: the agent takes it in at its next step")
        elif receipt["disposition"] == "queued":
            self.say("· it waits until the turn is over")
        return key

    async def answer(self, typed: str) -> None:
        """Answer the decision that is asked, as a person types it."""
        decision = self.asking
        if decision is None:
            return
        try:
            given = answer_to(decision, typed)
        except Unclear as problem:
            self.say(f"  {problem}", "warn")
            return
        await self.reply(decision, given)

    async def reply(self, decision: Decision, given: Answer) -> None:
        """Answer one decision. If someone was first, or it is no answer, that is said."""
        name = decision["decision"]
        self.decisions.answering(name)
        self._show([])
        self._news.set()
        try:
            await self.client.answer(self.session, name, **given)
        except Refused as problem:
            if problem.code == "already_resolved":
                # The event that tells of it takes it away, and says what the answer was.
                self.decisions.refused(name)
            else:
                self._ask_again(name, problem)
        except (ClientError, TimeoutError) as problem:
            self._ask_again(name, problem)
        self._ask()
        self._news.set()

    async def cancel(self) -> None:
        """End the turn that runs."""
        turn = self.turn
        if turn is None:
            return
        try:
            await self.client.cancel(self.session, turn)
        except Refused as problem:
            if problem.code != "unknown_turn":  # it was over already
                self.fail(problem)
        except (ClientError, TimeoutError) as problem:
            self.fail(problem)

    async def ask(self, op: str, *, late: str = "", **fields: Any) -> dict[str, Any] | None:
        """Any other request of the hub; None when it was refused, which is said. ``late`` is said of one that goes on
        beyond the time that an answer is waited for."""
        try:
            return await self.client.request(op, session=self.session, **fields)
        except TimeoutError as problem:
            if late and self.client.connected:
                self.say(f"· {late}")
            else:
                self.fail(problem)
        except ClientError as problem:
            self.fail(problem)
        return None

    async def rows(self, most: int) -> list[dict[str, Any]] | None:
        """Sessions of this server, the newest last; None when that was refused, which is said."""
        try:
            return await self.client.sessions(limit=most)
        except (ClientError, TimeoutError) as problem:
            self.fail(problem)
            return None

    def leave(self) -> None:
        """The person wants to go."""
        self.left = True
        self._news.set()

    def fail(self, problem: Exception) -> None:
        """Say what the server refused, or that it did not answer."""
        if isinstance(problem, TimeoutError):
            self.say("✗ no answer from the server", "bad")
        else:
            self.say(f"✗ {problem.message if isinstance(problem, Refused) else problem}", "bad")

    # Inside

    def _ask_again(self, name: str, problem: Exception) -> None:
        self.fail(problem)
        self.decisions.refused(name)
        self._asked = None

    def _is_mine(self, key: str) -> bool:
        return key in self._keys

    def _on_event(self, event: Event) -> None:
        fact = event.fact
        handle: Callable[[dict[str, Any]], None] | None
        handle = getattr(self, "_on_" + fact["type"].replace(".", "_"), None)
        lines = self.view.take(fact, event.at)
        self._show(lines)
        if handle is not None:
            handle(fact)
            self._ask()
        self._news.set()

    def _on_prompt_submitted(self, fact: dict[str, Any]) -> None:
        if (key := fact.get("client_message_id")) in self._keys:
            self._prompts[fact["prompt"]] = str(key)

    def _on_prompt_taken(self, fact: dict[str, Any]) -> None:
        self._turns.setdefault(fact["turn"], []).append(fact["prompt"])

    def _on_prompt_withdrawn(self, fact: dict[str, Any]) -> None:
        self._settle(fact["prompt"], {"outcome": "withdrawn", "problem": {"message": fact["reason"]}})

    def _on_turn_started(self, fact: dict[str, Any]) -> None:
        self.turn = fact["turn"]
        self._turns.setdefault(fact["turn"], []).append(fact["prompt"])

    def _on_turn_ended(self, fact: dict[str, Any]) -> None:
        self.turn = None
        for prompt in self._turns.pop(fact["turn"], ()):
            self._settle(prompt, fact)

    def _settle(self, prompt: str, outcome: dict[str, Any]) -> None:
        key = self._prompts.pop(prompt, None)
        if key is not None:
            self.outcomes[key] = outcome

    def _on_settings_changed(self, fact: dict[str, Any]) -> None:
        for name, value in fact["changes"].items():
            if value is None:
                self.settings.pop(name, None)
            else:
                self.settings[name] = value

    def _on_session_closed(self, _: dict[str, Any]) -> None:
        self.over = self.over or "the session is closed"

    def _on_step_started(self, fact: dict[str, Any]) -> None:
        """What really runs, where the settings name nothing."""
        self.row = {**self.row, **{name: fact[name] for name in ("provider", "model") if fact.get(name)}}

    def _on_decision_opened(self, fact: dict[str, Any]) -> None:
        self.decisions.open(fact)

    def _on_decision_revised(self, fact: dict[str, Any]) -> None:
        self.decisions.revise(fact)

    def _on_decision_resolved(self, fact: dict[str, Any]) -> None:
        asked = self._asked is not None and self._asked[0] == fact["decision"]
        decision, mine = self.decisions.resolve(fact["decision"])
        if decision is None:
            return
        said = described_answer(fact, decision)
        if mine and fact["outcome"] == "answered":
            self._show([[("good", f"  → {said}")]])
        elif fact["outcome"] == "answered":
            who = clean(f" (by {fact['by']} via {fact.get('via')})") if fact.get("by") else ""
            self._show([[("dim", f"· answered elsewhere: {said}{who}")]])
        elif asked:
            self._show([[("dim", f"· no longer asked: {said}")]])

    def _ask(self) -> None:
        """Show the decision that is to be asked, if it is another one than before, or more is known of it."""
        decision = self.asking
        if decision is None:
            return
        lines = describe(decision)
        asked = (decision["decision"], repr(lines))
        if asked != self._asked:
            self._asked = asked
            self._show(self.view.settle() + lines)


def recalled(facts: list[dict[str, Any]]) -> list[Line]:
    """The last prompt among these facts, and what was answered to it."""
    prompts = [at for at, fact in enumerate(facts) if fact["type"] == "prompt.submitted"]
    if not prompts:
        return []
    last = facts[prompts[-1] :]
    view = View()
    lines = prompt_lines(last[0]["text"])
    for fact in last:
        if fact["type"] in ("message.added", "todos.changed") and fact.get("role") in (None, "assistant"):
            lines += view.take(fact)
    return lines
