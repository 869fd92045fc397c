"""Small good conversations, made by hand: what a server that keeps the contract says, and what is asked of it."""

from __future__ import annotations

from typing import Any

from .sequence import Frame, Line, heard, said

CATALOG: Frame = {
    "type": "remote-tool-catalog",
    "payload": {
        "remote_tools": [
            {
                "name": "web_search",
                "description": "Search the web.",
                "enabled": False,
                "available": False,
                "reason_unavailable": "No provider is set up.",
            }
        ]
    },
}

MANIFEST: Frame = {
    "type": "client-tool-manifest",
    "payload": {
        "accepted": [{"name": "save_note", "description": "Save a note.", "execution_target": "local_runtime"}],
        "rejected": [{"name": "#1", "reason": "tool name is required"}],
    },
}

METADATA: Frame = {
    "has_screenshot": False,
    "has_memory": False,
    "original_query": "hello",
    "context_type": "initial",
    "injected_context": "",
    "active_window": "Unknown",
}

TOKENS: Frame = {
    "prompt_tokens": 150,
    "visible_output_tokens": 38,
    "thinking_tokens": 12,
    "output_tokens_total": 50,
    "total_tokens": 200,
    "conversation_tokens": 3200,
    "usage_source": "provider",
}

SCHEMA: Frame = {
    "type": "function",
    "function": {"name": "save_note", "description": "Save a note.", "parameters": {"type": "object"}},
}


class Script:
    """Writes the lines of a connection; numbers and event ids are counted as a good server counts them."""

    def __init__(self, *, manifest: bool = True) -> None:
        self.lines: list[Line] = [said({"type": "handshake", "user_id": "u"})]
        if manifest:
            self.lines.append(heard(MANIFEST))
        self.lines.append(heard(CATALOG))
        self._count: dict[str, int] = {}
        self._conversation: dict[str, str] = {}

    def say(self, kind: str, ident: str, **payload: Any) -> None:
        """The client sends this."""
        self.lines.append(said({"id": ident, "type": kind, "payload": payload}))

    def ask(self, turn: str, conversation: str = "c1", text: str = "hello") -> None:
        """The client asks for a turn."""
        self._conversation[turn] = conversation
        self.say("query", turn, text=text, conversation_ref=conversation)

    def reply(self, kind: str, ident: str, **payload: Any) -> None:
        """The server answers a message, outside of any turn."""
        self.lines.append(heard({"id": ident, "type": kind, "payload": payload}))

    def event(self, turn: str, kind: str, *, conversation: str | None = None, **payload: Any) -> None:
        """The server tells something of a turn."""
        number = self._count[turn] = self._count.get(turn, 0) + 1
        conversation = self._conversation.setdefault(turn, conversation or "c1")
        frame = {
            "id": turn,
            "type": kind,
            "payload": payload,
            "user_id": "u",
            "session_id": "s",
            "conversation_ref": conversation,
            "turn_ref": turn,
            "timestamp": "2026-01-01T00:00:00Z",
            "event_id": f"{turn}-evt-{number:06d}-{kind}",
            "sequence": number,
        }
        self.lines.append(heard(frame))

    def begin(self, turn: str, conversation: str = "c1") -> None:
        """A turn is asked for, and opens."""
        self.ask(turn, conversation)
        self.event(turn, "query-accepted", status="accepted")
        self.event(turn, "system-prompt", content="SP")
        self.event(turn, "user-message-full", content="<user_query>\nhello\n</user_query>", metadata=METADATA)
        self.event(turn, "tool-schemas", tool_schemas=[SCHEMA])

    def speak(self, turn: str, *chunks: str) -> None:
        """The model speaks."""
        self.event(turn, "llm-thought", status="Hm.")
        for chunk in chunks:
            self.event(turn, "streaming-response", text=chunk)

    def finish(self, turn: str, text: str) -> None:
        """The turn completes."""
        self.event(turn, "assistant-message-full", content=text)
        self.event(turn, "token-count", **TOKENS)
        self.event(turn, "streaming-complete", final_response=text)

    def call(self, turn: str, request: str, *, local: bool = True, answered: bool = True) -> None:
        """A tool is called, and, where the client runs it, its result given."""
        metadata = {"tool_call_id": f"call-{request}"} | ({} if local else {"skip_local_execution": True})
        name = "save_note" if local else "web_search"
        self.event(turn, "tool-call", tool_name=name, parameters={"text": "x"}, request_id=request, metadata=metadata)
        if local and answered:
            data = {"output": "saved"}
            self.say("tool-result", f"m-{request}", request_id=request, success=True, data=data)

    def bundle(self, turn: str, ident: str) -> None:
        """Two tools are called at once, and their result given."""
        tools = [{"name": "save_note", "args": {"text": text}} for text in "ab"]
        self.event(turn, "tool-bundle", bundle_id=ident, tools=tools)
        steps = [{"tool": "save_note", "status": "ok", "output": "saved"} for _ in tools]
        self.say("tool-bundle-result", f"m-{ident}", bundle_id=ident, status="success", step_results=steps)


def whole() -> list[Line]:
    """Everything once: a turn with tools, one that fails, one that is stopped, a compaction, settings, a wake word."""
    script = Script()
    script.begin("t1")
    script.speak("t1", "Hello ")
    script.call("t1", "r1")
    script.call("t1", "r2", local=False)
    output = {"tool_name": "web_search", "success": True, "execution_time": 0.1, "output": "found", "error": None}
    script.event("t1", "tool-output", **output)
    script.bundle("t1", "b1")
    script.speak("t1", "world")
    script.finish("t1", "Hello world")
    script.begin("t2")
    script.speak("t2", "Oh")
    script.event("t2", "error", message="boom")
    script.begin("t3", "c2")
    script.speak("t3", "Long ")
    script.say("stop-query", "stop1", conversation_ref="c2", turn_ref=None)
    acked = {"status": "stopped", "canceled": True, "conversation_ref": "c2", "turn_ref": None}
    script.reply("stop-query-ack", "stop1", **acked)
    script.say("compact-history", "k1", force=True, conversation_ref="c1")
    shortening = {"reason": "asked", "strategy": "summary", "before_tokens": 90}
    script.event("compaction1", "context-compaction-started", **shortening, projected_tokens=40)
    script.event("compaction1", "context-compaction-completed", **shortening, after_tokens=40, removed_messages=3)
    script.say("list-models", "l1")
    script.reply("models-listed", "l1", local=[], online=[], vision=[])
    script.say("update-settings", "u1", model_provider="openai")
    script.reply("settings-updated", "u1", updated_keys=["model_provider"])
    script.say("wakeword-detected", "w1")
    script.reply("wakeword-activated", "w1", speech_mode_enabled=True, greeting="Hello!", status="listening")
    script.reply("wakeword-greeting", "w1", text="Hello!")
    script.reply("audio-chunk", "w1", audio="AAAAAAAA", sample_rate=22050)
    return script.lines
