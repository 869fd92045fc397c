"""A Windie server of a few lines, as the seed describes one: strict at the handshake, exact in the events of a turn."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dragoman.client.windie import Agent, AgentSdkClient, WindieOptions
from tests.client import few_lines

Message = dict[str, Any]
Talk = Callable[["Served"], Awaitable[None]]

QUICK = WindieOptions(first_retry=0.001, longest_retry=0.016, answer_limit=10.0, startup_limit=5.0, refusal_limit=0.1)

_HANDSHAKE = {"type", "user_id", "agent_definition"}
_DEFINITION = {
    *("version", "id", "name", "mode", "system_prompt", "tools", "prompt_layers", "skills", "agents_md", "plugins"),
    *("runtime", "metadata"),
}
_TOOLS = {
    *("mode", "client_manifest", "available_tools", "enabled_remote_tools", "disabled_tools", "disabled_capabilities"),
}
_PLUGIN = {"id", "name", "version", "prompt_layers", "metadata"}


class Served(few_lines.Served):
    """One connection, seen from the server."""

    async def begin(self, rejected: dict[str, str] | None = None) -> Message:
        """Take the handshake, say what a server says first, and return the handshake."""
        handshake: Message = json.loads(await self.socket.recv())
        definition = handshake.get("agent_definition", {})
        tools = definition.get("tools", {})
        assert handshake["type"] == "handshake"
        assert set(handshake) <= _HANDSHAKE, handshake
        assert set(definition) <= _DEFINITION, definition
        assert set(tools) <= _TOOLS, tools
        assert all(set(plugin) <= _PLUGIN for plugin in definition.get("plugins", [])), definition
        if (manifest := tools.get("client_manifest")) is not None:
            await self.tell({"type": "client-tool-manifest", "payload": _taken(manifest, rejected or {})})
        await self.tell({"type": "remote-tool-catalog", "payload": {"remote_tools": []}})
        return handshake

    async def turn(self) -> Played:
        """Take the next query."""
        return Played(self, await self.hear("query"))

    async def reply(self, request: Message, kind: str, **payload: Any) -> None:
        await self.tell({"id": request["id"], "type": kind, "payload": payload})


class Played:
    """The turn of one query."""

    def __init__(self, served: Served, query: Message) -> None:
        self.query = query
        self.id: str = query["id"]
        self._served = served
        self._numbers = itertools.count(1)

    def event(self, kind: str, **payload: Any) -> Message:
        """The next event, as it is on the wire."""
        number = next(self._numbers)
        return {
            "id": self.id,
            "type": kind,
            "payload": payload,
            "user_id": "dev-user",
            "session_id": "sess1",
            "conversation_ref": self.query["payload"]["conversation_ref"],
            "turn_ref": self.id,
            "timestamp": "2026-01-01T00:00:00Z",
            "event_id": f"{self.id}-evt-{number:06}-{kind}",
            "sequence": number,
        }

    async def tell(self, kind: str, **payload: Any) -> None:
        await self._served.tell(self.event(kind, **payload))

    async def call(self, name: str, request_id: str = "req-1", **parameters: Any) -> Message:
        """Call a tool of the client and return the payload of its result."""
        metadata = {"tool_call_id": "call_1"}
        await self.tell("tool-call", tool_name=name, parameters=parameters, request_id=request_id, metadata=metadata)
        result: Message = (await self._served.hear("tool-result"))["payload"]
        assert result["request_id"] == request_id
        return result

    async def end(self, final: str) -> None:
        await self.tell("assistant-message-full", content=final)
        await self.tell("streaming-complete", final_response=final)


@contextlib.asynccontextmanager
async def awake(talk: Talk, *, client: Message | None = None, **given: Any) -> AsyncIterator[Agent]:
    """An agent on a server that has this talk on each connection; ``client`` and ``given`` are for the SDK.

    An assertion that fails on the server fails the test.
    """
    async with few_lines.serving(talk, Served) as url:
        options = {"default_user_id": "dev-user", "options": QUICK, **(client or {})}
        async with await AgentSdkClient(url, **options).wake_up(**given) as agent:
            yield agent


class Http:
    """An HTTP server that gives the same answers as it was told, and keeps what it was asked."""

    def __init__(self, answers: dict[str, tuple[int, str, bytes]]) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers = answers


@contextlib.contextmanager
def http_server(answers: dict[str, Any]) -> Iterator[tuple[str, Http]]:
    """``answers`` by ``"METHOD /path"``: an object is JSON, bytes are a PNG, ``(status, object)`` is an error."""
    http = Http({where: _encoded(answer) for where, answer in answers.items()})

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            http.asked.append((self.command, self.path, headers, body))
            where = f"{self.command} {self.path.partition('?')[0]}"
            status, kind, data = http.answers.get(where, (404, "application/json", b'{"detail": "Not Found"}'))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _serve  # noqa: N815  http.server looks for these

        def log_message(self, *given: Any) -> None:
            """A test that fails says enough."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", http
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def _encoded(answer: Any) -> tuple[int, str, bytes]:
    if isinstance(answer, bytes):
        return 200, "image/png", answer
    status, said = answer if isinstance(answer, tuple) else (200, answer)
    return status, "application/json", json.dumps(said).encode()


def _taken(manifest: Message, rejected: dict[str, str]) -> Message:
    assert set(manifest) == {"version", "tools"}
    assert all(tool["description"].strip() for tool in manifest["tools"])
    return {
        "accepted": [
            {key: tool[key] for key in ("name", "description", "execution_target")}
            for tool in manifest["tools"]
            if tool["name"] not in rejected
        ],
        "rejected": [{"name": name, "reason": reason} for name, reason in rejected.items()],
    }
