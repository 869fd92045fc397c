"""Dialogs that three answer at once: two Coop clients, differently, and a person at the keyboard."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.dialects.coop.harness import Link
from tests.fake_agent.sessions import Session, session

Json = dict[str, Any]

SPREAD = 0.25
"""Seconds within which the three answer, each at a random moment."""

GAP = 300
"""Milliseconds between an effect and the next dialog; about as long, so that some answers come between or late."""

PATIENCE = 10.0
"""Seconds after which a dialog that nobody's answer reached is taken for stuck."""


@dataclass
class Raced:
    """What came of one agent's dialogs."""

    record: list[Json] = field(default_factory=list)
    facts: list[Json] = field(default_factory=list)
    told: list[tuple[int, Json]] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)

    @property
    def effects(self) -> dict[str, list[Json]]:
        """The effects by the command that was asked about."""
        found: dict[str, list[Json]] = {}
        for entry in self.record:
            if entry.get("effect") == "permission":
                found.setdefault(entry["input"]["command"], []).append(entry)
        return found


class Racer:
    """One agent, two clients and a person."""

    def __init__(self, played: Session, one: Link, two: Link, seed: int, dialogs: int) -> None:
        self._played, self._clients = played, (one, two)
        self._random = random.Random(seed)
        self._dialogs = dialogs
        self.raced = Raced()

    async def run(self) -> Raced:
        """All dialogs; then the record and the server's own log."""
        await self._played.becomes("idle")
        await self._until_told(lambda frame: frame["next"] == "idle")
        await self._played.nudge(f"[[permissions:{self._dialogs},{GAP}]]")
        for number in range(self._dialogs):
            await self._race(number)
            if len(self.raced.stuck) > 3:
                break
        else:
            await self._played.becomes("idle")
        await asyncio.sleep(1)
        self.raced.record = self._played.record
        self.raced.facts = await asyncio.to_thread(self._facts)
        return self.raced

    def _answered(self, number: int) -> bool:
        command = f"touch race-{number}"
        return any(effect["input"]["command"] == command for effect in self._played.effects("permission"))

    async def _until_told(self, fits: Any) -> None:
        def told() -> bool:
            return any(frame["event"] == "transition" and fits(frame) for _, frame in self._played.frames[-20:])

        await self._played.until(told, "the client is told")

    async def _race(self, number: int) -> None:
        def shown() -> bool:
            prompts = [frame.get("prompt") or {} for _, frame in self._played.frames[-20:]]
            fits = [prompt for prompt in prompts if f"race-{number}" in str(prompt.get("input"))]
            return any(prompt["ready"] for prompt in fits) or self._answered(number)

        try:
            await self._played.until(shown, f"dialog {number} is told", PATIENCE)
        except AssertionError:
            self.raced.stuck.append(number)
        first, second = self._clients
        accepts = [True, False]
        self._random.shuffle(accepts)
        digit = self._random.choice("1234")
        await asyncio.gather(
            self._respond(first, accept=accepts[0], number=number),
            self._respond(second, accept=accepts[1], number=number),
            self._press(digit),
        )
        try:
            await self._played.until(lambda: self._answered(number), f"an effect of dialog {number}", PATIENCE)
        except AssertionError:
            self.raced.stuck.append(number)
            await self._played.type("1")
            await self._played.until(lambda: self._answered(number), f"an effect of dialog {number} by hand")

    async def _respond(self, link: Link, *, accept: bool, number: int) -> None:
        await asyncio.sleep(self._random.uniform(0, SPREAD))
        answer = await link.ask({"event": "respond", "accept": accept}, "respond:result")
        self.raced.told.append((number, {**answer, "accept": accept}))

    async def _press(self, digit: str) -> None:
        await asyncio.sleep(self._random.uniform(0, SPREAD))
        data = base64.b64encode(digit.encode()).decode()
        await self._played.link.send({"event": "input:raw", "data": data})

    def _facts(self) -> list[Json]:
        ask = self._played.server.http
        name = ask("GET", "/hub/sessions").json["sessions"][0]["session"]
        facts: list[Json] = []
        while page := ask("GET", f"/hub/sessions/{name}/events?after={len(facts)}&limit=500").json["events"]:
            facts += [event["fact"] for event in page]
        return facts


async def raced(folder: Path, number: int, dialogs: int) -> Raced:
    """One agent's races."""
    flags = ("--spinner", "500", "--notify-after", "60")
    async with session(folder / f"r{number}", *flags) as played, clients(played) as (one, two):
        return await Racer(played, one, two, number, dialogs).run()


@contextlib.asynccontextmanager
async def clients(played: Session) -> AsyncIterator[tuple[Link, Link]]:
    """Two clients that only answer."""
    async with played.server.link("state", label="one") as one, played.server.link("state", label="two") as two:
        yield one, two


def check(raced: Raced) -> list[str]:
    """All that is wrong with it, in words."""
    wrong = [f"stuck: {raced.stuck}"] if raced.stuck else []
    drawn = [entry["input"]["command"] for entry in raced.record if entry.get("state") == "prompt"]
    effects = raced.effects
    outcomes: dict[str, list[Json]] = {}
    asks: dict[str, str] = {}
    for fact in raced.facts:
        kind, decision = fact["type"], str(fact.get("decision"))
        if kind == "decision.opened":
            asks.setdefault(decision, "")
        if kind in ("decision.opened", "decision.revised"):
            asks[decision] = _command(fact) or asks[decision]
        elif kind == "decision.resolved":
            outcomes.setdefault(decision, []).append(fact)
    decisions = Counter(asks.values())
    counted = {command: (len(effects.get(command, [])), decisions[command]) for command in drawn}
    wrong += [f"{command}: {n} effects, {m} decisions" for command, (n, m) in counted.items() if (n, m) != (1, 1)]
    for decision, command in asks.items():
        if command not in drawn:
            wrong.append(f"a decision for no dialog: {decision} {command}")
        wrong += _outcome(command, outcomes.get(decision, []), effects.get(command, []))
    return wrong + _told(raced, outcomes)


def _command(fact: Json) -> str:
    """The command that a decision asks about, from its input or else its text."""
    found = re.search(r"touch race-\d+", f"{json.dumps(fact.get('input'))} {fact.get('text')}")
    return found.group() if found else ""


def _outcome(command: str, outcomes: list[Json], effects: list[Json]) -> list[str]:
    """What was told of a decision against what happened. Yes is the first row, No the last one or Escape.

    A decision that was answered at the terminal tells nothing that could be wrong.
    """
    if len(outcomes) != 1:
        return [f"{command}: {len(outcomes)} outcomes"]
    outcome = outcomes[0]
    if outcome.get("outcome") != "answered" or not effects:
        return []
    if outcome.get("via") == "terminal" and "answer" not in outcome:
        return []
    answer, effect = outcome.get("answer") or {}, effects[0]
    said = f"{command}: told {json.dumps(answer)}, happened {effect['result']} by {effect['by']} row {effect['row']}"
    if answer.get("option") is not None:
        return [] if answer["option"] == effect["row"] else [said]
    if answer.get("accept") is not None:
        return [] if effect["row"] in ((1,) if answer["accept"] else (4, None)) else [said]
    return [f"{command}: answered without an answer: {json.dumps(answer)}"]


def _told(raced: Raced, outcomes: dict[str, list[Json]]) -> list[str]:
    """As many answers are told delivered as decisions were answered by clients, and no more than happened."""
    answered = [end for ends in outcomes.values() for end in ends if "answer" in end]
    delivered = [answer for _, answer in raced.told if answer["delivered"]]
    wrong = [f"{len(delivered)} delivered, {len(answered)} answered"] if len(delivered) != len(answered) else []
    for result, accept in (("allowed", True), ("denied", False)):
        claims = sum(answer["accept"] is accept for answer in delivered)
        happened = sum(effect["result"] == result for effects in raced.effects.values() for effect in effects)
        if claims > happened:
            wrong.append(f"{claims} told {result}, {happened} happened")
    return wrong


async def race_all(folder: Path, agents: int, dialogs: int) -> list[Raced]:
    """All agents at once."""
    return await asyncio.gather(*(raced(folder, number, dialogs) for number in range(agents)))


def report(all_raced: list[Raced]) -> str:
    """How it went, in numbers."""
    told = Counter(bool(answer["delivered"]) for raced in all_raced for _, answer in raced.told)
    by = Counter(e["result"] for raced in all_raced for effects in raced.effects.values() for e in effects)
    return f"delivered {told[True]}, refused {told[False]}, effects {dict(by)}"
