"""Looks for model servers on this machine: who answers there, and with which models.

Whatever listens on those ports is a stranger: it gets one short question at a time, its answer is bounded, and one that
answers with anything else is not there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from dragoman.hub.events import Json

from .asking import Answer, Unanswered, ask
from .catalogue import base_url_problem, is_this_machine
from .verifying import key_headers

log = logging.getLogger("dragoman.providers")

Kind = Literal["ollama", "lmstudio", "vllm", "llamacpp", "local"]
"""Which program it is; ``local`` where it cannot be told."""

ANSWER_BYTES = 1024 * 1024
"""Of one answer; a larger one is none."""

MODELS = 500
"""Of one server; further ones are left out."""

MODEL_CHARS = 300
"""Of one model's id; a longer one is left out."""

_OWNERS: dict[str, Kind] = {
    "vllm": "vllm",
    "llamacpp": "llamacpp",
    "library": "ollama",
    "organization_owner": "lmstudio",
}
"""What servers give as the owner of their models."""

_NO_CHAT = ("embed", "bge-", "minilm", "rerank", "whisper")
"""In the ids of models that are served at the same place and cannot hold a conversation."""


class LocalModel(msgspec.Struct, frozen=True):
    """A model, and the tokens it takes where its server says so (else 0)."""

    id: str
    context_window: int = 0


class LocalServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that answered. ``base_url`` ends in ``/v1``, without a slash."""

    kind: Kind
    base_url: str
    models: tuple[LocalModel, ...]

    @property
    def port(self) -> int:
        """Its TCP port."""
        return port_of(self.base_url)


class LocalServers:
    """Those that answer at any of ``urls``, in their order; what was found holds for ``cache_seconds``.

    A URL that does not lead to this machine is not asked. ``seconds`` is the limit of each answer. ``key`` gives the
    key for the server at a URL, if there is one.
    """

    def __init__(
        self,
        urls: Iterable[str],
        *,
        seconds: float,
        cache_seconds: float,
        key: Callable[[str], str | None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.urls = tuple(dict.fromkeys(url.rstrip("/") for url in urls if _may_be_asked(url)))
        self._seconds = seconds
        self._cache_seconds = cache_seconds
        self._key = key
        self._now = now
        self._looking = asyncio.Lock()
        self._found: tuple[LocalServer, ...] = ()
        self._until = 0.0

    @property
    def ports(self) -> frozenset[int]:
        """Where it looks."""
        return frozenset(map(port_of, self.urls))

    async def find(self) -> tuple[LocalServer, ...]:
        """Look, all at once, unless that was done a moment ago. Who comes while somebody looks waits for that."""
        async with self._looking:
            if self._until <= self._now():
                found = await asyncio.gather(*(self._look(url) for url in self.urls))
                self._found = tuple(server for server in found if server is not None)
                self._until = self._now() + self._cache_seconds
            return self._found

    async def _look(self, url: str) -> LocalServer | None:
        try:
            headers = key_headers("openai-chat", self._key(url))
            answer = await ask(f"{url}/models", headers=headers, seconds=self._seconds, most=ANSWER_BYTES)
        except Unanswered:
            return None
        listed = _listed(answer)
        if listed is None:
            return None
        kind = _kind(answer, listed) or await self._ask_kind(url)
        return LocalServer(kind=kind, base_url=url, models=_models(listed))

    async def _ask_kind(self, url: str) -> Kind:
        """By what only one of them answers: a model of somebody's own, or none at all, does not give it away."""
        root = url.removesuffix("/v1")
        ollama, studio = await asyncio.gather(
            self._has(f"{root}/api/version", "version", str), self._has(f"{root}/api/v0/models", "data", list)
        )
        return "ollama" if ollama else "lmstudio" if studio else "local"

    async def _has(self, url: str, field: str, kind: type) -> bool:
        try:
            answer = await ask(url, seconds=self._seconds, most=ANSWER_BYTES)
        except Unanswered:
            return False
        return answer.status == 200 and isinstance(answer.value, dict) and isinstance(answer.value.get(field), kind)


def port_of(url: str) -> int:
    """The TCP port that a URL leads to."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def listed_models(answer: Answer) -> tuple[LocalModel, ...] | None:
    """The models that can hold a conversation in an answer of ``/models``; None where it is no such answer."""
    listed = _listed(answer)
    return None if listed is None else _models(listed)


def _may_be_asked(url: str) -> bool:
    problem = base_url_problem(url)
    if problem is None and not is_this_machine(url):
        problem = "it is not on this machine"
    if problem is not None:
        log.warning("native.local_servers: one is left out: %s", problem)
    return problem is None


def _listed(answer: Answer) -> list[dict[str, Json]] | None:
    """The entries of a list of models, or None. Ollama without models says ``null``."""
    value = answer.value
    if answer.status != 200 or not isinstance(value, dict) or "data" not in value:
        return None
    entries = value["data"] if value["data"] is not None else []
    if not isinstance(entries, list):
        return None
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def _kind(answer: Answer, listed: list[dict[str, Json]]) -> Kind | None:
    if answer.server.lower().startswith("llama.cpp"):
        return "llamacpp"
    for entry in listed:
        owner = entry.get("owned_by")
        if isinstance(owner, str) and owner in _OWNERS:
            return _OWNERS[owner]
    return None


def _models(listed: list[dict[str, Json]]) -> tuple[LocalModel, ...]:
    found: dict[str, LocalModel] = {}
    for entry in listed:
        name = entry["id"]
        assert isinstance(name, str)
        if _is_chat(name):
            found.setdefault(name, LocalModel(name, _window(entry)))
    return tuple(found.values())[:MODELS]


def _is_chat(name: str) -> bool:
    if not 0 < len(name) <= MODEL_CHARS or not name.isprintable():
        return False
    return not any(word in name.lower() for word in _NO_CHAT)


def _window(entry: dict[str, Json]) -> int:
    """The tokens it takes, as vLLM and llama.cpp say."""
    meta = entry.get("meta")
    for given in (entry.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None):
        if isinstance(given, int) and not isinstance(given, bool) and 0 < given < 2**53:
            return given
    return 0
