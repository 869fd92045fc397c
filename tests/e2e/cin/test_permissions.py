"""Permissions that agents ask for: answered from the dialect through the hook, or at the terminal instead."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from .house import House, Scene, submit
from .told import LIMIT, Told, can_be, history, meets

pytestmark = pytest.mark.e2e

FAST = 5.0
"""Seconds within which an answer at the terminal shows."""


async def met(scene: Scene) -> Told:
    return await meets(scene.link, scene.agent, scene.cwd)


def labels(prompt: dict[str, object]) -> list[str]:
    rows = prompt["options"]
    assert isinstance(rows, list)
    assert [row["number"] for row in rows] == [str(at) for at in range(1, len(rows) + 1)]
    return [row["label"] for row in rows]


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_an_answer_given_here_is_the_agents(house: House, agent: str) -> None:
    async with house.scene(agent) as scene:
        await scene.asks("made.txt")
        told = await met(scene)
        prompt = await told.prompt()
        assert labels(prompt)[0] == "Yes"
        assert labels(prompt)[-1] == "No"
        assert (prompt["tool"], "touch made.txt" in prompt["context"]) == ("Bash", True)
        assert (told.session["waitingFor"], told.session["currentTool"]) == ("permission", "Bash")
        await told.answer(prompt, "Yes")
        assert (await told.gone())["response"] == "1"
        await told.rests(1)
        assert scene.made("made.txt")

        await scene.asks("denied.txt")
        prompt = await told.prompt(2)
        await told.answer(prompt, "No")
        assert (await told.gone(2))["response"] == str(len(prompt["options"]))
        await told.rests(2)
        assert not scene.made("denied.txt")
        # Codex itself never tells of a call's end that it was not let make: that takes a while to be seen
        await told.event("post_tool_use", 2, limit=FAST)
        made = [(begun["toolInput"]["command"], ended["success"]) for begun, ended in told.calls()]
        assert made == [("touch made.txt", True), ("touch denied.txt", False)]

        if agent == "claude":
            await once_for_all(scene, told)
        assert len(told.resolved()) == len(told.prompts())
        await can_be(scene.link)


async def once_for_all(scene: Scene, told: Told) -> None:
    """What it is told not to ask for again it does not."""
    directive = "[[bash:python3 -c 'print(6 * 7)']]"
    await scene.says(directive)
    prompt = await told.prompt(3)
    await told.answer(prompt, "Yes, and don't ask again")
    assert (await told.gone(3))["response"] == "2"
    await told.rests(3)
    await scene.says(directive)
    await told.rests(4)
    assert [ended["success"] for _, ended in told.calls()][2:] == [True, True]
    assert len(told.prompts()) == 3


async def test_claude_is_answered_at_its_terminal(house: House) -> None:
    async with house.scene("claude") as scene:
        await scene.asks("made.txt")
        told = await met(scene)
        await told.prompt()
        await scene.dialog()
        await scene.running.key("1")
        assert "response" not in await told.gone(limit=FAST)
        await told.rests(1)
        assert scene.made("made.txt")
        for number, (name, *keys) in enumerate((("no.txt", "up", "enter"), ("esc.txt", "esc")), 2):
            await scene.asks(name)
            await told.prompt(number)
            await scene.dialog()
            await scene.running.key(*keys)
            assert "response" not in await told.gone(number, limit=FAST)
            await told.status("idle", "waiting", limit=FAST)
            await told.event("post_tool_use", number, limit=FAST)
            assert not scene.made(name)
            await scene.quiet()
            await scene.running.key("ctrl-u")
        assert [ended["success"] for _, ended in told.calls()] == [True, False, False]
        assert len(told.resolved()) == 3
        assert len(told.events("stop")) == 3, told.story()
        await can_be(scene.link)


async def test_codex_is_answered_at_its_terminal(house: House) -> None:
    """Its dialog comes only where nobody watches: while somebody does, the hook holds it up."""
    cwd = house.project()
    async with house.starts("codex", cwd) as running:
        for number, (name, *keys) in enumerate((("made.txt", "enter"), ("denied.txt", "esc")), 1):
            await submit(running, f"[[esc:touch {name}]]")
            await running.shows(f"touch {name}")
            await running.shows("Would you like to run")
            await running.quiet()
            async with house.link() as link:
                told = await meets(link, "codex", cwd)
                await told.prompt()
                await running.key(*keys)
                assert "response" not in await told.gone(limit=FAST)
                await told.status("idle", "waiting", limit=FAST)
                await told.event("post_tool_use", limit=FAST)
                assert (cwd / name).exists() == (number == 1)
                assert len(told.resolved()) == 1
                await can_be(link)
            await running.quiet()


async def test_codex_is_let_go_while_its_hook_waits(house: House) -> None:
    """By Esc, and when the last one who could have answered leaves: then it asks at its terminal."""
    async with house.scene("codex") as scene:
        await scene.asks("escaped.txt")
        told = await met(scene)
        await told.prompt()
        await scene.running.key("esc")
        assert "response" not in await told.gone(limit=FAST)
        await told.status("idle", "waiting", limit=FAST)
        await told.event("post_tool_use", limit=FAST)
        assert not scene.made("escaped.txt")
        await scene.quiet()
        await scene.asks("made.txt")
        await told.prompt(2)
        await can_be(scene.link)
        await scene.link.leave()
        await scene.dialog()
        await scene.running.key("enter")
        await scene.running.shows("All done")
        assert scene.made("made.txt")
    async with house.link() as link:
        told = await meets(link, "codex", scene.cwd)
        events = [event for event in await history(link) if event["sessionId"] == told.id]
        assert [event["success"] for event in events if event["type"] == "post_tool_use"] == [False, True]
        assert not told.prompts()
        await can_be(link)


async def test_claude_asks_for_one_after_the_other(house: House) -> None:
    """Two tools of one message, then a question answered at its terminal, then one from here."""
    async with house.scene("claude") as scene:
        await scene.says("[[par:touch one.txt|touch two.txt]]")
        told = await met(scene)
        for number, name in enumerate(("one.txt", "two.txt"), 1):
            prompt = await told.prompt(number)
            assert name in prompt["context"]
            await told.answer(prompt, "Yes")
            await told.gone(number)
        await told.rests(1)
        assert scene.made("one.txt")
        assert scene.made("two.txt")

        await scene.says("[[ask1]]")
        prompt = await told.prompt(3)
        assert (prompt["tool"], told.session["waitingFor"]) == ("AskUserQuestion", "question")
        await scene.running.shows("Proceed how")
        await scene.quiet()
        await scene.running.key("2")
        await told.gone(3, limit=FAST)
        await told.rests(2)

        await scene.says("[[ask1]]")
        prompt = await told.prompt(4)
        chosen = prompt["options"][1]["label"]
        await told.answer(prompt, chosen)
        await told.gone(4, limit=FAST)
        await told.rests(3)
        made = [(begun["tool"], ended["success"]) for begun, ended in told.calls()]
        assert made == [("Bash", True), ("Bash", True), ("AskUserQuestion", True), ("AskUserQuestion", True)]
        assert chosen in json.dumps(told.calls()[-1][1]["toolResponse"])
        assert len(told.resolved()) == 4
        await can_be(scene.link)


async def test_what_is_killed_while_it_asks_is_offline(house: House) -> None:
    await asyncio.gather(*(killed(house, agent) for agent in ("claude", "codex")))


async def killed(house: House, agent: str) -> None:
    async with house.scene(agent) as scene:
        await scene.asks("made.txt")
        told = await met(scene)
        prompt = await told.prompt()
        pid = scene.running.pty.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await told.gone(limit=FAST)
        await told.status("offline", limit=FAST)
        await told.answer(prompt, "Yes")
        await scene.link.pong()
        await told.event("post_tool_use", limit=FAST)
        assert told.session["status"] == "offline"
        assert len(told.resolved()) == 1
        assert not scene.made("made.txt")
        await can_be(scene.link)


async def test_claude_without_a_terminal_asks_whoever_watches(house: House) -> None:
    cwd = house.project()
    async with house.link() as link:
        process = await headless(house, cwd)
        told = await meets(link, "claude", cwd)
        await told.answer(await told.prompt(), "Yes")
        await told.gone()
        await ends(process)
        assert (cwd / "made.txt").exists()
        await told.status("offline", limit=FAST)
        assert [ended["success"] for _, ended in told.calls()] == [True]
        await can_be(link)


async def test_claude_without_a_terminal_is_refused_where_nobody_watches(house: House) -> None:
    cwd = house.project()
    await ends(await headless(house, cwd))
    assert not (cwd / "made.txt").exists()
    async with house.link() as link:
        told = await meets(link, "claude", cwd)
        await told.status("offline", limit=FAST)
        assert not told.prompts()
        events = [event for event in await history(link) if event["sessionId"] == told.id]
        assert [event["success"] for event in events if event["type"] == "post_tool_use"] == [False], events
        await can_be(link)


async def headless(house: House, cwd: Path) -> Process:
    """Claude with one prompt and nobody at a terminal."""
    home, pipe = house.home_of("claude", cwd), asyncio.subprocess.PIPE
    line = [*home.command, "-p", "[[bash:touch made.txt]]"]
    return await asyncio.create_subprocess_exec(
        *line, cwd=cwd, env=home.env, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )


async def ends(process: Process) -> None:
    """It ends well, and says nothing of hooks."""
    said, complaints = await asyncio.wait_for(process.communicate(), LIMIT)
    assert (process.returncode, said, complaints) == (0, b"The tool finished. All done.\n", b"")
