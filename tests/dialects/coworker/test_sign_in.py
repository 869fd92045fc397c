"""Keys and signing in over a link: what is said, in which order, and that no key or code is in any of it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.native.providers.keys import KeyStore
from dragoman.dialects.coworker import client_messages as ask
from dragoman.dialects.coworker.providers import method_ids
from dragoman.dialects.coworker.sign_in import ProviderRequests
from tests.agents.native.delegates.codex_rig import Script
from tests.agents.native.providers.web import web
from tests.hub.rig import until

from .exchanges import lines
from .machine import CLAUDE, CODEX, SECRET, Machine, standing, types, without_times

KEY, OAUTH = "api_key", "oauth_cli"
CODE = "one-time-code-4711"
RUNNING = {
    "type": "error",
    "sessionId": "s",
    "message": "Connection flow already running",
    "code": "busy",
    "source": "session",
}
WENT_WELL = ["provider_auth_result", "provider_status", "provider_catalog"]


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    async with Machine(tmp_path) as made:
        yield made


def callback(provider: str, method: str = OAUTH, code: str | None = None) -> ask.ProviderAuthCallback:
    return ask.ProviderAuthCallback(provider=provider, method_id=method, code=code)


def set_key(provider: str, key: str, method: str = KEY) -> ask.ProviderAuthSetApiKey:
    return ask.ProviderAuthSetApiKey(provider=provider, method_id=method, api_key=key)


def authorize(provider: str, method: str = OAUTH) -> ask.ProviderAuthAuthorize:
    return ask.ProviderAuthAuthorize(provider=provider, method_id=method)


def signs_in_when_told(machine: Machine) -> None:
    """Codex whose sign-in lasts until ``go`` is there; ``runs`` says that it began."""
    machine.program("codex", f"touch {machine.folder}/runs; while [ ! -e {machine.folder}/go ]; do sleep 0.01; done")


# At a link's start


async def test_a_new_link_is_shown_methods_at_once_then_catalog_and_status(machine: Machine) -> None:
    for name in ("codex", "claude"):
        machine.program(name, f"touch {machine.folder}/ran")
    link = machine.link(machine.directory())
    link.show_methods()
    assert types(machine.said) == ["provider_auth_methods"]
    await link.greet()
    assert types(machine.take()) == ["provider_auth_methods", "provider_catalog", "provider_status"]
    assert not (machine.folder / "ran").exists()


# Authorize


@pytest.mark.parametrize(
    ("provider", "challenge"),
    [
        (
            CODEX,
            {"method": "auto", "instructions": "Run Codex CLI sign-in, then continue.", "command": "codex login"},
        ),
        (
            CLAUDE,
            {
                "method": "auto",
                "instructions": "Run Claude Code sign-in in a terminal, then continue.",
                "command": "claude setup-token",
            },
        ),
    ],
    ids=[CODEX, CLAUDE],
)
async def test_a_challenge_says_what_the_person_is_to_do(
    machine: Machine, provider: str, challenge: dict[str, str]
) -> None:
    await machine.link(machine.directory()).authorize(authorize(provider))
    assert machine.said == [
        {
            "type": "provider_auth_challenge",
            "sessionId": "s",
            "provider": provider,
            "methodId": OAUTH,
            "challenge": challenge,
        }
    ]
    assert not machine.keys.exists()


async def test_a_key_has_no_challenge(machine: Machine) -> None:
    await machine.link(machine.directory()).authorize(authorize("openai", KEY))
    assert machine.said == [
        {
            "type": "error",
            "sessionId": "s",
            "message": 'Auth method "api_key" does not support authorization.',
            "code": "provider_error",
            "source": "provider",
        }
    ]


# Callback


async def test_a_sign_in_is_told_line_by_line_then_how_all_stand(machine: Machine) -> None:
    script = Script(machine.folder / "codex")
    account = {"type": "chatgpt", "email": "a@example.com", "planType": "plus"}
    script.does(results={"account/read": {"account": account, "requiresOpenaiAuth": True}})
    machine.program("codex", f'[ "$1" = login ] || exec {script.program} "$@"; echo "Open https://auth.test/x"')
    link = machine.link(machine.directory())
    await link.callback(callback(CODEX))
    said = machine.take()
    assert types(said) == ["log", "log", *WENT_WELL]
    assert [line["line"] for line in said[:2]] == [
        "[connect codex-cli] [auth] running: codex login",
        "[connect codex-cli] [auth] Open https://auth.test/x",
    ]
    result = {"provider": CODEX, "methodId": OAUTH, "ok": True, "mode": "oauth", "message": "OAuth sign-in completed."}
    assert said[2] == {"type": "provider_auth_result", "sessionId": "s", **result}
    codex = standing(said[3])[CODEX]
    assert (codex["verified"], codex["account"]) == (True, {"email": "a@example.com"})
    assert said[4]["connected"] == [CODEX]


async def test_credentials_that_are_there_are_enough(machine: Machine) -> None:
    machine.codex_signs_in()
    await machine.link(machine.directory()).callback(callback(CODEX))
    said = machine.take()
    assert types(said) == WENT_WELL
    assert said[0]["message"] == "Existing OAuth credentials detected."
    assert SECRET not in json.dumps(said)


async def test_one_that_failed_is_a_result_without_a_mode_and_nothing_follows(machine: Machine) -> None:
    machine.program("codex", "exit 3")
    await machine.link(machine.directory()).callback(callback(CODEX))
    said = machine.take()
    assert types(said) == ["log", "provider_auth_result"]
    assert said[1] == {
        "type": "provider_auth_result",
        "sessionId": "s",
        "provider": CODEX,
        "methodId": OAUTH,
        "ok": False,
        "message": "OAuth sign-in failed: codex login exited with code 3.",
    }


async def test_a_pending_one_is_connected_and_not_authorized(machine: Machine) -> None:
    link = machine.link(machine.directory())
    await link.callback(callback(CLAUDE))
    result, status, catalog = machine.take()
    assert (result["ok"], result["mode"]) == (True, "oauth_pending")
    claude = standing(status)[CLAUDE]
    assert (claude["mode"], claude["authorized"]) == ("oauth_pending", False)
    assert catalog["connected"] == [CLAUDE]


async def test_the_wrong_kind_of_method_is_a_result_and_no_error(machine: Machine) -> None:
    link = machine.link(machine.directory())
    await link.callback(callback("openai", KEY))
    await link.set_api_key(set_key(CODEX, SECRET, OAUTH))
    first, second = machine.take()
    assert (first["ok"], first["message"]) == (False, 'Method "api_key" is not an OAuth method.')
    assert (second["ok"], second["message"]) == (False, 'Method "oauth_cli" is not an API key method.')
    assert {"mode"}.isdisjoint({*first, *second})
    assert not machine.keys.exists()


async def test_a_code_is_in_nothing_that_is_said_or_kept(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    machine.program("codex", "exit 0")
    link = machine.link(machine.directory())
    await link.callback(callback(CODEX, code=f" {CODE} "))
    await link.refresh()
    assert CODE not in json.dumps(machine.take()) + caplog.text + machine.keys.read_text()


# Keys


async def test_a_key_is_kept_trimmed_then_told_how_all_stand(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with web({}) as site:
        machine.environment["OPENAI_BASE_URL"] = f"{site.url}/v1"
        link = machine.link(machine.directory())
        await link.set_api_key(set_key("openai", f"\ufeff  {SECRET}\u00a0\n"))
        assert site.paths == []
    said = machine.take()
    assert types(said) == WENT_WELL
    result = {"provider": "openai", "methodId": KEY, "ok": True, "mode": "api_key", "message": "Provider key saved."}
    assert said[0] == {"type": "provider_auth_result", "sessionId": "s", **result}
    openai = standing(said[1])["openai"]
    assert (openai["authorized"], openai["verified"], openai["message"]) == (True, False, "API key saved.")
    assert said[2]["connected"] == ["openai"]
    assert KeyStore(machine.keys).get("openai") == SECRET
    assert SECRET not in json.dumps(said) + caplog.text


@pytest.mark.parametrize("key", ["a b", "k\u00e4y", "x" * 5000, "a\nb", "a\x00b"], ids=ascii)
async def test_what_cannot_be_a_key_is_an_error_that_does_not_repeat_it(machine: Machine, key: str) -> None:
    await machine.link(machine.directory()).set_api_key(set_key("openai", key + SECRET))
    [said] = machine.take()
    assert (said["type"], said["code"], said["source"]) == ("error", "provider_error", "provider")
    assert said["message"].startswith("Setting provider API key failed: ")
    assert SECRET not in json.dumps(said)
    assert not machine.keys.exists()


async def test_a_disk_that_does_not_take_it_is_an_error(machine: Machine) -> None:
    machine.keys.parent.write_text("a file where the folder should be")
    link = machine.link(machine.directory())
    await link.set_api_key(set_key("openai", SECRET))
    await link.callback(callback(CLAUDE))
    first, second = machine.take()
    assert first["message"].startswith("Setting provider API key failed: ")
    assert second["message"].startswith("Provider auth callback failed: ")
    assert (second["code"], second["source"]) == ("provider_error", "provider")
    # Neither is in the way of the next.
    machine.keys.parent.unlink()
    await link.set_api_key(set_key("openai", SECRET))
    assert types(machine.take()) == WENT_WELL


# One at a time


async def test_a_flow_is_in_the_way_of_a_second_until_all_is_said(machine: Machine) -> None:
    signs_in_when_told(machine)
    link = machine.link(machine.directory())
    first = asyncio.create_task(link.callback(callback(CODEX)))
    await until((machine.folder / "runs").exists)
    machine.take()
    await link.callback(callback(CLAUDE))
    await link.set_api_key(set_key("openai", SECRET))
    assert machine.take() == [RUNNING, RUNNING]
    assert not machine.keys.exists()
    (machine.folder / "go").touch()
    await first
    assert types(machine.take()) == WENT_WELL
    await link.set_api_key(set_key("openai", SECRET))
    assert types(machine.take()) == WENT_WELL


async def test_the_same_sign_in_of_another_link_is_in_the_way_too(machine: Machine) -> None:
    signs_in_when_told(machine)
    directory = machine.directory()
    first = asyncio.create_task(machine.link(directory).callback(callback(CODEX)))
    await until((machine.folder / "runs").exists)
    machine.take()
    other = machine.link(directory)
    await other.callback(callback(CODEX))
    assert machine.take() == [RUNNING]
    await other.set_api_key(set_key("openai", SECRET))
    assert types(machine.take()) == WENT_WELL
    (machine.folder / "go").touch()
    await first


async def test_who_is_broken_off_is_in_nobodys_way(machine: Machine) -> None:
    signs_in_when_told(machine)
    link = machine.link(machine.directory())
    flow = asyncio.create_task(link.callback(callback(CODEX)))
    await until((machine.folder / "runs").exists)
    flow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flow
    machine.take()
    await link.set_api_key(set_key("openai", SECRET))
    assert types(machine.take()) == WENT_WELL


# How they stand


async def test_refreshing_asks_programs_and_no_provider_whether_it_takes_a_key(machine: Machine) -> None:
    async with web({}) as site:
        machine.environment["ANTHROPIC_BASE_URL"] = site.url
        machine.program("claude", f"touch {machine.folder}/ran; echo '{{\"loggedIn\": false}}'")
        directory = machine.directory()
        await directory.set_key("anthropic", SECRET)
        await machine.link(directory).refresh()
        assert site.paths == []
    assert (machine.folder / "ran").exists()
    [status] = machine.take()
    assert standing(status)[CLAUDE]["message"].startswith("Not authorized. Run claude setup-token.")
    assert standing(status)["anthropic"]["message"] == "API key saved."


async def test_a_second_refresh_while_one_runs_is_dropped_and_a_later_one_is_not(machine: Machine) -> None:
    machine.program("claude", f"touch {machine.folder}/runs; while [ ! -e {machine.folder}/go ]; do sleep 0.01; done")
    link = machine.link(machine.directory())
    first = asyncio.create_task(link.refresh())
    await until((machine.folder / "runs").exists)
    await link.refresh()
    assert machine.said == []
    await link.show_catalog()
    assert types(machine.take()) == ["provider_catalog"]
    (machine.folder / "go").touch()
    await first
    await link.refresh()
    assert types(machine.take()) == ["provider_status", "provider_status"]


# The original


def _scenario() -> Iterator[tuple[list[Any], list[dict[str, Any]]]]:
    """What was sent at once, and what was said until something was sent again."""
    after_start = [line for line in lines("provider") if line["dir"] in ("send", "recv")]
    while after_start[0]["dir"] == "recv":
        after_start.pop(0)
    groups = [[line["frame"] for line in group] for _, group in groupby(after_start, key=lambda line: line["dir"])]
    yield from zip(groups[::2], groups[1::2], strict=True)


async def _do(link: ProviderRequests, message: ask.ClientMessage) -> None:
    if isinstance(message, ask.ProviderAuthCallback):
        await link.callback(message)
    elif isinstance(message, ask.ProviderAuthSetApiKey):
        await link.set_api_key(message)
    elif isinstance(message, ask.ProviderAuthAuthorize):
        await link.authorize(message)
    elif isinstance(message, ask.RefreshProviderStatus):
        await link.refresh()
    elif isinstance(message, ask.ProviderCatalogGet):
        await link.show_catalog()
    else:
        assert isinstance(message, ask.ProviderAuthMethodsGet)
        link.show_methods()


async def test_the_original_says_the_same(machine: Machine) -> None:
    directory = machine.directory()
    link, methods = machine.link(directory), method_ids(directory.auth_methods())
    compared = 0
    for sent, answered in _scenario():
        session = sent[0]["sessionId"]
        asked = [ask.decode(msgspec.json.encode(frame), session, methods) for frame in sent]
        await asyncio.gather(*(_do(link, message) for message in asked))
        ours = [without_times(message, CLAUDE) for message in machine.take()]
        assert ours == [without_times(message, CLAUDE) for message in answered], sent
        compared += len(ours)
    assert compared > 15
    assert machine.keys.stat().st_mode & 0o777 == 0o600
