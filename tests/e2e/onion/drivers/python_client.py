"""Somebody with ConnectOnion's Python client: commands as JSON lines on standard input, what came of them on output.

It runs with the client's own interpreter and knows nothing of this repository. Each command has a number ``n``:

``{"n", "do": "connect", "agent", "address", "relay_url", "keys"}``  a ``RemoteAgent`` of that name; ``keys`` is a seed
                                                                     (hex), null or false
``{"n", "do": "call", "agent", "name", "given", "on", "codes"}``     call a method; ``on`` names callbacks it is given
``{"n", "do": "answer", "asked", "value"}``                          what callback number ``asked`` returns
``{"n", "do": "state", "agent"}``                                    its public attributes

Answers are ``{"n", "ok"}`` or ``{"n", "raised", "text"}``; a callback says ``{"asked", "agent", "on", "event"}``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import sys
from typing import Any

OUT = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # what the client prints is no answer of ours

from connectonion import connect  # type: ignore[import-not-found]  # noqa: E402
from nacl.signing import SigningKey  # noqa: E402

agents: dict[str, Any] = {}
open_callbacks: dict[int, asyncio.Future[Any]] = {}
numbers = itertools.count(1)
tasks: set[asyncio.Task[None]] = set()


def say(**line: Any) -> None:
    """One line out."""
    OUT.write(json.dumps(line, default=str) + "\n")


def keys_of(seed: Any) -> Any:
    """A seed as the client wants its keys."""
    if not isinstance(seed, str):
        return seed
    key = SigningKey(bytes.fromhex(seed))
    return {"address": "0x" + bytes(key.verify_key).hex(), "signing_key": key}


def callback(agent: str, name: str) -> Any:
    """A callback that asks whoever drives us."""

    async def asked(event: Any) -> Any:
        number = next(numbers)
        waiting = open_callbacks[number] = asyncio.get_running_loop().create_future()
        say(asked=number, agent=agent, on=name, event=event)
        return await waiting

    return asked


def onboarding(agent: str, codes: list[str]) -> Any:
    """The callback of the trust gate, which must answer at once."""

    def asked(methods: list[str], amount: Any) -> dict[str, str]:
        say(asked=0, agent=agent, on="on_onboard", event={"methods": methods, "payment_amount": amount})
        return {"invite_code": codes.pop(0)}

    return asked


async def call(command: dict[str, Any]) -> Any:
    """Call a method; a plain one in a thread, as a program without a loop does."""
    agent = command["agent"]
    method = getattr(agents[agent], command["name"])
    given = dict(command.get("given") or {})
    given.update({name: callback(agent, name) for name in command.get("on") or ()})
    if command.get("codes"):
        given["on_onboard"] = onboarding(agent, list(command["codes"]))
    if asyncio.iscoroutinefunction(method):
        answer = await method(**given)
    else:
        answer = await asyncio.to_thread(method, **given)
    return vars(answer) if dataclasses.is_dataclass(answer) else answer


async def do(command: dict[str, Any]) -> Any:
    """Carry out one command."""
    if command["do"] == "connect":
        more = {"keys": keys_of(command["keys"]), "relay_url": command["relay_url"]}
        agents[command["agent"]] = connect(command["address"], **more)
        return None
    if command["do"] == "state":
        agent = agents[command["agent"]]
        return {"status": agent.status, "session": agent.current_session, "ui": agent.ui}
    return await call(command)


async def handle(command: dict[str, Any]) -> None:
    """The same with an answer."""
    try:
        say(n=command["n"], ok=await do(command))
    except Exception as problem:  # noqa: BLE001  whatever it is, the test is to judge it
        say(n=command["n"], raised=type(problem).__name__, text=str(problem))


async def main() -> None:
    """Until standard input ends."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        if command["do"] == "answer":
            waiting = open_callbacks.pop(command["asked"])
            waiting.get_loop().call_soon_threadsafe(waiting.set_result, command["value"])
            continue
        task = asyncio.create_task(handle(command))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main())
