"""The table of providers, and what settings and environment make of it."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.native.providers.catalogue import (
    DEMONSTRATION,
    REMOTE,
    CatalogueEntry,
    base_url_problem,
    catalogue,
    is_this_machine,
    ollama_url,
)
from dragoman.agents.native.providers.proxy import proxy_for
from dragoman.agents.native.settings import NativeSettings, ProviderSettings
from dragoman.hub.errors import InvalidRequest


def made(environment: dict[str, str] | None = None, **providers: ProviderSettings) -> dict[str, CatalogueEntry]:
    entries = catalogue(NativeSettings(providers=providers), environment or {})
    return {entry.id: entry for entry in entries}


def test_the_first_three_are_as_their_clients_know_them() -> None:
    first = list(made().values())[:3]
    assert [(entry.id, entry.name, entry.models) for entry in first] == [
        ("google", "Google", ("gemini-3-flash-preview", "gemini-3-pro-preview")),
        ("openai", "OpenAI", ("gpt-5.2", "gpt-5.2-codex", "gpt-5.1", "gpt-5-mini", "gpt-5.2-pro")),
        ("anthropic", "Anthropic", ("claude-opus-4-6", "claude-4-5-sonnet", "claude-4-5-haiku")),
    ]
    assert [entry.api for entry in first] == ["google", "openai-responses", "anthropic"]


def test_the_order_is_remote_then_local_then_the_demonstration() -> None:
    entries = made(mine=ProviderSettings(base_url="http://10.0.0.5:9000/v1"))
    assert list(entries) == [
        *("google", "openai", "anthropic", "codex-cli", "claude-code"),
        *("openrouter", "groq", "mistral", "xai", "deepseek"),
        "mine",
        *("ollama", "lmstudio", "vllm", "llamacpp"),
        "demonstration",
    ]
    assert all(entry.models and entry.key_env and entry.needs_key for entry in REMOTE)
    assert entries[DEMONSTRATION].demonstration
    assert "no model" in entries[DEMONSTRATION].name


def test_the_environment_moves_openai_and_anthropic() -> None:
    entries = made({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1/", "ANTHROPIC_BASE_URL": "http://127.0.0.1:8/v1"})
    assert entries["openai"].base_url == "http://127.0.0.1:9/v1"
    assert entries["anthropic"].base_url == "http://127.0.0.1:8", "both spellings of Anthropic's base are in use"
    assert entries["google"].base_url == made()["google"].base_url


def test_settings_win_over_the_environment_and_change_only_what_they_say() -> None:
    given = ProviderSettings(base_url="https://proxy.example/v1", models=("one", "two"), key_env="MY_KEY")
    entry = made({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, openai=given)["openai"]
    assert (entry.base_url, entry.models, entry.key_env) == ("https://proxy.example/v1", ("one", "two"), ("MY_KEY",))
    assert (entry.api, entry.name, entry.needs_key) == ("openai-responses", "OpenAI", True)
    assert made(openai=ProviderSettings(api="openai-chat", base_url="http://h/v1"))["openai"].api == "openai-chat"


def test_an_added_provider_needs_a_key_if_it_names_a_variable_and_is_elsewhere() -> None:
    entries = made(
        keyed=ProviderSettings(base_url="https://far.example/v1", key_env="FAR_KEY"),
        free=ProviderSettings(base_url="http://house.example/v1"),
        here=ProviderSettings(base_url="http://localhost:9/v1", key_env="HERE_KEY", context_window=9000),
        claude=ProviderSettings(api="anthropic", key_env="OTHER_KEY"),
    )
    assert [(entries[name].needs_key, entries[name].local) for name in ("keyed", "free", "here")] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert entries["here"].context_window == 9000
    assert entries["claude"].models == entries["anthropic"].models
    assert entries["claude"].base_url == entries["anthropic"].base_url


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("mine", ProviderSettings(), "base_url"),
        ("mine", ProviderSettings(api="smoke", base_url="http://h"), "smoke"),
        ("mine", ProviderSettings(api="demonstration", base_url="http://h"), "none of"),
        ("mine", ProviderSettings(base_url="ftp://h"), "http://HOST"),
        ("mine", ProviderSettings(base_url="http://"), "http://HOST"),
        ("mine", ProviderSettings(base_url="http://h:99999"), "no URL"),
        ("mine", ProviderSettings(base_url="http://me:hunter2@h/"), "password"),
        ("mine", ProviderSettings(base_url="http://h/v1?key=hunter2"), "path"),
        ("My Own", ProviderSettings(base_url="http://h"), "small letters"),
        ("brave", ProviderSettings(base_url="http://h"), "brave"),
        ("demonstration", ProviderSettings(base_url="http://h"), "cannot be changed"),
    ],
)
def test_settings_that_cannot_be_are_named(name: str, given: ProviderSettings, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says) as refused:
        catalogue(NativeSettings(providers={name: given}), {})
    assert name in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_wrong_address_in_the_environment_is_left_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        entry = made({"OPENAI_BASE_URL": "me:hunter2@nowhere"})["openai"]
    assert entry == made()["openai"]
    assert "OPENAI_BASE_URL" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("", None),
        ("127.0.0.1", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:9999", "http://127.0.0.1:9999/v1"),
        (":9999", "http://127.0.0.1:9999/v1"),
        ("localhost:9999/", "http://localhost:9999/v1"),
        ("http://127.0.0.1:9999", "http://127.0.0.1:9999/v1"),
        ("http://127.0.0.1", "http://127.0.0.1:80/v1"),
        ('"[::1]:9999"', "http://[::1]:9999/v1"),
        ("[::]", "http://[::1]:11434/v1"),
        ("192.168.1.7:11434", None),
        ("ollama.example", None),
        ("127.0.0.1:99999", None),
        ("[", None),
    ],
)
def test_ollama_is_where_its_own_variable_says_if_that_is_here(given: str, url: str | None) -> None:
    assert ollama_url({"OLLAMA_HOST": given}) == url


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://api.example/v1", "http://proxy.example:3128"),
        ("https://inside.example/v1", None),
        ("http://plain.example/v1", None),
        ("http://127.0.0.1:1/v1", None),
        ("https://me.localhost/v1", None),
        ("https://[::1]/v1", None),
    ],
)
def test_a_proxy_is_for_what_is_not_here(url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert proxy_for(url) == proxy


HOSTS = st.text(alphabet="0123456789abcdef.:[]@/%#?\\ -", max_size=30) | st.text(max_size=20)


@given(HOSTS, st.sampled_from(["", "http://", "https://", "ftp://"]))
def test_no_address_raises_and_ollama_is_only_ever_on_this_machine(host: str, scheme: str) -> None:
    url = ollama_url({"OLLAMA_HOST": scheme + host})
    assert url is None or is_this_machine(url)
    if base_url_problem(scheme + host) is None:
        is_this_machine(scheme + host)
