"""A whole chat with a model: the scripted one, one behind HTTP, and the demonstration that needs no key.

Each has a greeting, a command that is permitted, one that is refused with words, a question, a cancelled turn, and an
end; in a real terminal, with a server of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from tests.agents.native.model_server.script import Answer, Gate, Say, Turn, pieces_of, say, use
from tests.agents.native.model_server.server import ModelServer, serving
from tests.faults.process import eventually

from .conftest import Chat


class Model(Protocol):
    """What each model is asked, so that it does the same."""

    def says(self, wish: str) -> list[str]:
        """The lines to type for ``greet``, ``permit``, ``refuse``, ``ask`` or ``wait``."""


class Scripts:
    """The scripted model: what it is to do stands in the prompt."""

    _ANSWERS = {
        "greet": ("say hello there",),
        "permit": ('call bash {"command": "touch permitted"}', "---", "say it ran"),
        "refuse": ('call bash {"command": "touch refused"}', "---", "say it did not run"),
        "ask": ('call ask {"question": "Which?", "options": ["red", "blue"]}', "---", "say thank you"),
        "wait": ("say one moment", "wait"),
    }

    def says(self, wish: str) -> list[str]:
        return ["#script", *self._ANSWERS[wish]]


class Served:
    """A model behind HTTP: it picks its script by the name in the prompt."""

    scripts: dict[str, tuple[Turn, ...]] = {
        "greet": (say("hello ", "there"),),
        "permit": (Answer((use("bash", {"command": "touch permitted"}),)), say("it ran")),
        "refuse": (Answer((use("bash", {"command": "touch refused"}),)), say("it did not run")),
        "ask": (Answer((use("ask", {"question": "Which?", "options": ["red", "blue"]}),)), say("thank you")),
        "wait": (Answer((Say((*pieces_of("one moment"), Gate("never"))),)),),
    }

    def says(self, wish: str) -> list[str]:
        return [f"[[script:{wish}]]"]


class Demonstration:
    """No model at all; it has no turn that waits, so a question that nobody answers is cancelled."""

    def says(self, wish: str) -> list[str]:
        shows = {"greet": "hello", "ask": "show a question", "wait": "show a question"}
        return [shows.get(wish, "show a permission")]


SAID = {
    "scripted": {"greet": "hello there", "permit": "it ran", "refuse": "it did not run", "ask": "thank you"},
    "served": {"greet": "hello there", "permit": "it ran", "refuse": "it did not run", "ask": "thank you"},
    "demonstration": {
        "greet": "[Offline demonstration, not a model] Hello!",
        "permit": "and it ran.",
        "refuse": "did not run.",
        "ask": "answer was:",
    },
}


@pytest.fixture(params=["scripted", "served", "demonstration"])
async def model(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[str, Model, str]]:
    """Its name in ``SAID``, how to ask it, and the settings that make it the one who answers."""
    settings = "[native]\nlocal_servers = []\n"
    async with AsyncExitStack() as running:
        if request.param == "scripted":
            yield "scripted", Scripts(), settings + '[native.providers.scripted]\napi = "scripted"\n'
        elif request.param == "served":
            server = await running.enter_async_context(serving(ModelServer()))
            server.named.update(Served.scripts)
            url = json.dumps(server.base_url("openai-chat"))
            house = f'[native.providers.house]\napi = "openai-chat"\nbase_url = {url}\nmodels = ["big"]\n'
            yield "served", Served(), settings.replace("[native]", '[native]\nprovider = "house"') + house
            assert not server.violations
        else:
            yield "demonstration", Demonstration(), settings


async def said(chat: Chat, text: str) -> None:
    """Wait until it is said: not only typed, as a script is."""

    def seen() -> bool:
        return any(text in line and f"say {text}" not in line for line in chat.window.lines())

    await eventually(seen, f"somebody says {text!r}", 15)


async def test_a_whole_chat(alone: Chat, model: tuple[str, Model, str], tmp_path: Path) -> None:
    name, asks, settings = model
    config = tmp_path / "config.toml"
    config.write_text(settings)
    folder = tmp_path / "work"
    folder.mkdir()
    keys = {variable: "" for variable in os.environ if variable.endswith("_API_KEY")}
    env = {**keys, "HOME": str(tmp_path), "DRAGOMAN_CONFIG": str(config)}
    alone.open("--cwd", str(folder), env=env)
    await alone.shows("/help says")

    alone.enter(*asks.says("greet"))
    await said(alone, SAID[name]["greet"])
    for wish, answer in (("permit", "y"), ("refuse", "rather not")):
        alone.enter(*asks.says(wish))
        await alone.shows("1-4 / [y]es")
        alone.enter(answer)
        await said(alone, SAID[name][wish])
        alone.window.tmux("clear-history")
    alone.enter(*asks.says("ask"))
    await alone.shows("or your own words")
    alone.enter("2")
    await said(alone, SAID[name]["ask"])
    alone.enter(*asks.says("wait"))
    await (alone.shows("or your own words") if name == "demonstration" else said(alone, "one moment"))
    alone.window.type("C-c")
    await alone.shows("cancelled")
    alone.enter("/exit")
    await alone.shows("left with 0")
    if name != "demonstration":
        assert (folder / "permitted").exists()
        assert not (folder / "refused").exists()


async def test_a_prompt_to_a_model_behind_http_is_answered_on_standard_output(tmp_path: Path) -> None:
    """And what the model was told is what was typed."""
    async with serving(ModelServer()) as server:
        server.script(say("forty", "-two"))
        config = tmp_path / "config.toml"
        url = json.dumps(server.base_url("openai-responses"))
        config.write_text(f'[native.providers.house]\napi = "openai-responses"\nbase_url = {url}\nmodels = ["big"]\n')
        env = {**os.environ, "DRAGOMAN_DATA": str(tmp_path / "own"), "DRAGOMAN_PORT": "0"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dragoman", "chat", "--provider", "house", "--print", "six times seven?"),
            cwd=tmp_path,
            env={**env, "DRAGOMAN_CONFIG": str(config)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, problems = await asyncio.wait_for(process.communicate(), 30)
        assert (process.returncode, out.decode()) == (0, "forty-two\n"), problems.decode()
        assert not server.violations
        (entry,) = server.journal
        assert "six times seven?" in msgspec.json.encode(entry.asked.messages).decode()
