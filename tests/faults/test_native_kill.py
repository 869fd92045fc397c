"""SIGKILL of the server at any point of native turns: the next prompt works, and the model is told a valid history
(invariants 1, 3, 6).
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import stat
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.errors import ClientError
from dragoman.client.hub import Event, HubClient
from tests.agents.native.model_server import ModelServer, serving
from tests.agents.native.model_server.heard import Heard
from tests.agents.native.model_server.script import Answer, Pause, Say, Think, Usage, pieces_of, say, use
from tests.agents.native.model_server.server import directed
from tests.agents.native.validity import faults
from tests.hub.checker import check_log

from .native import Watched, commands_of, gone, hub, native_server, neutral, said_by_people, typed
from .process import Served, alive, eventually

log = logging.getLogger("tests.native")

KILLS = 25
"""Each of them meets a turn in each of four sessions."""

POINTS = 50
"""Turns that were broken off, at least."""

LONGEST_LIFE = 0.6
"""Seconds from the first prompt of a life to its kill, at most."""

SUMMING_UP = "Sum up this conversation"
FULL = Usage(input=110_000)
"""More than a model's window should hold: the conversation is shortened before the next step."""

TICK = Pause(0.02)


AT_LAST = "That was asked and answered, and so all of it is done in the end."


def slowly(text: str) -> tuple[str | Pause, ...]:
    """Text that takes a while to be said."""
    return tuple(piece for word in pieces_of(text) for piece in (word, TICK) if isinstance(piece, str | Pause))


def append(folder: Path, name: str, then: str = "") -> Any:
    """A command that leaves a line when it is run, however often that is."""
    return use("bash", {"command": f"echo {name} >> {folder / 'ran'}{then}"})


def work(folder: Path, name: str) -> tuple[Answer, ...]:
    """Thoughts, words, and calls side by side."""
    calls = (
        append(folder, f"{name}-a", "; sleep 0.3"),
        append(folder, f"{name}-b"),
        use("write", {"filePath": str(folder / f"{name}.txt"), "content": name}),
    )
    thought = Answer((Think(slowly("What to do?")), Say(slowly("First this and that.")), *calls))
    more = Answer((Say(slowly("Then more.")), append(folder, f"{name}-c", "; setsid sleep 0.3 & sleep 0.2")))
    return thought, more, say(*slowly(AT_LAST))


def asks(folder: Path, name: str) -> tuple[Answer, ...]:
    """A question, and a command that needs leave."""
    question = use("ask", {"question": f"{name}?", "options": ["yes", "no"]})
    return Answer((Think(slowly("Whom to ask?")), question, append(folder, f"{name}-a"))), say(*slowly(AT_LAST))


def helpers(folder: Path, name: str) -> tuple[Answer, ...]:
    """Two sub-agents at once."""
    spawn = [use("spawnAgent", {"task": f"[[script:{name}-{it}]]", "agentType": "explore"}) for it in "xy"]
    return Answer((Say(slowly("Help me.")), *spawn)), say(*slowly(AT_LAST))


def helper(folder: Path, name: str) -> tuple[Answer, ...]:
    """What a sub-agent does."""
    return Answer((Think(slowly("Hm")), append(folder, name, "; sleep 0.2"))), say(*slowly("Found."))


def long(folder: Path, name: str) -> tuple[Answer, ...]:
    """A conversation that becomes too long in the middle of a turn."""
    first = Answer((Say(("It is long.",)), append(folder, f"{name}-a")), usage=FULL)
    return first, say(*slowly(AT_LAST))


KINDS: dict[str, tuple[Callable[[Path, str], tuple[Answer, ...]], dict[str, str]]] = {
    "work": (work, {"mode": "all", "provider": "chat"}),
    "asks": (asks, {"mode": "ask", "provider": "responses"}),
    "helpers": (helpers, {"mode": "all", "provider": "responses"}),
    "long": (long, {"mode": "all", "provider": "chat"}),
}
"""What a session is made to do again and again, and its settings."""


class Person:
    """Who uses one session: says things, answers, and knows what was acknowledged."""

    def __init__(self, kind: str, session: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.watched = Watched(session)
        self.watched.on_event = self._on_event
        self.client: HubClient
        self.sent: set[str] = set()
        self.acknowledged: dict[str, str] = {}
        """Prompt ids, by the names of what was said."""
        self.answers = True
        self.tasks: asyncio.TaskGroup

    def begin(self, client: HubClient, tasks: asyncio.TaskGroup) -> None:
        """Use this client until it is closed."""
        self.client, self.tasks = client, tasks
        self.watched.follow(client)

    def say(self, name: str, when_busy: str = "queue") -> asyncio.Task[None]:
        """Submit what asks for the script of this name."""
        return self.tasks.create_task(self._say(name, when_busy))

    async def _say(self, name: str, when_busy: str) -> None:
        self.sent.add(name)
        try:
            text = f"[[script:{name}]] {name};"
            receipt = await self.client.submit(self.watched.session, text, when_busy=when_busy, key=name)
        except (ClientError, TimeoutError):
            return  # the server is gone: it may have it or not
        self.acknowledged[name] = receipt["prompt"]

    def _on_event(self, event: Event) -> None:
        if event.fact["type"] == "decision.opened" and self.answers:
            self.tasks.create_task(self._answer(event.fact))

    async def _answer(self, opened: dict[str, Any]) -> None:
        try:
            await self.client.answer(self.watched.session, opened["decision"], option=1)
        except (ClientError, TimeoutError):
            return  # the server is gone, or the decision with its turn


class Keys:
    """A key that is written anew all the time."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.sent = self.kept = 0

    async def write(self, client: HubClient) -> None:
        """Until there is no server."""
        while True:
            self.sent += 1
            try:
                await client.set_key("openai", f"sk-{self.sent:04}")
            except (ClientError, TimeoutError):
                return
            self.kept = self.sent

    def check(self) -> None:
        """What is there is the newest that was acknowledged, or one that was under way."""
        if not self.kept and not self.file.exists():
            return  # the kill came before the first of them
        assert stat.S_IMODE(self.file.stat().st_mode) == 0o600
        number = int(json.loads(self.file.read_text())["keys"]["openai"].removeprefix("sk-"))
        assert self.kept <= number <= self.sent
        self.kept = number


class Story:
    """All lives of the server."""

    def __init__(self, served: Served, model: ModelServer, folder: Path, seed: int) -> None:
        self.served = served
        self.model = model
        self.folder = folder
        self.chance = random.Random(seed)
        self.people: list[Person] = []
        self.keys = Keys(served.folder / "data" / "keys" / "providers.json")
        self.left_running = 0

    async def make_sessions(self) -> None:
        for kind, (_, settings) in KINDS.items():
            folder = self.folder / kind
            folder.mkdir(parents=True)
            made = await self.served.asked(
                "POST", "/sessions", {"kind": "native", "cwd": str(folder), "settings": settings}
            )
            self.people.append(Person(kind, made["session"], folder))

    def script(self, name: str, turns: tuple[Answer, ...]) -> str:
        self.model.named[name] = turns
        return name

    async def life(self, number: int) -> None:
        """Use the server, and kill it at a moment that nobody chose."""
        async with hub(self.served) as client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self.keys.write(client))
            for person in self.people:
                person.answers = self.chance.random() < 0.5
                person.begin(client, tasks)
                self._busy(person, number)
            await self._moment()
            running = commands_of(*(person.watched.session for person in self.people))
            self.served.kill()
            await client.close()
        self.left_running += sum(map(alive, running))
        await self.served.start()
        await self._go_on(number, running)

    def _busy(self, person: Person, number: int) -> None:
        name = f"{person.kind}-{number}"
        make, _ = KINDS[person.kind]
        person.say(self.script(name, make(person.folder, name)))
        for side in "xy" if person.kind == "helpers" else "":
            self.script(f"{name}-{side}", helper(person.folder, f"{name}-{side}"))
        if self.chance.random() < 0.5:
            person.say(self.script(f"{name}-steer", (say("Noted."),)), "steer")
        if self.chance.random() < 0.5:
            queued = f"{name}-queued"
            once_more = Answer((append(person.folder, queued, "; sleep 0.02"),))
            person.say(self.script(queued, (once_more, say("Did that too."))))

    async def _moment(self) -> None:
        """A time, or a place in somebody's log."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + self.chance.uniform(0, LONGEST_LIFE)
        person = self.chance.choice(self.people).watched
        place = len(person.log) + self.chance.randrange(1, 60)
        if self.chance.random() < 0.5:
            latest = loop.time() + LONGEST_LIFE
        else:
            place = sys.maxsize
        await eventually(lambda: len(person.log) >= place or loop.time() > latest, "the log grows, or time passes")

    async def _go_on(self, number: int, running: list[int]) -> None:
        """After a kill: what the server left is put right, and each session goes on."""
        async with hub(self.served) as client, asyncio.TaskGroup() as tasks:
            for person in self.people:
                person.answers = True
                person.begin(client, tasks)
                await person.say(self.script(f"{person.kind}-next-{number}", (say("Still here."),)))
            for person in self.people:
                name = f"{person.kind}-next-{number}"
                end = (await person.watched.end_of(person.acknowledged[name])).fact
                assert (end["outcome"], end.get("result")) == ("completed", "Still here."), (end, self.model.violations)
                self._check_told(person, name)
            await gone(running)
            self.keys.check()
            assert self.model.violations == []

    def _check_told(self, person: Person, name: str) -> None:
        """The model was told once of everything that was acknowledged, as far as it was not summed up."""
        heard = next(entry.asked for entry in reversed(self.model.journal) if entry.script == name)
        if person.kind != "long":
            told = Counter(said_by_people(heard).split())
            assert {it: told[f"{it};"] for it in person.acknowledged} == dict.fromkeys(person.acknowledged, 1)

    async def check_logs(self) -> None:
        """Everything that was recorded, from the start."""
        interrupted: Counter[str] = Counter()
        for person in self.people:
            events = await self.served.whole_log(person.watched.session)
            check_log(typed(events), settled=True)
            seen = [(event.seq, event.fact) for event in person.watched.log]
            assert seen == [(event["seq"], event["fact"]) for event in events[: len(seen)]], "what was shown stays"
            _check_prompts(person, events)
            _check_commands(person, events)
            interrupted[person.kind] = _check_turns(events)
        log.info("%s turns were broken off, %d processes left running", interrupted, self.left_running)
        assert all(interrupted[kind] > KILLS // 4 for kind in KINDS), f"turns broken off: {interrupted}"
        assert sum(interrupted.values()) >= POINTS, f"turns broken off: {interrupted}"


def _check_prompts(person: Person, events: list[dict[str, Any]]) -> None:
    facts = [event["fact"] for event in events]
    names = Counter(fact["client_message_id"] for fact in facts if fact["type"] == "prompt.submitted")
    assert set(names.values()) == {1}
    assert set(person.acknowledged) <= set(names) <= person.sent
    taken = Counter(fact["prompt"] for fact in facts if fact["type"] in ("turn.started", "prompt.taken"))
    assert taken == Counter(fact["prompt"] for fact in facts if fact["type"] == "prompt.submitted"), "each runs once"


def _check_turns(events: list[dict[str, Any]]) -> int:
    """Each turn ended well in its server's life, or is interrupted; how many are."""
    began = {event["fact"]["turn"]: event["epoch"] for event in events if event["fact"]["type"] == "turn.started"}
    ended = [event for event in events if event["fact"]["type"] == "turn.ended"]
    assert len(ended) == len(began)
    for event in ended:
        lost = event["epoch"] != began[event["fact"]["turn"]]
        assert event["fact"]["outcome"] == ("interrupted" if lost else "completed"), event
    return sum(event["epoch"] != began[event["fact"]["turn"]] for event in ended)


def _check_commands(person: Person, events: list[dict[str, Any]]) -> None:
    """What a command did it did at most once; what is said to have ended well did it, and nothing ended otherwise."""
    file = person.folder / "ran"
    ran = Counter(file.read_text().split() if file.exists() else [])
    assert set(ran.values()) <= {1}
    inputs = {
        event["fact"]["call"]: event["fact"]["input"] for event in events if event["fact"]["type"] == "tool.called"
    }
    for event in events:
        fact = event["fact"]
        if fact["type"] == "tool.ended":
            assert fact["status"] in ("ok", "interrupted"), fact
        if fact["type"] == "tool.ended" and fact["tool"] == "bash" and fact["status"] == "ok":
            assert fact["output"]["exitCode"] == 0, f"it ran undisturbed: {fact}"
            assert ran[inputs[fact["call"]]["command"].split()[1]] == 1


def summing_up(heard: Heard) -> str | None:
    """Summaries have a script of their own; what is summed up holds other directives."""
    return "summary" if heard.system.startswith(SUMMING_UP) else directed(heard)


@pytest.mark.slow
async def test_after_any_kill_the_next_prompt_works_and_the_model_is_told_a_valid_history(tmp_path: Path) -> None:
    async with serving() as model, native_server(tmp_path / "server", model) as served:
        model.named["summary"] = (say(*slowly("They did this and that.")),)
        model.pick = summing_up
        story = Story(served, model, tmp_path / "work", seed=20)
        await served.start()
        await story.make_sessions()
        for number in range(3 * KILLS):
            if number >= KILLS and any(entry.script == "summary" for entry in model.journal):
                break  # a slow machine needs more lives before one is long enough for a conversation to be shortened
            await story.life(number)
        await story.check_logs()
        assert served.stop() == 0
        wrong = {entry.number: found for entry in model.journal if (found := faults(neutral(entry.asked)))}
        assert wrong == {}, [model.journal[number].asked.messages for number in list(wrong)[:1]]
        assert any(entry.script == "summary" for entry in model.journal), "conversations were shortened"


async def test_what_a_lost_command_left_running_is_gone_before_the_next_one_runs(tmp_path: Path) -> None:
    async with serving() as model, native_server(tmp_path / "server", model) as served:
        lost = "trap '' HUP INT TERM; setsid sleep 1000 & sleep 1000; :"
        model.named["lost"] = (Answer((use("bash", {"command": lost}),)),)
        model.named["next"] = (Answer((append(tmp_path, "next", "; sleep 0.1"),)), say("Still here."))
        await served.start()
        settings = {"mode": "all"}
        made = await served.asked("POST", "/sessions", {"kind": "native", "cwd": str(tmp_path), "settings": settings})
        watched = Watched(made["session"])
        async with hub(served) as client:
            await client.submit(watched.session, "[[script:lost]]")
            await eventually(lambda: len(commands_of(watched.session)) == 3, "the command and its children run")
            queued = await client.submit(watched.session, "[[script:next]]", when_busy="queue")
            left = commands_of(watched.session)
            served.kill()
        assert all(map(alive, left)), "nothing else ends them"
        await served.start()
        async with hub(served) as client:
            watched.follow(client)
            end = (await watched.end_of(queued["prompt"])).fact
            assert not any(map(alive, left))
        assert end["result"] == "Still here."
        assert [it.fact["outcome"] for it in watched.of("turn.ended")] == ["interrupted", "completed"]
        assert [it.fact["status"] for it in watched.of("tool.ended")] == ["interrupted", "ok"]
        assert watched.of("tool.ended")[1].fact["output"]["exitCode"] == 0, "it ran undisturbed"
        assert (tmp_path / "ran").read_text() == "next\n"
        said = "\n".join(it.fact["line"] for it in watched.of("log.written"))
        assert all(str(pid) in said for pid in left), "what was found is listed"
        assert model.violations == []
