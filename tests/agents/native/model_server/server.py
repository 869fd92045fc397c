"""The server around the APIs: whose turn of the script it is, what goes into the journal, and what breaks the rules."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from .anthropic import Anthropic
from .api import Api
from .gemini import Gemini
from .heard import Heard, Violation, check
from .journal import Entry
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses
from .playback import ConnectionCut, Doors, Playback
from .script import Answer, Failure, Turn

_DIRECTIVE = re.compile(r"\[\[script:([\w.-]+)\]\]")
_APIS: tuple[Api, ...] = (OpenAIChat(), OpenAIResponses(), Anthropic(), Gemini())


class ModelServer:
    """A model that says what its script says, behind four APIs.

    Requests take the next turn of ``queue``. One whose newest user text has ``[[script:NAME]]`` (the last there is)
    takes the turn of that named script which has the number of answers given since that text, the last one again where
    there are no more. A request that finds no turn is a violation, as is one that the real API would refuse.
    """

    def __init__(self, queue: Iterable[Turn] = (), *, models: tuple[str, ...] = ("scripted-1",)) -> None:
        self.queue: deque[Turn] = deque(queue)
        self.named: dict[str, tuple[Turn, ...]] = {}
        self.pick: Callable[[Heard], str | None] = directed
        """Names the script for a request; None where the queue has its turn."""
        self.models = models
        self.key: str | None = None
        """The only key that is taken; None takes every one."""
        self.journal: list[Entry] = []
        self.gates = Doors()
        self.url = ""
        """``http://127.0.0.1:PORT``, once it runs."""

    @property
    def violations(self) -> list[str]:
        """Why requests were refused that no script refuses, oldest first."""
        return [entry.violation for entry in self.journal if entry.violation is not None]

    def script(self, *turns: Turn) -> None:
        """Append turns to the queue."""
        self.queue.extend(turns)

    def base_url(self, api: str) -> str:
        """What a client of that API is to be given."""
        return self.url if api in {"anthropic", "gemini"} else f"{self.url}/v1"

    def app(self) -> web.Application:
        """The server as an application."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        chat, responses, anthropic, gemini = _APIS
        app.router.add_post("/v1/chat/completions", self._handler(chat))
        app.router.add_post("/v1/responses", self._handler(responses))
        app.router.add_post("/v1/messages", self._handler(anthropic))
        app.router.add_post("/v1beta/models/{model:[^:]+}:streamGenerateContent", self._handler(gemini))
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_get("/journal", self._show_journal)
        app.router.add_get("/gates", self._show_gates)
        app.router.add_post("/gates/{name}", self._open_gate)
        app.router.add_put("/scripts/{name}", self._put_named)
        app.router.add_post("/queue", self._append)
        return app

    def _handler(self, api: Api) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            headers = {name.lower(): value for name, value in request.headers.items()}
            entry = Entry(len(self.journal), api.name, request.path_qs, headers, json.loads(await request.read()))
            self.journal.append(entry)
            try:
                return await self._answer(api, entry, request)
            finally:
                entry.ended.set()

        return handle

    async def _answer(self, api: Api, entry: Entry, request: web.Request) -> web.StreamResponse:
        if self.key is not None and self.key not in (_key(entry.headers) or ""):
            return _refused(api, Failure("unauthorized", "Incorrect API key provided."))
        try:
            entry.heard = _hear(api, entry, request.match_info.get("model", ""))
            entry.turn = self._turn(entry, entry.heard)
        except Violation as violation:
            entry.violation = str(violation)
            return _refused(api, Failure("invalid", str(violation)))
        if isinstance(entry.turn, Failure):
            return _refused(api, entry.turn)
        return await self._stream(api, entry, entry.turn, request)

    def _turn(self, entry: Entry, heard: Heard) -> Turn:
        if (name := self.pick(heard)) is not None:
            entry.script = name
            turns = self.named.get(name)
            if not turns:
                raise Violation(f"no script is named {name!r}")
            return turns[min(heard.steps, len(turns) - 1)]
        if not self.queue:
            raise Violation("nothing more is scripted")
        return self.queue.popleft()

    async def _stream(self, api: Api, entry: Entry, answer: Answer, request: web.Request) -> web.StreamResponse:
        assert entry.heard is not None
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
        playback = Playback(self.gates, answer.cut_after)
        events = api.speak(answer, entry.heard, playback)
        try:
            if answer.before is not None:
                await playback.hold(answer.before)
            await response.prepare(request)
            async for name, data in events:
                text = data if isinstance(data, str) else json.dumps(data)
                await response.write(((f"event: {name}\n" if name else "") + f"data: {text}\n\n").encode())
                entry.sent += 1
            await response.write_eof()
        except ConnectionCut:
            if request.transport is not None:
                request.transport.close()
        except BaseException:
            entry.left.set()
            raise
        return response

    async def _list_models(self, _: web.Request) -> web.Response:
        listed = [{"id": it, "object": "model", "created": 1, "owned_by": "scripted"} for it in self.models]
        return web.json_response({"object": "list", "data": listed})

    async def _show_journal(self, _: web.Request) -> web.Response:
        entries = [entry.json() for entry in self.journal]
        return web.Response(body=msgspec.json.encode(entries), content_type="application/json")

    async def _show_gates(self, _: web.Request) -> web.Response:
        return web.json_response(self.gates.reached())

    async def _open_gate(self, request: web.Request) -> web.Response:
        self.gates[request.match_info["name"]].open()
        return web.json_response({})

    async def _put_named(self, request: web.Request) -> web.Response:
        turns = msgspec.json.decode(await request.read(), type=tuple[Turn, ...])
        self.named[request.match_info["name"]] = turns
        return web.json_response({"turns": len(turns)})

    async def _append(self, request: web.Request) -> web.Response:
        self.queue.extend(msgspec.json.decode(await request.read(), type=list[Turn]))
        return web.json_response({"turns": len(self.queue)})


def directed(heard: Heard) -> str | None:
    """The script that the newest user text asks for: by the last directive, for texts may have been joined."""
    asked = _DIRECTIVE.findall(heard.newest_text)
    return asked[-1] if asked else None


def _key(headers: dict[str, str]) -> str | None:
    names = ("authorization", "x-api-key", "x-goog-api-key")
    return next((headers[name] for name in names if name in headers), None)


def _hear(api: Api, entry: Entry, model: str) -> Heard:
    """Understand a request, and judge it. Raises ``Violation``."""
    try:
        heard = api.hear(entry.body, entry.headers, model)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise Violation(f"malformed request: {error!r}") from error
    entry.heard = heard
    check(heard)
    return heard


def _refused(api: Api, failure: Failure) -> web.Response:
    status, body = api.refuse(failure)
    headers = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
    return web.json_response(body, status=status, headers=headers)


@asynccontextmanager
async def serving(server: ModelServer | None = None, *, port: int = 0) -> AsyncIterator[ModelServer]:
    """Run a server on the loopback, in this loop. A client that leaves ends its answer at once."""
    server = server or ModelServer()
    runner = web.AppRunner(server.app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()
