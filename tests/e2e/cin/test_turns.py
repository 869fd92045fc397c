"""Turns of agents that somebody starts by themselves: every prompt, call and end is told once, and rightly."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from .house import House, submit
from .told import Told, can_be, meets

pytestmark = pytest.mark.e2e

FAST = 5.0
"""Seconds within which an interruption shows."""


def runs_in(folder: Path, program: str) -> bool:
    """Whether a program of that name runs in that folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "comm").read_text().strip() == program and (entry / "cwd").readlink() == folder:
                    return True
    return False


def commands(told: Told) -> list[tuple[str, bool]]:
    """The shell commands that were run, in the order of their beginnings, and whether they succeeded.

    Each was told as it should be: its beginning and its end name the same tool and input, and how long it took.
    """
    for begun, ended in told.calls():
        assert (begun["tool"], begun["toolInput"]) == (ended["tool"], ended["toolInput"])
        assert isinstance(ended["duration"], int)
        assert 0 <= ended["duration"] < 20_000
        assert ended["timestamp"] >= begun["timestamp"]
    return [(begun["toolInput"]["command"], ended["success"]) for begun, ended in told.calls()]


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_a_session_from_its_start_to_its_end(house: House, agent: str) -> None:
    async with house.scene(agent) as scene:
        await scene.says("[[say:The quick answer.]]")
        told = await meets(scene.link, agent, scene.cwd)
        await told.rests(1)
        assert told.kinds() == ["session_start", "user_prompt_submit", "stop"]
        start, prompt, stop = told.events()
        assert start["source"] == "startup"
        assert prompt["prompt"] == "[[say:The quick answer.]]"
        assert (stop["response"], stop["stopHookActive"]) == ("The quick answer.", False)
        name = "claudeSessionId" if agent == "claude" else "codexThreadId"
        assert told.session["agentSessionId"] == told.session[name] == stop["agentSessionId"]

        since = len(scene.link.frames)
        await scene.says("[[bash:cat missing.txt]]")
        await told.rests(2)
        assert told.statuses(since) == ["working", "waiting"], told.story()
        [(begun, ended)] = told.calls()
        assert (begun["tool"], ended["success"]) == ("Bash", False)
        assert "No such file" in str(ended["toolResponse"])

        await scene.says("[[par:echo one|echo two|cat nothing.txt]]")
        await told.rests(3)
        assert commands(told)[0] == ("cat missing.txt", False)
        assert sorted(commands(told)[1:]) == [("cat nothing.txt", False), ("echo one", True), ("echo two", True)]
        first = ["user_prompt_submit", "pre_tool_use", "post_tool_use", "stop"]
        assert told.kinds()[3:8] == [*first, "user_prompt_submit"]
        assert sorted(told.kinds()[8:]) == ["post_tool_use"] * 3 + ["pre_tool_use"] * 3 + ["stop"]

        since = len(scene.link.frames)
        await scene.says("[[error:400]]")
        failed = await told.event("notification")
        assert (failed["level"], "scripted failure" in failed["message"]) == ("error", True)
        await told.status("waiting")
        assert told.statuses(since) == ["working", "waiting"], told.story()

        await scene.quiet()
        await scene.says("/exit" if agent == "claude" else "/quit")
        await told.event("session_end")
        await told.status("offline", limit=FAST)
        await scene.running.until(lambda: scene.running.exit, "the end")
        assert told.kinds().count("session_end") == 1
        await can_be(scene.link)


async def test_gemini_from_its_start_to_its_end(house: House) -> None:
    async with house.scene("gemini") as scene:
        told = await meets(scene.link, "gemini", scene.cwd)
        await scene.says("[[say:The quick answer.]]")
        await told.rests(1)
        assert told.kinds() == ["session_start", "user_prompt_submit", "stop"]
        await scene.quiet()
        await scene.says("[[par:cat missing.txt|echo one]]")
        await told.rests(2)
        assert sorted(commands(told)) == [("cat missing.txt", False), ("echo one", True)]
        await scene.quiet()
        await scene.asks("made.txt")
        await scene.dialog()
        prompt = await told.prompt()
        assert prompt["options"] == []
        await scene.running.key("enter")
        await told.gone()
        await told.rests(3)
        assert scene.made("made.txt")
        await scene.quiet()
        await scene.asks("denied.txt")
        await scene.dialog()
        await told.prompt(2)
        await scene.running.key("esc")
        await scene.quiet()
        await scene.says("/quit")
        await told.event("session_end")
        await told.status("offline", limit=FAST)
        assert told.kinds().count("session_end") == 1
        assert len(told.resolved()) == 2
        await can_be(scene.link)


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_a_sub_agent_is_told_apart(house: House, agent: str) -> None:
    async with house.scene(agent) as scene:
        await scene.says("[[agent:bash:echo helper]]")
        told = await meets(scene.link, agent, scene.cwd)
        done = await told.event("subagent_stop")
        await told.event("stop", 2 if agent == "claude" else 1)  # Claude itself is told of it as of a prompt
        await told.rests(len(told.events("stop")))
        by = {begun["tool"]: begun.get("agent_id") for begun, _ in told.calls()}
        assert by == {"Agent" if agent == "claude" else "spawn_agent": None, "Bash": done["agent_id"]}
        assert done["status"] == "completed"
        assert [event["prompt"] for event in told.events("user_prompt_submit")] == ["[[agent:bash:echo helper]]"]
        assert len(told.events("subagent_stop")) == 1
        await can_be(scene.link)


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_esc_shows_soon(house: House, agent: str) -> None:
    async with house.scene(agent) as scene:
        await scene.says("[[say:Ready.]]")
        told = await meets(scene.link, agent, scene.cwd)
        await told.rests(1)
        await scene.says("[[slow]]")
        await told.status("working")
        await scene.running.shows("word1")
        await scene.running.key("esc")
        await told.status("idle", "waiting", limit=FAST)

        await scene.quiet()
        command = "sleep 20 && echo late"
        await scene.says(f"[[bash:{command}]]")
        await told.event("pre_tool_use")
        assert (told.session["status"], told.session["currentTool"]) == ("working", "Bash")
        await scene.running.until(lambda: runs_in(scene.cwd, "sleep"), "the tool runs")
        await scene.running.key("esc")
        ended = await told.event("post_tool_use", limit=FAST)
        await told.status("idle", "waiting", limit=FAST)
        assert (ended["success"], ended["toolInput"]["command"]) == (False, command), told.story()
        assert "currentTool" not in told.session

        await scene.quiet()
        since = len(scene.link.frames)
        await scene.says("[[say:After it.]]")
        await told.event("user_prompt_submit", 4)
        await told.until(lambda: told.events("stop")[-1].get("response") == "After it.", "the next turn's end")
        await told.status("waiting")
        assert told.statuses(since) == ["working", "waiting"], told.story()
        assert len(told.events("stop")) <= 4, told.story()
        assert not told.prompts()
        await can_be(scene.link)


async def test_claude_compacts_and_clears(house: House) -> None:
    """A compaction is no sub-agent; after it has cleared its session it is in another one."""
    async with house.scene("claude") as scene:
        await scene.says("[[say:Before.]]")
        told = await meets(scene.link, "claude", scene.cwd)
        await told.rests(1)
        await scene.quiet()
        await scene.says("/compact")
        assert (await told.event("session_start", 2))["source"] == "compact"
        await scene.quiet()
        assert not told.events("subagent_stop")

        await scene.says("/clear")
        other = await meets(scene.link, "claude", scene.cwd, known=(told.id,))
        await told.status("offline", limit=FAST)
        assert told.events("session_end")[0]["reason"] == "clear"
        await scene.quiet()
        await scene.says("[[say:After.]]")
        await other.rests(1)
        assert [event["response"] for event in other.events("stop")] == ["After."]
        assert [event["response"] for event in told.events("stop")] == ["Before."]
        await can_be(scene.link)


async def test_two_in_one_folder_are_two(house: House) -> None:
    async with house.scene("claude") as scene, house.starts("claude", scene.cwd) as second:
        await scene.says("[[say:The first.]]")
        one = await meets(scene.link, "claude", scene.cwd)
        await one.until(lambda: [it for it in scene.link.frames if "The first." in str(it)], "the first's answer")
        other = await meets(scene.link, "claude", scene.cwd, known=(one.id,))
        await submit(second, "[[say:The second.]]")
        await other.until(lambda: len([it for it in (one, other) if it.events("stop")]) == 2, "both are done")
        answers = [[event["response"] for event in told.events("stop")] for told in (one, other)]
        assert sorted(answers) == [["The first."], ["The second."]]
        assert one.session["agentSessionId"] != other.session["agentSessionId"]
        await can_be(scene.link)
