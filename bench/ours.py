"""Our server, started as a user starts it, and asked over the hub protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Self

import msgspec

from .processes import Failed, Process
from .wire import Link, Links


class Dragoman:
    """``dragoman serve`` on a free port. A context manager."""

    def __init__(self, folder: Path, *, data: Path | None = None, settings: str = "", work: Path | None = None) -> None:
        """``settings`` is a settings file's text, ``work`` the folder of sessions that name none."""
        data = data or folder / "data"
        command = [sys.executable, "-m", "dragoman", "serve", "--json", "--port", "0", "--data", str(data)]
        if settings:
            file = folder / "settings.toml"
            file.write_text(settings)
            command += ["--config", str(file)]
        if work is not None:
            command += ["--dir", str(work)]
        self.process = Process(command, folder=folder)
        try:
            self.port: int = self.process.line()["port"]
            self._asking = Asking(self.port)
        except BaseException:
            self.process.stop()
            raise
        self._folder = folder

    def terminal(self, command: list[str], *, model: bool, cols: int = 120, rows: int = 40) -> str:
        """A new session with this program; returns its id."""
        options = {"command": command, "model": model, "cols": cols, "rows": rows}
        return str(self.ask("create", kind="terminal", cwd=str(self._folder), options=options)["session"])

    def ask(self, op: str, **fields: object) -> dict[str, Any]:
        """One hub request and its answer. Raises ``ConnectionError`` when it is refused."""
        return self._asking.ask(op, **fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """End it. Raises ``Failed`` when it logged an error that nobody else has noticed."""
        self._asking.close()
        said = self.process.stop()
        if kind is None and "Traceback" in said:
            raise Failed(f"the server logged an error: {said}")


class Asking:
    """A hub link for requests, one after the other."""

    def __init__(self, port: int) -> None:
        self._answers: dict[int, dict[str, Any]] = {}
        self._asked = 0
        self._link = Link(port, "/hub/ws", self._take)
        self._links = Links([self._link])

    def ask(self, op: str, **fields: object) -> dict[str, Any]:
        self._asked += 1
        number = self._asked
        self._link.send(msgspec.json.encode({"op": op, "id": number, **fields}))
        if not self._links.until(lambda: number in self._answers, 30):
            raise ConnectionError(f"no answer to {op}")
        answer = self._answers.pop(number)
        if answer["type"] != "ok":
            raise ConnectionError(f"{op} was refused: {answer}")
        return answer

    def close(self) -> None:
        self._links.close()

    def _take(self, _: int, payload: memoryview) -> None:
        said = msgspec.json.decode(payload)
        if isinstance(said.get("id"), int):
            self._answers[said["id"]] = said
