"""The session log, where Claude writes it and as it looks there, and the faults that can befall it."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fake_agent.hooks import Clock

Json = dict[str, Any]
VERSION = "2.1.332"


def place(home: str, cwd: str, session: str) -> Path:
    """The path of a session's log."""
    folder = re.sub(r"[^A-Za-z0-9-]", "-", cwd)
    return Path(home) / ".claude" / "projects" / folder / f"{session}.jsonl"


class SessionLog:
    """Appends records. ``delay_ms`` writes each that much later, ``split`` writes its second half later still."""

    def __init__(
        self, clock: Clock, path: Path, cwd: str, session: str, *, none: bool, delay_ms: int, split: bool
    ) -> None:
        self.path = path
        self._clock, self._cwd, self._session = clock, cwd, session
        self._none, self._delay, self._split = none, delay_ms / 1000, split
        self._parent: str | None = None
        self._free = 0.0

    def user(self, content: str | list[Json], **more: Any) -> None:
        """A prompt, a tool's result, or a note that the turn was interrupted."""
        self._add({"type": "user", "message": {"role": "user", "content": content}, **more})

    def assistant(self, block: Json, stop_reason: str | None = None, **more: Any) -> None:
        """One content block of the model."""
        message = {
            "id": f"msg_{uuid.uuid4().hex[:20]}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-5-5",
            "content": [block],
            "stop_reason": stop_reason,
            "usage": {"input_tokens": 100, "output_tokens": 25},
        }
        self._add({"type": "assistant", "message": {**message, **more.pop("message", {})}, **more})

    def system(self, subtype: str, **more: Any) -> None:
        """What the program itself notes."""
        self._add({"type": "system", "subtype": subtype, "level": "info", **more})

    def other(self, kind: str, **more: Any) -> None:
        """A record that belongs to no message."""
        self._write({"type": kind, "sessionId": self._session, **more})

    def rejected(self, call: str) -> None:
        """The two records of a rejected tool call that ends the turn."""
        self.refused(call)
        self.interrupted("[Request interrupted by user for tool use]")

    def refused(self, call: str, words: str = "") -> None:
        """The result of a rejected tool call. With the person's words the agent goes on."""
        text = (
            "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file "
            "edit, the new_string was NOT written to the file). "
        )
        about: Json = {"toolUseResult": "User rejected tool use", "toolDenialKind": "user-rejected"}
        if words:
            text += f"To tell you how to proceed, the user said:\n{words}"
            about |= {"toolUseResult": f"Error: {text}", "userFeedback": words}
        else:
            text += "STOP what you are doing and wait for the user to tell you how to proceed."
        result = {"type": "tool_result", "content": text, "is_error": True, "tool_use_id": call}
        self.user([result], **about)

    def interrupted(self, text: str = "[Request interrupted by user]") -> None:
        """What stands there after Escape."""
        self.user([{"type": "text", "text": text}])

    def _add(self, record: Json) -> None:
        own = str(uuid.uuid4())
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        common = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": self._cwd,
            "sessionId": self._session,
            "version": VERSION,
            "gitBranch": "",
        }
        self._parent = own
        self._write({**common, **record, "uuid": own, "timestamp": now})

    def _write(self, record: Json) -> None:
        if self._none:
            return
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        if not self._delay and not self._split:
            self._append(line)
            return
        now = time.monotonic()
        self._free = max(self._free, now + self._delay)
        if not self._split:
            self._clock.after(self._free - now, lambda: self._append(line))
            return
        half = len(line) // 2
        self._clock.after(self._free - now, lambda: self._append(line[:half]))
        self._free += 0.15
        self._clock.after(self._free - now, lambda: self._append(line[half:]))
        self._free += 0.001

    def _append(self, data: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, data)
        finally:
            os.close(file)
