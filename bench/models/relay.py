"""The least that a Python server can do for a coworker client: ``python -m bench.models.relay MODELS-URL``

A prompt makes a model call over the Responses API, and each delta of its answer is one ``text_delta`` chunk on the link
that asked. Nothing is kept, nothing is checked, and there is no ``raw`` chunk. JSON is the standard library's, and
frames are texts, as in the relay that our aims were taken from.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any
from urllib.parse import urlsplit

import uvloop

from bench.bare.terminal import Send, serve

SESSION = "00000000-0000-4000-8000-000000000000"
_CHUNK = (
    f'{{"type":"model_stream_chunk","sessionId":"{SESSION}","turnId":"{SESSION}","index":%d,'
    '"provider":"openai","model":"asked","partType":"text_delta","part":{"id":"msg_1","text":%s},'
    '"rawPart":{"type":"text-delta","id":"msg_1","text":%s}}'
)
_BUSY = f'{{"type":"session_busy","sessionId":"{SESSION}","busy":%s}}'
_DELTA = b'data: {"type":"response.output_text.delta"'
_ASKED = re.compile(r"\[\[deltas:\d+\]\]")


class App:
    """The ASGI application. A new connection to the models for each call, as a socket and nothing more."""

    def __init__(self, url: str) -> None:
        self._models = urlsplit(url)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] != "websocket":
            return
        await receive()
        await send({"type": "websocket.accept"})
        for kind in ("server_hello", "provider_status"):
            hello = {"type": kind, "sessionId": SESSION}
            await send({"type": "websocket.send", "text": json.dumps(hello, separators=(",", ":"))})
        while (message := await receive())["type"] != "websocket.disconnect":
            await self._turn(message["text"], send)

    async def _turn(self, asked: str, send: Send) -> None:
        await send({"type": "websocket.send", "text": _BUSY % "true"})
        reader, writer = await asyncio.open_connection(self._models.hostname, self._models.port, limit=1 << 22)
        deltas = _ASKED.findall(asked)[-1]
        body = json.dumps({"stream": True, "model": "asked", "input": deltas}).encode()
        head = b"POST /v1/responses HTTP/1.1\r\nHost: models\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await self._relay(reader, send)
        writer.close()
        await send({"type": "websocket.send", "text": _BUSY % "false"})

    async def _relay(self, reader: asyncio.StreamReader, send: Send) -> None:
        index, rest = 0, b""
        while piece := await reader.read(65536):
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
            for line in lines:
                if line.startswith(_DELTA):
                    text = json.dumps(json.loads(line[6:])["delta"])
                    await send({"type": "websocket.send", "text": _CHUNK % (index, text, text)})
                    index += 1
            if rest.endswith(b"0\r\n\r\n") or lines[-2:-1] == [b"0\r"]:
                return

    def end(self) -> None:
        """Nothing to end."""


async def main() -> None:
    await serve(App(sys.argv[1]))


if __name__ == "__main__":
    uvloop.run(main())
