"""Providers in the protocol's words: which, how they stand, and which a session has when nobody says so."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.settings import ProviderSettings
from dragoman.dialects.coworker import messages as wire
from dragoman.dialects.coworker.providers import auth_methods, catalog, method_ids, preferred, status
from dragoman.hub import providers as hub
from dragoman.hub.workspace_config import WorkspaceConfig
from dragoman.services.workspace.configs import LayeredConfigs
from tests.agents.native.providers.web import models, web

from .exchanges import lines
from .machine import CLAUDE, CODEX, SECRET, Machine, standing, without_times

FIVE = ["google", "openai", "anthropic", CODEX, CLAUDE]


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    async with Machine(tmp_path) as made:
        yield made


def sent(message: wire.ServerMessage) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(wire.encode(message))
    return found


async def shown(directory: ProviderDirectory, *, verify: bool = False) -> dict[str, dict[str, Any]]:
    return standing(sent(status("s", await directory.status(verify=verify))))


async def shown_catalog(directory: ProviderDirectory) -> dict[str, Any]:
    return sent(catalog("s", await directory.catalogue(), await directory.status()))


async def config(machine: Machine, directory: ProviderDirectory, **says: str) -> WorkspaceConfig:
    """What a folder says whose ``.agent/config.json`` says this."""
    folder = machine.folder / "project"
    (folder / ".agent").mkdir(parents=True, exist_ok=True)
    (folder / ".agent" / "config.json").write_text(json.dumps(says))
    return await LayeredConfigs(machine.home, {}, directory.ids).read(folder)


# Which there are


async def test_five_providers_are_shown_in_the_protocols_order(machine: Machine) -> None:
    directory = machine.directory(providers={"mine": ProviderSettings(base_url="https://models.test/v1")})
    found = await shown_catalog(directory)
    assert [entry["id"] for entry in found["all"]] == FIVE
    assert [entry["name"] for entry in found["all"]] == ["Google", "OpenAI", "Anthropic", "Codex CLI", "Claude Code"]
    assert list(found["default"]) == FIVE
    assert all(entry["defaultModel"] == entry["models"][0] for entry in found["all"])
    assert found["connected"] == []
    methods = sent(auth_methods("s", directory.auth_methods()))["methods"]
    assert list(methods) == FIVE
    assert list(await shown(directory)) == FIVE
    assert method_ids(directory.auth_methods()) == {
        **dict.fromkeys(FIVE[:3], ("api_key",)),
        **dict.fromkeys(FIVE[3:], ("oauth_cli", "api_key")),
    }


async def test_nobody_else_is_asked_or_looked_for_on_their_behalf(machine: Machine) -> None:
    async with web({"/v1/models": models("llama")}) as site:
        directory = machine.directory(
            local_servers=(f"{site.url}/v1",), providers={"mine": ProviderSettings(base_url=f"{site.url}/other")}
        )
        assert [entry.id for entry in await directory.catalogue(among=FIVE)] == FIVE
        assert [one.id for one in await directory.status(among=FIVE, verify=True)] == FIVE
        assert [one.id for one in await directory.status(among=())] == []
        assert site.paths == []
        # Whom the catalogue lacks may run on this machine.
        assert [entry.id for entry in await directory.catalogue(among=["openai", "nobody"])] == ["openai"]
        assert "/v1/models" in site.paths


@pytest.mark.parametrize("scenario", ["connect", "provider"])
async def test_the_original_shows_the_same_to_a_new_link(machine: Machine, scenario: str) -> None:
    directory = machine.directory()
    recorded = {line["frame"]["type"]: line["frame"] for line in reversed(list(lines(scenario))) if "frame" in line}
    ours = [
        await shown_catalog(directory),
        sent(auth_methods("s", directory.auth_methods())),
        sent(status("s", await directory.status(verify=True))),
    ]
    for message in ours:
        assert without_times(message) == without_times(recorded[message["type"]])


# How they stand


async def test_who_has_nothing_is_missing_in_the_protocols_words(machine: Machine) -> None:
    found = await shown(machine.directory())
    for name, message in (
        ("google", "Not connected."),
        ("openai", "Not connected."),
        ("anthropic", "Not connected."),
        (CODEX, "Not logged in to Codex CLI. Run codex login."),
        (CLAUDE, "Not authorized. Run claude setup-token."),
    ):
        entry = found[name]
        assert (entry["authorized"], entry["verified"], entry["mode"], entry["account"]) == (
            False,
            False,
            "missing",
            None,
        )
        assert entry["message"] == message
        assert datetime.fromisoformat(entry["checkedAt"]).timestamp() == pytest.approx(time.time(), abs=60)
        assert entry["checkedAt"].endswith("Z")
        assert len(entry["checkedAt"]) == len("2026-02-09T21:37:00.000Z")


async def test_a_kept_key_connects_and_one_of_the_environment_does_not(machine: Machine) -> None:
    machine.environment["ANTHROPIC_API_KEY"] = SECRET + "e"
    directory = machine.directory()
    await directory.set_key("openai", SECRET)
    found = await shown(directory)
    assert (found["openai"]["authorized"], found["openai"]["mode"]) == (True, "api_key")
    assert (found["openai"]["verified"], found["openai"]["message"]) == (False, "API key saved.")
    assert (found["anthropic"]["authorized"], found["anthropic"]["mode"]) == (False, "missing")
    assert found["anthropic"]["message"] == "Not connected."
    catalog = await shown_catalog(directory)
    assert catalog["connected"] == ["openai"]
    assert SECRET not in json.dumps([catalog, found])


async def test_a_key_that_was_refused_is_an_error_and_says_so(machine: Machine) -> None:
    async with web({"/v1/models?limit=1": (401, {"error": SECRET})}) as site:
        directory = machine.directory(providers={"anthropic": ProviderSettings(base_url=site.url)})
        await directory.set_key("anthropic", SECRET)
        found = (await shown(directory, verify=True))["anthropic"]
        assert (found["authorized"], found["mode"]) == (False, "error")
        assert "refused" in found["message"]
        assert SECRET not in json.dumps(found)


async def test_a_key_that_was_taken_is_verified(machine: Machine) -> None:
    async with web({"/v1/models?limit=1": (200, {"data": []})}) as site:
        directory = machine.directory(providers={"anthropic": ProviderSettings(base_url=site.url)})
        await directory.set_key("anthropic", SECRET)
        found = (await shown(directory, verify=True))["anthropic"]
    assert (found["authorized"], found["verified"], found["message"]) == (True, True, "API key saved.")


async def test_a_sign_in_that_the_program_confirms_shows_whose_it_is(machine: Machine) -> None:
    said = json.dumps({"loggedIn": True, "email": "a@example.com", "orgName": "A"})
    machine.program("claude", f"echo '{said}'")
    directory = machine.directory()
    found = (await shown(directory, verify=True))[CLAUDE]
    assert (found["authorized"], found["verified"], found["mode"]) == (True, True, "oauth")
    assert found["account"] == {"email": "a@example.com", "name": "A"}
    assert found["message"] == "Verified by Claude CLI."
    machine.claude_signs_in()
    found = (await shown(directory))[CLAUDE]
    assert (found["authorized"], found["verified"], found["account"]) == (True, False, None)
    assert found["message"] == "OAuth connected."
    assert (await shown_catalog(directory))["connected"] == [CLAUDE]


async def test_a_sign_in_that_the_program_cannot_confirm_is_none_for_now(machine: Machine) -> None:
    machine.program("claude", "echo what; exit 4")
    machine.claude_signs_in()
    found = (await shown(machine.directory(), verify=True))[CLAUDE]
    assert (found["authorized"], found["verified"], found["mode"]) == (False, False, "oauth")
    assert found["message"].startswith("Not authorized. Claude CLI verify failed: ")


async def test_a_sign_in_whose_program_is_gone_is_an_error_and_says_so(machine: Machine) -> None:
    machine.codex_signs_in()
    found = (await shown(machine.directory()))[CODEX]
    assert (found["authorized"], found["mode"]) == (False, "error")
    assert "codex" in found["message"]


def entry(**more: Any) -> hub.ProviderStatus:
    given: dict[str, Any] = {"id": CODEX, "ready": True, "verified": False, "key": "missing", "checked_at": 0}
    return hub.ProviderStatus(**{**given, "message": "in its own words", **more})


@pytest.mark.parametrize(
    ("given", "mode", "authorized", "message"),
    [
        ({"mode": "oauth_pending"}, "oauth_pending", False, "Pending connection (no credentials)."),
        ({"mode": "oauth"}, "oauth", True, "OAuth connected."),
        ({"mode": "oauth", "message": "Verified via OIDC userinfo."}, "oauth", True, "Verified via OIDC userinfo."),
        ({"mode": "oauth", "ready": False}, "error", False, "in its own words"),
        ({"mode": "error", "ready": False}, "error", False, "in its own words"),
        ({"mode": "api_key", "message": "Verified by Codex CLI."}, "api_key", True, "API key saved."),
        ({"mode": "missing", "id": "openai"}, "missing", False, "Not connected."),
        ({"mode": "missing"}, "missing", False, "Not logged in to Codex CLI. Run codex login."),
        (
            {"mode": "missing", "message": "Not authorized. Codex CLI verify failed: x"},
            "missing",
            False,
            "Not logged in to Codex CLI. Run codex login.",
        ),
        ({"mode": "missing", "id": CLAUDE}, "missing", False, "Not authorized. Run claude setup-token."),
    ],
    ids=str,
)
def test_each_way_to_stand_has_the_protocols_words(
    given: dict[str, Any], mode: str, authorized: bool, message: str
) -> None:
    [found] = sent(status("s", [entry(**given)]))["providers"]
    assert (found["mode"], found["authorized"], found["message"]) == (mode, authorized, message)
    assert found["checkedAt"] == "1970-01-01T00:00:00.000Z"


# Which one a session has


async def test_nobody_named_and_nobody_connected_is_the_first(machine: Machine) -> None:
    directory = machine.directory()
    assert await preferred(directory, None) == hub.Preferred("google", "gemini-3-flash-preview")
    said = await config(machine, directory)
    assert await preferred(directory, said) == hub.Preferred("google", "gemini-3-flash-preview")
    said = await config(machine, directory, model="my-model")
    assert await preferred(directory, said) == hub.Preferred("google", "my-model")


async def test_nobody_named_is_the_first_that_has_a_key(machine: Machine) -> None:
    machine.environment["ANTHROPIC_API_KEY"] = SECRET
    machine.environment["GROQ_API_KEY"] = SECRET
    directory = machine.directory()
    assert await preferred(directory, None) == hub.Preferred("anthropic", "claude-opus-4-6")
    await directory.set_key("openai", SECRET)
    assert await preferred(directory, None) == hub.Preferred("openai", "gpt-5.2")
    said = await config(machine, directory, model="claude-4-5-haiku")
    assert await preferred(directory, said) == hub.Preferred("anthropic", "claude-4-5-haiku")


async def test_a_sign_in_counts_where_its_program_is_there(machine: Machine) -> None:
    machine.codex_signs_in()
    machine.claude_signs_in()
    directory = machine.directory()
    assert (await preferred(directory, None)).provider == "google"
    machine.program("claude", "exit 9")
    assert await preferred(directory, None) == hub.Preferred(CLAUDE, "sonnet")
    machine.program("codex", "exit 9")
    assert await preferred(directory, None) == hub.Preferred(CODEX, "gpt-5.3-codex")


async def test_the_folder_goes_before_the_server_and_the_server_before_keys(machine: Machine) -> None:
    machine.environment["OPENAI_API_KEY"] = SECRET
    directory = machine.directory(provider="anthropic", model="claude-4-5-sonnet")
    assert await preferred(directory, None) == hub.Preferred("anthropic", "claude-4-5-sonnet")
    said = await config(machine, directory, model="claude-x")
    assert await preferred(directory, said) == hub.Preferred("anthropic", "claude-x")
    said = await config(machine, directory, provider="google")
    assert await preferred(directory, said) == hub.Preferred("google", "gemini-3-flash-preview")
    said = await config(machine, directory, provider="google", model="gemini-x")
    assert await preferred(directory, said) == hub.Preferred("google", "gemini-x")
    said = await config(machine, directory, provider="anthropic")
    assert await preferred(directory, said) == hub.Preferred("anthropic", "claude-4-5-sonnet")


async def test_who_is_none_of_the_five_is_named_all_the_same(machine: Machine) -> None:
    assert await preferred(machine.directory(provider="groq"), None) == hub.Preferred("groq", "openai/gpt-oss-120b")
    assert await preferred(machine.directory(provider="vllm-8001"), None) == hub.Preferred("vllm-8001", "")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, {}),
        ({"provider": "groq"}, {}),
        ({"provider": "openai", "model": "gpt-5-mini"}, {}),
        ({"provider": "openai", "model": "gpt-5-mini"}, {"model": "m"}),
        ({"provider": "openai", "model": "gpt-5-mini"}, {"provider": "anthropic"}),
        ({"model": "gpt-5.1"}, {}),
        ({"model": "gpt-5.1"}, {"provider": "openai"}),
        ({}, {"model": "claude-4-5-haiku"}),
        ({}, {"provider": "anthropic", "model": "m"}),
    ],
    ids=str,
)
async def test_it_is_the_one_that_would_answer(
    machine: Machine, settings: dict[str, Any], says: dict[str, str]
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY"):
        machine.environment[variable] = SECRET
    directory = machine.directory(**settings)
    found = await preferred(directory, await config(machine, directory, **says))
    chosen = await directory.choose(says.get("provider"), says.get("model"))
    assert (found.provider, found.model) == (chosen.provider_id, chosen.model)


async def test_choosing_runs_no_program_and_asks_nobody(machine: Machine) -> None:
    for name in ("codex", "claude"):
        machine.program(name, f"touch {machine.folder}/ran")
    machine.codex_signs_in()
    async with web({}) as site:
        directory = machine.directory(
            local_servers=(f"{site.url}/v1",), providers={"google": ProviderSettings(base_url=site.url)}
        )
        await directory.set_key("google", SECRET)
        await preferred(directory, None)
        assert site.paths == []
    assert not (machine.folder / "ran").exists()
