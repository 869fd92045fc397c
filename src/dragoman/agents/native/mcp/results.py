"""What a tool of a server gave, as the log keeps it and as the model reads it. Pictures are named, not kept."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.hub.events import Json

_NOTE = "\n[{} characters left out]"


class ToolResult(msgspec.Struct, frozen=True):
    """One result. ``output`` is for the log: MCP's own form, cut to its limit. ``failed`` is the tool's own word."""

    output: dict[str, Json]
    text: str
    failed: bool


def read_result(given: Json, most: int) -> ToolResult:
    """The answer to ``tools/call``, of which at most about ``most`` characters are kept.

    Whatever is not as it should be is left out: a server can send anything.
    """
    answer = given if isinstance(given, dict) else {}
    content = answer.get("content")
    room = _Room(most)
    blocks = [room.block(block) for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    output: dict[str, Json] = {"content": [shown for shown, _ in blocks], "isError": answer.get("isError") is True}
    texts = [text for _, text in blocks if text]
    structured = answer.get("structuredContent")
    if structured is not None and (written := _written(structured)):
        if not texts:
            texts.append(room.cut(written))
        if len(written) <= most:
            output["structuredContent"] = structured
    return ToolResult(output, "\n\n".join(texts), output["isError"] is True)


class _Room:
    """How much may still be said."""

    def __init__(self, most: int) -> None:
        self._left = most

    def cut(self, text: str) -> str:
        kept = text[: self._left]
        self._left -= len(kept)
        return kept if len(kept) == len(text) else kept + _NOTE.format(len(text) - len(kept))

    def block(self, block: dict[str, Any]) -> tuple[dict[str, Json], str]:
        """One block for the log, and its text."""
        kind = block.get("type")
        if kind == "text":
            text = self.cut(_text(block.get("text")))
            return {"type": "text", "text": text}, text
        if kind in ("image", "audio"):
            return self._media(str(kind), _text(block.get("mimeType")), block.get("data"))
        if kind == "resource" and isinstance(block.get("resource"), dict):
            return self._resource(block["resource"])
        if kind == "resource_link":
            uri, name = self.cut(_text(block.get("uri"))), self.cut(_text(block.get("name")))
            return {"type": "resource_link", "uri": uri, "name": name}, f"[resource {uri}: {name}]"
        return {"type": self.cut(_text(kind))[:100]}, ""

    def _media(self, kind: str, mime: str, data: Json) -> tuple[dict[str, Json], str]:
        mime, size = self.cut(mime)[:100], _size(data)
        return {"type": kind, "mimeType": mime, "bytes": size}, f"[{kind}: {mime}, {size} bytes; not shown]"

    def _resource(self, given: dict[str, Any]) -> tuple[dict[str, Json], str]:
        uri, mime = self.cut(_text(given.get("uri"))), self.cut(_text(given.get("mimeType")))[:100]
        if isinstance(given.get("text"), str):
            text = self.cut(given["text"])
            return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": text}}, f"[{uri}]\n{text}"
        size = _size(given.get("blob"))
        shown: dict[str, Json] = {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "bytes": size}}
        return shown, f"[resource {uri}: {mime}, {size} bytes; not shown]"


def _written(value: Json) -> str:
    """The value as JSON; nothing for what our JSON cannot hold, half a character for one."""
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, RecursionError):
        return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _size(data: object) -> int:
    """Bytes that a text in base64 stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=") if isinstance(data, str) else 0
