"""Which provider a session gets, how each one stands, and what becomes of their keys."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.native.providers.catalogue import Api
from dragoman.agents.native.providers.conversation import ModelRequest
from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.providers.port import (
    Finished,
    PartClosed,
    PartGrew,
    PartOpened,
    ProviderFailed,
    Spent,
    StreamEvent,
)
from dragoman.agents.native.providers.table import Adapter
from dragoman.agents.native.settings import NativeSettings, ProviderSettings
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.providers import ProviderStatus

from .web import Web, models, web

SECRET = "sk-very-secret-0123456789"


class Speaker:
    """A provider that says one word, and knows whether it was closed."""

    def __init__(self, *, name: str, base_url: str, key: str | None, settings: NativeSettings) -> None:
        self.name, self.base_url, self.key = name, base_url, key
        self.searches = False
        self.closed = False

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        yield PartOpened("1", "text")
        yield PartGrew("1", request.model)
        yield PartClosed("1")
        yield Finished("stop")

    async def close(self) -> None:
        self.closed = True


def speaks(**more: Any) -> Adapter:
    return Adapter(lambda: Speaker, **more)


ALL: dict[Api, Adapter] = {
    "openai-responses": speaks(),
    "openai-chat": speaks(),
    "anthropic": speaks(),
    "google": speaks(),
    "demonstration": speaks(),
}

Make = Callable[..., ProviderDirectory]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    directories: list[ProviderDirectory] = []

    def made(
        environment: dict[str, str] | None = None, adapters: dict[Api, Adapter] | None = None, **settings: Any
    ) -> ProviderDirectory:
        settings = {"local_servers": (), "local_cache_seconds": 0.0, **settings}
        store = KeyStore(tmp_path / "keys" / "keys.json")
        directories.append(
            ProviderDirectory(
                NativeSettings(**settings), store, environment=environment or {}, adapters=adapters or ALL
            )
        )
        return directories[-1]

    yield made
    for directory in directories:
        await directory.close()


async def status(directory: ProviderDirectory, name: str, *, verify: bool = False) -> ProviderStatus:
    return {one.id: one for one in await directory.status(verify=verify)}[name]


async def chosen(directory: ProviderDirectory, *words: str | None) -> tuple[str, str]:
    found = await directory.choose(*words)
    return found.provider_id, found.model


# Choosing


async def test_without_any_key_or_server_it_is_the_demonstration(make: Make) -> None:
    assert await chosen(make()) == ("demonstration", "demonstration")


async def test_the_first_with_a_key_is_taken_with_its_default_model(make: Make) -> None:
    directory = make({"ANTHROPIC_API_KEY": "a", "DEEPSEEK_API_KEY": "d"})
    assert await chosen(directory) == ("anthropic", "claude-opus-4-6")
    await directory.set_key("openai", "o")
    assert await chosen(directory) == ("openai", "gpt-5.2")
    assert await chosen(directory, "  ", "") == ("openai", "gpt-5.2")
    assert await chosen(make({"GEMINI_API_KEY": "g"})) == ("google", "gemini-3-flash-preview")


async def test_a_local_server_is_taken_before_the_demonstration_and_after_any_key(make: Make) -> None:
    async with web({"/v1/models": models("llama", "other", owner="vllm")}) as site:
        name = f"vllm-{site.port}"
        assert await chosen(make(local_servers=(f"{site.url}/v1",))) == (name, "llama")
        assert await chosen(make({"XAI_API_KEY": "x"}, local_servers=(f"{site.url}/v1",))) == ("xai", "grok-4.5")
        site.replies = {"/v1/models": models(owner="vllm")}
        assert await chosen(make(local_servers=(f"{site.url}/v1",))) == ("demonstration", "demonstration")


async def test_whoever_has_a_key_never_waits_for_this_machine(make: Make) -> None:
    async with web({"/v1/models": None}) as site:
        directory = make({"OPENAI_API_KEY": "o"}, local_servers=(f"{site.url}/v1",), local_seconds=60.0)
        assert await chosen(directory) == ("openai", "gpt-5.2")
        assert await chosen(directory, None, "gpt-5.1") == ("openai", "gpt-5.1")
        assert await chosen(directory, "openai", "gpt-7") == ("openai", "gpt-7")
        assert await chosen(directory, "demonstration") == ("demonstration", "demonstration")
        with pytest.raises(ProviderFailed):
            await directory.choose("groq")
        assert site.asked == []


async def test_settings_choose_and_a_session_chooses_before_them(make: Make) -> None:
    keys = {"OPENAI_API_KEY": "o", "GOOGLE_GENERATIVE_AI_API_KEY": "g"}
    directory = make(keys, provider="openai", model="gpt-5-mini")
    assert await chosen(directory) == ("openai", "gpt-5-mini")
    assert await chosen(directory, "openai") == ("openai", "gpt-5-mini")
    assert await chosen(directory, None, "gpt-7") == ("openai", "gpt-7"), "a model that no list has is taken as it is"
    assert await chosen(directory, "google") == ("google", "gemini-3-flash-preview"), "that model is openai's"
    assert await chosen(directory, "google", "g-9") == ("google", "g-9")
    assert await chosen(make(keys, model="gpt-5.1")) == ("openai", "gpt-5.1")
    assert await chosen(make(keys, model="g-9")) == ("google", "g-9")


async def test_a_model_alone_goes_to_who_has_it(make: Make) -> None:
    directory = make({"GEMINI_API_KEY": "g", "ANTHROPIC_API_KEY": "a"})
    assert await chosen(directory, None, "claude-4-5-haiku") == ("anthropic", "claude-4-5-haiku")
    with pytest.raises(ProviderFailed, match="OpenAI has no key"):
        await directory.choose(None, "gpt-5.2")
    with pytest.raises(ProviderFailed) as refused:
        await make().choose(None, "no-such-model")
    assert refused.value.cause == "unauthorized"


async def test_an_unknown_provider_is_refused_with_the_known_ones(make: Make) -> None:
    with pytest.raises(InvalidRequest, match=r"'nobody'.*google, openai, anthropic.*demonstration"):
        await make().choose("nobody")
    with pytest.raises(InvalidRequest, match="known: google"):
        make().provider("nobody")


async def test_without_a_key_it_says_how_to_set_one(make: Make) -> None:
    directory = make()
    for ask in (directory.choose("openai"), directory.choose("mistral", "x")):
        with pytest.raises(ProviderFailed, match=r"dragoman providers key (openai|mistral).*_API_KEY") as refused:
            await ask
        assert refused.value.cause == "unauthorized"
        assert not refused.value.retryable
    with pytest.raises(ProviderFailed, match="dragoman providers key openai"):
        directory.provider("openai")


async def test_a_local_server_that_does_not_run_is_said(make: Make) -> None:
    async with web({"/v1/models": models("llama", owner="vllm")}) as site:
        directory = make(local_servers=(f"{site.url}/v1",))
        port = site.port
        assert await chosen(directory, "vllm") == (f"vllm-{port}", "llama"), "the kind alone means the one that runs"
        with pytest.raises(ProviderFailed, match="Ollama does not run") as refused:
            await directory.choose("ollama")
        assert (refused.value.cause, refused.value.retryable) == ("network", True)
        site.replies = {}
        with pytest.raises(ProviderFailed, match=str(port)):
            await directory.choose(f"vllm-{port}")
    with pytest.raises(InvalidRequest):
        await directory.choose("vllm-1")


async def test_an_adapter_that_is_not_installed_is_passed_over_or_said(make: Make) -> None:
    adapters = {**ALL, "google": speaks(needs=("no_such_module.at_all",))}
    directory = make({"GEMINI_API_KEY": "g", "XAI_API_KEY": "x"}, adapters)
    assert (await directory.choose()).provider_id == "xai"
    with pytest.raises(ProviderFailed, match=r"pip install 'dragoman\[models\]'"):
        await directory.choose("google")
    assert (await status(directory, "google")).ready is False


async def test_an_adapter_that_cannot_be_imported_is_said(make: Make) -> None:
    def broken() -> Any:
        raise ImportError("no module", name="half_installed")

    with pytest.raises(ProviderFailed, match="half_installed"):
        await make({"XAI_API_KEY": "x"}, {**ALL, "openai-chat": Adapter(broken)}).choose("xai")


async def test_what_settings_add_is_asked_for_its_models_once(make: Make) -> None:
    async with web({"/v1/models": models("big", "small")}) as site:
        own = {
            "mine": ProviderSettings(base_url="http://127.0.0.1:1/v1"),
            "here": ProviderSettings(base_url=f"{site.url}/v1"),
        }
        directory = make(providers=own)
        assert await chosen(directory) == ("here", "big")
        with pytest.raises(ProviderFailed, match="does not run"):
            await directory.choose("mine", "x")


async def test_the_models_of_a_provider_elsewhere_are_asked_for_with_its_key(make: Make) -> None:
    async with web({"/v1/models": models("big", "small")}) as site:
        # This address leads here as well, but is no loopback address: to us it is somewhere else.
        url = site.url.replace("127.0.0.1", "0.0.0.0") + "/v1"
        directory = make(
            providers={"far": ProviderSettings(base_url=url, key_env="FAR_KEY")}, environment={"FAR_KEY": "k"}
        )
        assert await chosen(directory, "far") == ("far", "big")
        (entry,) = [one for one in await directory.catalogue() if one.id == "far"]
        assert (entry.models, entry.default_model, entry.local) == (("big", "small"), "big", False)
        assert [headers["authorization"] for _, headers in site.asked] == ["Bearer k"], "it was asked once"


# Adapters


async def test_an_adapter_is_shared_until_its_key_changes_and_then_stays_open_for_who_has_it(make: Make) -> None:
    directory = make({"OPENAI_API_KEY": "env", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    found = await directory.choose("openai")
    first = found.make()
    assert isinstance(first, Speaker)
    assert (first.name, first.key, first.base_url) == ("openai", "env", "http://127.0.0.1:9/v1")
    assert found.make() is first is directory.provider("openai")
    await directory.set_key("openai", "stored")
    second = found.make()
    assert isinstance(second, Speaker)
    assert (second.key, second is first, first.closed) == ("stored", False, False)
    async with aclosing(first.stream(ModelRequest(model="m", system="", messages=()))) as events:
        assert [type(event).__name__ async for event in events][-1] == "Finished"
    await directory.forget_key("openai")
    assert directory.provider("openai") is not second
    await directory.close()
    assert (first.closed, second.closed) == (True, True)
    with pytest.raises(ProviderFailed):
        directory.provider("openai")


async def test_one_that_cannot_be_closed_keeps_no_other_open(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(Speaker):
        async def close(self) -> None:
            raise RuntimeError(SECRET)

    directory = make({"GEMINI_API_KEY": "g", "XAI_API_KEY": "x"}, {**ALL, "google": Adapter(lambda: Stuck)})
    directory.provider("google")
    other = directory.provider("xai")
    await directory.close()
    assert isinstance(other, Speaker)
    assert other.closed
    assert "RuntimeError" in caplog.text
    assert SECRET not in caplog.text


# Catalogue and status


async def test_the_catalogue_has_everyone_in_order_and_servers_with_their_models(make: Make) -> None:
    async with web({"/v1/models": models("llama")}, server="llama.cpp") as site:
        directory = make({"OLLAMA_HOST": "192.168.0.1"}, local_servers=(f"{site.url}/v1",))
        entries = {entry.id: entry for entry in await directory.catalogue()}
    assert list(entries)[:3] == ["google", "openai", "anthropic"]
    assert list(entries)[-2:] == [f"llamacpp-{site.port}", "demonstration"]
    assert entries[f"llamacpp-{site.port}"].models == ("llama",)
    assert (entries["ollama"].models, entries["ollama"].default_model, entries["ollama"].local) == ((), None, True)
    assert [name for name, entry in entries.items() if entry.demonstration] == ["demonstration"]
    assert [one.id for one in await directory.status()] == [one.id for one in await directory.catalogue()]


async def test_where_ollama_listens_by_its_own_variable_it_has_its_own_name(make: Make) -> None:
    async with web({"/v1/models": models("llama", owner="library")}) as site:
        directory = make({"OLLAMA_HOST": f"0.0.0.0:{site.port}"}, local_servers=("http://127.0.0.1:1/v1",))
        assert await chosen(directory) == ("ollama", "llama")


async def test_a_program_at_the_place_of_another_has_its_own_name(make: Make) -> None:
    async with web({"/v1/models": models("llama", owner="vllm")}) as site:
        directory = make({"OLLAMA_HOST": f"127.0.0.1:{site.port}"}, local_servers=("http://127.0.0.1:1/v1",))
        assert await chosen(directory) == (f"vllm-{site.port}", "llama")
        assert (await status(directory, "ollama")).ready is False


async def test_one_server_that_settings_give_several_names_runs_under_each(make: Make) -> None:
    async with web({"/v1/models": models("m1")}) as site:
        at = f"{site.url}/v1"
        given = {
            "words": ProviderSettings(api="openai-chat", base_url=at),
            "items": ProviderSettings(api="openai-responses", base_url=at),
        }
        directory = make(providers=given)
        assert [(await directory.choose(name)).provider_id for name in given] == list(given)
        assert [(await status(directory, name)).ready for name in given] == [True, True]


async def test_the_status_says_where_a_key_is_from_and_shows_none(make: Make) -> None:
    directory = make({"OPENAI_API_KEY": SECRET})
    await directory.set_key("google", SECRET)
    found = {one.id: one for one in await directory.status()}
    assert [
        (found[name].key, found[name].ready) for name in ("openai", "google", "groq", "ollama", "demonstration")
    ] == [
        ("environment", True),
        ("stored", True),
        ("missing", False),
        ("none_needed", False),
        ("none_needed", True),
    ]
    assert "OPENAI_API_KEY" in found["openai"].message
    assert "dragoman providers key groq" in found["groq"].message
    assert SECRET not in repr(found)
    assert not any(one.verified for one in found.values())
    assert await directory.forget_key("google") is True
    assert await directory.forget_key("google") is False
    assert (await status(directory, "google")).key == "missing"


async def test_only_what_can_have_a_key_is_given_one(make: Make) -> None:
    directory = make()
    for name in ("nobody", "demonstration"):
        with pytest.raises(InvalidRequest):
            await directory.set_key(name, "k")
        with pytest.raises(InvalidRequest):
            await directory.forget_key(name)
    with pytest.raises(InvalidRequest, match="empty"):
        await directory.set_key("openai", " ")


async def test_search_services_have_keys_too(make: Make) -> None:
    directory = make({"BRAVE_API_KEY": "env"})
    assert (directory.search_key("BRAVE_API_KEY"), directory.search_key("EXA_API_KEY")) == ("env", None)
    await directory.set_key("exa", "stored")
    assert directory.search_key("EXA_API_KEY") == "stored"
    assert await directory.forget_key("exa") is True


# Verifying


def asked_of(site: Web) -> dict[str, Any]:
    return {"environment": {"OPENAI_BASE_URL": f"{site.url}/v1", "OPENAI_API_KEY": SECRET}, "verify_seconds": 5.0}


@pytest.mark.parametrize(
    ("reply", "ready", "verified", "says"),
    [
        ((200, {"data": []}), True, True, "accepted"),
        ((401, {"error": SECRET}), False, False, "key refused"),
        ((400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}), False, False, "key refused"),
        ((400, {"error": "huh"}), True, False, "HTTP 400"),
        ((403, {}), True, False, "not verified"),
        ((429, {}), True, False, "too often"),
        ((500, SECRET), True, False, "HTTP 500"),
        ((200, "a page"), True, False, "HTTP 200"),
        (b"garbage\r\n\r\n", True, False, "not verified"),
        (b"HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", True, False, "HTTP 302"),
    ],
)
async def test_verifying_asks_with_the_key_and_never_repeats_it(
    make: Make, caplog: pytest.LogCaptureFixture, reply: Any, ready: bool, verified: bool, says: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with web({"/v1/models": reply}) as site:
            directory = make(**asked_of(site))
            found = await status(directory, "openai", verify=True)
    assert (found.ready, found.verified) == (ready, verified)
    assert says in found.message
    assert site.asked[0][1]["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in found.message + caplog.text
    later = await status(directory, "openai")
    assert (later.ready, later.verified) == (ready, verified), "what it said is remembered"
    assert len(site.asked) == 1


async def test_a_new_key_is_not_judged_by_what_was_said_of_the_old_one(make: Make) -> None:
    async with web({"/v1/models": (401, {})}) as site:
        directory = make(**asked_of(site))
        assert (await status(directory, "openai", verify=True)).ready is False
        await directory.set_key("openai", "another")
        assert (await status(directory, "openai")).ready is True


async def test_a_provider_that_does_not_answer_costs_its_limit(make: Make) -> None:
    async with web({"/v1/models": None}) as site:
        directory = make(**{**asked_of(site), "verify_seconds": 0.2})
        found = await asyncio.wait_for(status(directory, "openai", verify=True), 5)
    assert (found.ready, found.verified) == (True, False)
    assert "0.2 seconds" in found.message


async def test_one_provider_is_never_asked_twice_at_once_and_who_waits_shares_the_answer(make: Make) -> None:
    async with web({"/v1/models": (200, {})}) as site:
        site.delay = asyncio.Event()
        directory = make(**asked_of(site))
        asking = [asyncio.create_task(status(directory, "openai", verify=True)) for _ in range(5)]
        while not site.asked:
            await asyncio.sleep(0)
        site.delay.set()
        assert all(found.verified for found in await asyncio.gather(*asking))
        assert (len(site.asked), site.most_open) == (1, 1)
        await status(directory, "openai", verify=True)
        assert len(site.asked) == 2, "whoever asks later asks anew"


async def test_each_api_is_shown_the_key_in_its_own_way(make: Make) -> None:
    replies: Any = {"/v1/models?limit=1": (200, {}), "/v1beta/models?pageSize=1": (200, {}), "/key": (200, {})}
    async with web(replies) as site:
        own = {name: ProviderSettings(base_url=site.url) for name in ("google", "openrouter")}
        keys = {"ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g", "OPENROUTER_API_KEY": "o"}
        directory = make({**keys, "ANTHROPIC_BASE_URL": f"{site.url}/v1"}, providers=own)
        found = {one.id: one.verified for one in await directory.status(verify=True)}
    assert [name for name, verified in found.items() if verified] == ["google", "anthropic", "openrouter"]
    asked = dict(site.asked)
    assert asked["/v1/models?limit=1"]["x-api-key"] == "a"
    assert asked["/v1beta/models?pageSize=1"]["x-goog-api-key"] == "g"
    assert asked["/key"]["authorization"] == "Bearer o"


# What is known of models


async def test_prices_and_windows(make: Make) -> None:
    spent = Spent(input_tokens=1000, output_tokens=100)
    listed = models("llama", owner="vllm", max_model_len=8192)
    async with web({"/v1/models": listed}) as site:
        own = {"mistral": ProviderSettings(context_window=77)}
        directory = make({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, local_servers=(f"{site.url}/v1",), providers=own)
        await directory.catalogue()
        name = f"vllm-{site.port}"
        assert await directory.context_window(name, "llama") == 8192
        assert await directory.context_window(name, "other") is None
        assert await directory.cost(name, "llama", spent) is None
    assert await directory.context_window("mistral", "mistral-medium-latest") == 77
    assert await directory.context_window("anthropic", "claude-opus-4-6") == 1_000_000
    assert (await directory.cost("anthropic", "claude-opus-4-6", spent) or 0) > 0
    assert await directory.cost("openai", "gpt-5.2", spent) is None, "what stands in for it here costs something else"
    assert await directory.cost("demonstration", "demonstration", spent) is None
    assert await directory.cost("nobody", "x", spent) is None


@pytest.mark.parametrize("api", ["anthropic", "google"])
async def test_a_proxy_on_this_machine_that_lists_no_models_is_not_looked_for(make: Make, api: str) -> None:
    """Only servers with OpenAI's APIs say what they have; the others' models are what settings, or the seed, name."""
    given = ProviderSettings(api=api, base_url="http://127.0.0.1:9")
    directory = make(providers={"proxy": given, "named": msgspec.structs.replace(given, models=("m",))})
    assert (await directory.choose("proxy")).provider_id == "proxy"
    assert (await directory.choose("named")).model == "m"
