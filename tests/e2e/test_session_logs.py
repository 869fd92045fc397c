"""The real Claude Code and Codex, known by their session logs alone: no hooks, no terminal of ours."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.agents.hooked.settings import HookedSettings
from dragoman.hub.events import HookAnswered, MessageAdded, ToolCalled, ToolEnded
from tests.agents.hooked.watching import Heard, texts, watching

from . import clis
from .driven import Driven, ModelServer, driven
from .homes import Home, make_home
from .scenarios import CLAUDE_IDLE, CODEX_IDLE

pytestmark = pytest.mark.e2e

IDLE = {"claude": CLAUDE_IDLE, "codex": CODEX_IDLE}
LIMIT = 5.0
"""Seconds in which what no hook tells must be known."""

Make = Callable[[str], Home]


@pytest.fixture
def make(model: ModelServer, tmp_path: Path) -> Iterator[Make]:
    homes = clis.cache().parent / "homes"
    homes.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=homes, ignore_cleanup_errors=True) as folder:

        def begin(agent: str) -> Home:
            try:
                return make_home(agent, Path(folder) / "home", tmp_path / "project", model.port)
            except clis.Unavailable as missing:
                pytest.skip(str(missing))

        yield begin


async def ask(agent: Driven, text: str) -> None:
    await agent.quiet()
    await agent.submit(text)


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_a_session_that_nobody_told_us_of(make: Make, name: str) -> None:
    home, heard = make(name), Heard()
    async with watching(heard, home.path, HookedSettings()), driven(home) as agent:
        await agent.shows(IDLE[name])
        await ask(agent, "[[say:The quick answer.]]")
        await agent.until(lambda: heard.states[-1:] == ["log:idle"], "the end of the turn")
        [session] = heard.known
        assert {(told.agent, told.session, told.cwd) for told in heard.told} == {(name, session, str(home.cwd))}
        await ask(agent, "[[slow]]")
        await agent.shows("word5")
        began = time.monotonic()
        await agent.key("esc")
        await agent.until(lambda: any(told.seen.interrupted for told in heard.told), "Esc", LIMIT)
        print(f"{name}: Esc was known after {time.monotonic() - began:.2f} s")
        await ask(agent, "[[say:After the interruption.]]")
        await agent.until(lambda: "After the interruption." in texts(heard.of(MessageAdded)), "the answer")
        await agent.until(lambda: heard.states[-1:] == ["log:idle"], "the end of the turn")
    said = [fact.text for fact in heard.of(MessageAdded) if fact.role == "user"]
    assert said == ["[[say:The quick answer.]]", "[[slow]]", "[[say:After the interruption.]]"]
    if name == "codex":
        assert [fact.hook for fact in heard.of(HookAnswered)] == ["start"]


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_its_calls_have_a_begin_and_an_end(make: Make, name: str) -> None:
    home, heard = make(name), Heard()
    async with watching(heard, home.path, HookedSettings()), driven(home) as agent:
        await agent.shows(IDLE[name])
        await ask(agent, "[[esc:touch made.txt]]" if name == "codex" else "[[bash:touch made.txt]]")
        await agent.shows("Do you want to proceed|Yes, proceed")
        await agent.quiet()
        await agent.key("enter")
        await agent.until(lambda: heard.of(ToolEnded), "the call's end")
        await agent.until(lambda: heard.states[-1:] == ["log:idle"], "the end of the turn")
    [called] = heard.of(ToolCalled)
    ends = {(fact.call, fact.tool, fact.status) for fact in heard.of(ToolEnded)}
    assert (called.tool, called.input["command"]) == ("Bash", "touch made.txt")
    assert ends == {(called.call, "Bash", "ok")}
    assert (home.cwd / "made.txt").exists()


async def test_a_session_is_gone_on_with_after_a_restart(make: Make, tmp_path: Path) -> None:
    home, heard, kept = make("claude"), Heard(), tmp_path / "kept.json"
    async with driven(home) as agent:
        async with watching(heard, home.path, HookedSettings(), kept=kept):
            await agent.shows(CLAUDE_IDLE)
            await ask(agent, "[[say:One.]]")
            await agent.until(lambda: heard.states[-1:] == ["log:idle"], "the end of the turn")
        await ask(agent, "[[say:Two.]]")
        await agent.shows("● Two")
        async with watching(heard, home.path, HookedSettings(), kept=kept):
            await ask(agent, "[[say:Three.]]")
            await agent.until(lambda: "Three." in texts(heard.of(MessageAdded)), "the answer")
    said = [fact.text for fact in heard.of(MessageAdded) if fact.role == "assistant"]
    assert said == ["One.", "Two.", "Three."]
    assert len(heard.known) == 1
