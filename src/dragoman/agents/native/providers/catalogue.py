"""The table of providers: what they are called, which API they speak and where, their models, where their keys may be.

Order counts: the first one with a key is taken where nobody chose.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Mapping
from typing import Literal, get_args
from urllib.parse import urlsplit

import msgspec

from dragoman.agents.native.settings import NativeSettings, ProviderSettings
from dragoman.hub.errors import InvalidRequest

log = logging.getLogger("dragoman.providers")

Api = Literal["openai-responses", "openai-chat", "anthropic", "google", "scripted", "demonstration", "program"]

DEMONSTRATION = "demonstration"
"""The provider that is no model: offline, and says so."""

PROGRAM: Literal["program"] = "program"
"""The API of those that are reached through a program of their own, which runs the whole turn."""

_NOT_TO_CHOOSE = (DEMONSTRATION, PROGRAM)
"""APIs that settings cannot name: nobody else speaks them."""

SEARCH_SERVICES: dict[str, str] = {"brave": "BRAVE_API_KEY", "exa": "EXA_API_KEY"}
"""Services that the web search tool may use: no providers, but their keys are kept in the same place."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


class CatalogueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One provider. ``models`` has the default first and is empty where the server has to be asked.

    ``local`` runs on this machine: it has to be there, and needs no key. ``check_path`` is what is asked of it to learn
    whether a key is taken. ``price_id`` is its name in the price list.
    """

    id: str
    name: str
    api: Api
    base_url: str = ""
    models: tuple[str, ...] = ()
    key_env: tuple[str, ...] = ()
    needs_key: bool = True
    local: bool = False
    context_window: int = 0
    check_path: str = "/models"
    price_id: str | None = None

    @property
    def demonstration(self) -> bool:
        """Whether it is no model at all."""
        return self.api == DEMONSTRATION

    @property
    def delegate(self) -> bool:
        """Whether a program of this machine runs its turns, with tools of its own."""
        return self.api == PROGRAM


def _remote(id_: str, name: str, base_url: str, models: tuple[str, ...], *env: str, **more: str) -> CatalogueEntry:
    fields: dict[str, str] = {"api": "openai-chat", "price_id": id_, **more}
    entry = {"id": id_, "name": name, "base_url": base_url, "models": models, "key_env": env, **fields}
    return msgspec.convert(entry, CatalogueEntry)


def _program(id_: str, name: str, models: tuple[str, ...]) -> CatalogueEntry:
    """One that signs in by itself: a key is used where one is kept for it."""
    return CatalogueEntry(id=id_, name=name, api=PROGRAM, models=models, needs_key=False)


def _local(id_: str, name: str, port: int) -> CatalogueEntry:
    base_url = f"http://127.0.0.1:{port}/v1"
    return CatalogueEntry(id=id_, name=name, api="openai-chat", base_url=base_url, needs_key=False, local=True)


REMOTE: tuple[CatalogueEntry, ...] = (
    _remote(
        "google",
        "Google",
        "https://generativelanguage.googleapis.com",
        ("gemini-3-flash-preview", "gemini-3-pro-preview"),
        "GOOGLE_GENERATIVE_AI_API_KEY",
        "GEMINI_API_KEY",
        api="google",
        check_path="/v1beta/models?pageSize=1",
    ),
    _remote(
        "openai",
        "OpenAI",
        "https://api.openai.com/v1",
        ("gpt-5.2", "gpt-5.2-codex", "gpt-5.1", "gpt-5-mini", "gpt-5.2-pro"),
        "OPENAI_API_KEY",
        api="openai-responses",
    ),
    _remote(
        "anthropic",
        "Anthropic",
        "https://api.anthropic.com",
        ("claude-opus-4-6", "claude-4-5-sonnet", "claude-4-5-haiku"),
        "ANTHROPIC_API_KEY",
        api="anthropic",
        check_path="/v1/models?limit=1",
    ),
    _remote(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        ("openrouter/auto", "anthropic/claude-opus-4.6", "openai/gpt-5.2", "google/gemini-3-flash-preview"),
        "OPENROUTER_API_KEY",
        check_path="/key",  # its list of models is open to everybody
    ),
    _remote(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        ("openai/gpt-oss-120b", "openai/gpt-oss-20b", "qwen/qwen3-32b"),
        "GROQ_API_KEY",
    ),
    _remote(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        ("mistral-medium-latest", "mistral-large-latest", "mistral-small-latest"),
        "MISTRAL_API_KEY",
    ),
    _remote(
        "xai",
        "xAI",
        "https://api.x.ai/v1",
        ("grok-4.5", "grok-4.3", "grok-code-fast-1"),
        "XAI_API_KEY",
        price_id="x-ai",
    ),
    _remote(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        ("deepseek-chat", "deepseek-reasoner"),
        "DEEPSEEK_API_KEY",
    ),
)
"""What is reached over the internet, with a key."""

_VENDORS = 3
"""The first so many of them made the APIs that others speak too."""

PROGRAMS: tuple[CatalogueEntry, ...] = (
    _program("codex-cli", "Codex CLI", ("gpt-5.3-codex", "gpt-5.2-codex", "gpt-5.2")),
    _program("claude-code", "Claude Code", ("sonnet", "opus", "haiku")),
)
"""What is reached by a program of this machine, which runs whole turns."""

LOCAL: tuple[CatalogueEntry, ...] = (
    _local("ollama", "Ollama", 11434),
    _local("lmstudio", "LM Studio", 1234),
    _local("vllm", "vLLM", 8000),
    _local("llamacpp", "llama.cpp", 8080),
)
"""What may run on this machine, each at its usual port."""

LAST = CatalogueEntry(
    id=DEMONSTRATION,
    name="Demonstration (no model: scripted answers, offline)",
    api="demonstration",
    models=("demonstration",),
    needs_key=False,
)
"""Always there, so that a first try needs no account."""

_BASE_URL_ENV = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}


def catalogue(settings: NativeSettings, environment: Mapping[str, str]) -> tuple[CatalogueEntry, ...]:
    """Every provider: the built-in ones as settings and environment change them, what settings add, local servers,
    the demonstration. Raises ``InvalidRequest`` for settings that cannot be."""
    own = dict(settings.providers)
    if DEMONSTRATION in own:
        raise InvalidRequest(f"native.providers.{DEMONSTRATION}: this one cannot be changed")
    built_in = [_changed(_moved(entry, environment), own.pop(entry.id, None)) for entry in REMOTE]
    local = [_changed(_moved_here(entry, environment), own.pop(entry.id, None)) for entry in LOCAL]
    programs = [_changed(entry, own.pop(entry.id, None)) for entry in PROGRAMS]
    added = [_added(name, given) for name, given in own.items()]
    return (*built_in[:_VENDORS], *programs, *built_in[_VENDORS:], *added, *local, LAST)


def is_this_machine(url: str) -> bool:
    """Whether a URL leads to a loopback address, by number or as ``localhost``."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def base_url_problem(url: str) -> str | None:
    """What is wrong with a base URL, or None."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "it is no URL"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "it must be http://HOST or https://HOST"
    if parts.username is not None or parts.password is not None:
        return "it must hold no user name or password"
    if parts.query or parts.fragment:
        return "it must end with its path"
    return None


def ollama_url(environment: Mapping[str, str]) -> str | None:
    """Where OLLAMA_HOST says that Ollama listens, if that is on this machine. Its own forms: ``HOST``, ``HOST:PORT``,
    ``:PORT``, a URL. An address that stands for all is this machine's too."""
    given = environment.get("OLLAMA_HOST", "").strip().strip("\"'")
    if not given:
        return None
    scheme, mark, rest = given.rpartition("://")
    scheme = scheme if mark else "http"
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        port = parts.port or (443 if scheme == "https" else 80 if mark else 11434)
    except ValueError:
        return None
    host = parts.hostname or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  what it binds, not what we do
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{parts.path.rstrip('/')}/v1"
    return url if is_this_machine(url) else None


def _moved(entry: CatalogueEntry, environment: Mapping[str, str]) -> CatalogueEntry:
    """With the base URL that the environment gives."""
    variable = _BASE_URL_ENV.get(entry.id)
    given = environment.get(variable, "").strip() if variable is not None else ""
    if not given:
        return entry
    problem = base_url_problem(given)
    if problem is not None:
        log.warning("%s is not used: %s", variable, problem)
        return entry
    return msgspec.structs.replace(entry, base_url=_trimmed(entry.api, given))


def _moved_here(entry: CatalogueEntry, environment: Mapping[str, str]) -> CatalogueEntry:
    url = ollama_url(environment) if entry.id == "ollama" else None
    return entry if url is None else msgspec.structs.replace(entry, base_url=url)


def _changed(entry: CatalogueEntry, given: ProviderSettings | None) -> CatalogueEntry:
    """A built-in one as ``[native.providers.NAME]`` has it: only what is given there."""
    if given is None:
        return entry
    if entry.delegate and (given.api or given.base_url or given.key_env):
        raise InvalidRequest(f"native.providers.{entry.id}: a program knows itself where it goes, and with which key")
    api = _api(entry.id, given) if given.api else entry.api
    url = _base_url(entry.id, api, given) if given.base_url or api != entry.api else entry.base_url
    return msgspec.structs.replace(
        entry,
        api=api,
        name=given.name or entry.name,
        base_url=url,
        models=given.models or entry.models,
        key_env=(given.key_env,) if given.key_env else entry.key_env,
        local=entry.local and _can_be_found(api, url),
        context_window=given.context_window or entry.context_window,
        check_path=entry.check_path if api == entry.api else _CHECK_PATHS.get(api, "/models"),
    )


def _added(name: str, given: ProviderSettings) -> CatalogueEntry:
    if not _NAME.fullmatch(name) or name in SEARCH_SERVICES:
        raise InvalidRequest(f"native.providers.{name}: a name is of small letters, digits, '.', '_' and '-'")
    api = _api(name, given) if given.api else "openai-chat"
    url = _base_url(name, api, given)
    here = _can_be_found(api, url)
    return CatalogueEntry(
        id=name,
        name=given.name or name,
        api=api,
        base_url=url,
        models=given.models or _usual_models(api),
        key_env=(given.key_env,) if given.key_env else (),
        # One without a variable for its key may well need none: a proxy in the same house.
        needs_key=bool(given.key_env) and not is_this_machine(url),
        local=here,
        context_window=given.context_window,
        check_path=_CHECK_PATHS.get(api, "/models"),
    )


def _can_be_found(api: Api, url: str) -> bool:
    """Whether it is a model server of this machine that can be asked what it has, as all with these APIs can."""
    return api.startswith("openai-") and is_this_machine(url)


_CHECK_PATHS: dict[Api, str] = {entry.api: entry.check_path for entry in REMOTE[:_VENDORS]}


def _api(name: str, given: ProviderSettings) -> Api:
    for api in get_args(Api):
        if given.api == api and api not in _NOT_TO_CHOOSE:
            known: Api = api
            return known
    known_apis = ", ".join(api for api in get_args(Api) if api not in _NOT_TO_CHOOSE)
    raise InvalidRequest(f"native.providers.{name}.api: {given.api!r} is none of {known_apis}")


def _usual_models(api: Api) -> tuple[str, ...]:
    """Of whoever speaks an API that cannot be asked in the usual way: those of who made it."""
    if api == "scripted":
        return ("scripted",)
    return next((entry.models for entry in REMOTE if entry.api == api), ()) if api in ("anthropic", "google") else ()


def _base_url(name: str, api: Api, given: ProviderSettings) -> str:
    if api == "scripted":
        return ""
    if not given.base_url:
        for entry in REMOTE[:_VENDORS]:
            if entry.api == api:
                return entry.base_url
        raise InvalidRequest(f"native.providers.{name}.base_url: say where it is")
    problem = base_url_problem(given.base_url)
    if problem is not None:
        raise InvalidRequest(f"native.providers.{name}.base_url: {problem}")
    return _trimmed(api, given.base_url)


def _trimmed(api: Api, url: str) -> str:
    """Without the end that our adapters add themselves: some clients of Anthropic's API count ``/v1`` to its base."""
    url = url.rstrip("/")
    return url.removesuffix("/v1") if api == "anthropic" else url
