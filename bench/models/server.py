"""A model that says numbers, over four APIs: ``python -m bench.models.server``

The name of the model says how: ``flood-20000`` says 20,000 deltas as fast as they are taken, ``paced-8000-2000`` says
8,000 at 2,000 a second, each in a TCP segment of its own. Every delta is an event of its own, and its text is the time
it was sent (``STAMP`` below). ``asked`` says as many words as the newest ``[[deltas:N]]`` of the prompt asks for, as
fast as they are taken, 16 events to a chunk. One thread for each connection: a sleeping thread wakes more exactly than
an event loop.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STAMP = b"%015d "
"""Microseconds of the monotonic clock, which all processes of a machine share."""

SEGMENT = 16 * 1024
"""Bytes of a flood that are sent at once."""

CHUNK = 16
"""Events that ``asked`` sends at once."""

_MARK = "@@"
_ASKED = re.compile(rb"\[\[deltas:(\d+)\]\]")
Speech = tuple[bytes, bytes, bytes]
"""What comes before the deltas, one delta with ``_MARK`` where its text goes, what comes after them."""


def main() -> None:
    server = _Server(("127.0.0.1", 0), _Handler)
    print(json.dumps({"port": server.server_address[1]}), flush=True)
    server.serve_forever()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # with the usual 5 some of many that come at once are put off for seconds


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Whoever looks whether a local server runs asks for its models."""
        listed = json.dumps({"object": "list", "data": [{"id": "flood-10", "object": "model"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(listed)))
        self.end_headers()
        self.wfile.write(listed)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        model = asked.get("model") or self.path.partition("/models/")[2].partition(":")[0]
        speech = next((make for end, make in _APIS.items() if self.path.partition("?")[0].endswith(end)), _gemini)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        before, delta, after = speech(model)
        self._chunk(before)
        for piece in _pieces(model, delta, body):
            self._chunk(piece)
        self._chunk(after)
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Not to stderr."""


def _pieces(model: str, delta: bytes, body: bytes) -> Iterator[bytes]:
    """The deltas, as the model's name says."""
    if model == "asked":
        return _words(delta, int(_ASKED.findall(body)[-1]))
    how, count, *rate = model.split("-")
    return _flood(delta, int(count)) if how == "flood" else _paced(delta, int(count), int(rate[0]))


def _words(delta: bytes, count: int) -> Iterator[bytes]:
    whole, _, rest = delta.partition(_MARK.encode())
    for start in range(0, count, CHUNK):
        yield b"".join(
            b"%bw%03d %b" % (whole, number % 1000, rest) for number in range(start, min(start + CHUNK, count))
        )


def _flood(delta: bytes, count: int) -> Iterator[bytes]:
    whole, _, rest = delta.partition(_MARK.encode())
    at_once = max(1, SEGMENT // len(delta))
    for start in range(0, count, at_once):
        event = whole + STAMP % _now() + rest
        yield event * min(at_once, count - start)


def _paced(delta: bytes, count: int, rate: int) -> Iterator[bytes]:
    whole, _, rest = delta.partition(_MARK.encode())
    began = time.perf_counter()
    for number in range(count):
        wait = began + number / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        yield whole + STAMP % _now() + rest


def _now() -> int:
    return time.monotonic_ns() // 1000


def _event(data: dict[str, Any] | str, name: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def _typed(data: dict[str, Any]) -> bytes:
    return _event(data, data["type"])


# The APIs, as their documentation shows them


def _chat(model: str) -> Speech:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model}
    head |= {"service_tier": "default", "system_fingerprint": "fp_1"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**head, "choices": [choice], "usage": None})

    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    after = chunk({}, "stop") + _event({**head, "choices": [], "usage": usage}) + _event("[DONE]")
    return chunk({"role": "assistant", "content": ""}), chunk({"content": _MARK}), after


def _responses(model: str) -> Speech:
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": model,
        "error": None,
    }
    response |= {"incomplete_details": None, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    number = {"sequence_number": 1}
    usage: dict[str, Any] = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "total_tokens": 20,
    }
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    done = {**response, "status": "completed", "output": [], "usage": usage}
    before = (
        _typed({"type": "response.created", **number, "response": begun})
        + _typed({"type": "response.output_item.added", **number, "output_index": 0, "item": item})
        + _typed({"type": "response.content_part.added", **number, **place, "part": part})
    )
    delta = {"type": "response.output_text.delta", **number, **place, "delta": _MARK, "logprobs": []}
    after = _typed({"type": "response.output_item.done", **number, "output_index": 0, "item": item})
    return before, _typed(delta), after + _typed({"type": "response.completed", **number, "response": done})


def _anthropic(model: str) -> Speech:
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
    block = {"type": "text", "text": ""}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": _MARK}}
    before = _typed({"type": "message_start", "message": message}) + _typed(
        {"type": "content_block_start", "index": 0, "content_block": block}
    )
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    after = (
        _typed({"type": "content_block_stop", "index": 0})
        + _typed({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 10}})
        + _typed({"type": "message_stop"})
    )
    return before, _typed(delta), after


def _gemini(model: str) -> Speech:
    head = {"modelVersion": model, "responseId": "r1"}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}

    def chunk(parts: list[dict[str, Any]], **more: object) -> bytes:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **more}
        return _event({"candidates": [candidate], "usageMetadata": usage, **head})

    return chunk([{"text": "", "thought": True}]), chunk([{"text": _MARK}]), chunk([{"text": ""}], finishReason="STOP")


_APIS: dict[str, Callable[[str], Speech]] = {
    "/chat/completions": _chat,
    "/responses": _responses,
    "/messages": _anthropic,
}

if __name__ == "__main__":
    main()
