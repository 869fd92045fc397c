"""Providers that are programs: who gets one, with which key, and what is said of one that is not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.settings import DelegateSettings, NativeSettings, ProviderSettings
from dragoman.hub.errors import InvalidRequest

OWN = "sk-ant-of-its-own-0123456789"
MAKERS = "sk-ant-of-its-maker-0123456789"

Make = Callable[..., ProviderDirectory]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A server where Claude Code is installed; ``environment`` and the settings may say otherwise."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    def made(environment: dict[str, str] | None = None, **settings: Any) -> ProviderDirectory:
        env = {"PATH": str(program.parent), "HOME": str(tmp_path), **(environment or {})}
        store = KeyStore(tmp_path / "keys" / "keys.json")
        return ProviderDirectory(NativeSettings(local_servers=(), **settings), store, environment=env)

    return made


async def test_one_that_is_named_runs_the_turn(make: Make) -> None:
    directory = make()
    chosen = await directory.choose("claude-code")
    assert (chosen.provider_id, chosen.model) == ("claude-code", "sonnet")
    assert chosen.delegate is not None
    assert chosen.delegate() is chosen.delegate()
    assert chosen.delegate().name == "claude-code"
    assert (await directory.choose("claude-code", "opus")).model == "opus"
    with pytest.raises(ProviderFailed, match="whole turns"):
        directory.provider("claude-code")


async def test_it_is_never_taken_unasked(make: Make) -> None:
    directory = make()
    assert (await directory.choose()).provider_id == "demonstration"
    with pytest.raises(ProviderFailed, match="no provider has a key"):
        await directory.choose(None, "sonnet")


async def test_settings_may_name_it_for_everybody(make: Make) -> None:
    assert (await make(provider="claude-code", model="haiku").choose()).model == "haiku"


@pytest.mark.parametrize(
    ("provider", "program", "package"),
    [("claude-code", "claude", "@anthropic-ai/claude-code"), ("codex-cli", "codex", "@openai/codex")],
)
async def test_one_that_is_not_installed_says_how_to_come_by_it(
    make: Make, provider: str, program: str, package: str
) -> None:
    directory = make({"PATH": "/nowhere"})
    with pytest.raises(ProviderFailed, match=f"npm install -g {package}"):
        await directory.choose(provider)
    status = next(status for status in await directory.status() if status.id == provider)
    assert not status.ready
    assert f"no program '{program}' along PATH" in status.message


async def test_it_is_found_where_settings_say(make: Make, tmp_path: Path) -> None:
    settings = DelegateSettings(claude=str(tmp_path / "bin" / "claude"))
    assert (await make({"PATH": "/nowhere"}, delegates=settings).choose("claude-code")).delegate is not None


async def test_the_key_that_is_kept_for_it_goes_first(make: Make, tmp_path: Path) -> None:
    directory = make({"ANTHROPIC_API_KEY": MAKERS, "CLAUDE_CODE_OAUTH_TOKEN": "a-token-of-its-own"})
    await directory.set_key("claude-code", OWN)
    assert (await directory.choose("claude-code")).find_key() == OWN
    assert OWN not in repr(await directory.choose("claude-code"))


@pytest.mark.parametrize("signed_in", [True, False])
async def test_its_makers_key_does_where_it_has_no_sign_in(make: Make, tmp_path: Path, signed_in: bool) -> None:
    if signed_in:
        (tmp_path / ".claude").mkdir()
        (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    directory = make({"ANTHROPIC_API_KEY": MAKERS})
    assert (await directory.choose("claude-code")).find_key() == (None if signed_in else MAKERS)


@pytest.mark.parametrize(
    "given", [{"api": "openai-chat"}, {"base_url": "http://127.0.0.1:1/v1"}, {"key_env": "SOME_KEY"}]
)
def test_it_knows_itself_where_it_goes(make: Make, given: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="a program knows itself"):
        make(providers={"claude-code": ProviderSettings(**given)})


async def test_its_models_may_be_others(make: Make) -> None:
    directory = make(providers={"claude-code": ProviderSettings(models=("opus[1m]",))})
    assert (await directory.choose("claude-code")).model == "opus[1m]"


def test_no_other_provider_can_be_one(make: Make) -> None:
    with pytest.raises(InvalidRequest, match="is none of"):
        make(providers={"mine": ProviderSettings(api="program", base_url="http://127.0.0.1:1")})
