"""A person's home, as tests of the installation of hooks need it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dragoman.agents.hooked.installation.agents import AGENTS
from dragoman.agents.hooked.installation.place import Place
from dragoman.agents.hooked.installation.standing import Standing, standing

CLAUDE, CODEX, GEMINI = AGENTS["claude"], AGENTS["codex"], AGENTS["gemini"]
ALL = list(AGENTS.values())


class Home:
    """A person's home, and an installation in it."""

    def __init__(self, path: Path, *, socket: str = "data/hooks.sock", **environment: str) -> None:
        self.path = path
        self.environment = {"HOME": str(path), "PATH": "", **environment}
        self.place = Place(path / ".config" / "dragoman" / "hooks", path / socket, 600.0, self.environment)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def files(self) -> dict[str, bytes | None]:
        """Every file and folder, but for what is dragoman's own."""
        return {
            str(path.relative_to(self.path)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.path.rglob("*"))
            if ".config" not in path.parts
        }

    def json(self, name: str) -> Any:
        return json.loads((self.path / name).read_text())

    def standing(self, agent: str = "claude") -> Standing:
        return standing(self.place, AGENTS[agent])


THEIRS = {
    ".claude/settings.json": (
        '{\n    "model": "opus",\n    "env": {"TOKEN": "s3cret"},\n    "hooks": {\n        "Stop": [\n            '
        '{"hooks": [{"type": "command", "command": "say done"}]}\n        ],\n        "Other": []\n    },\n'
        '    "unknown": [1.0, 2e3]\n}'
    ),
    ".codex/hooks.json": '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done","timeout":3}]}]}}\n',
    ".codex/config.toml": '# mine\nmodel = "x"\n\n[hooks.state."/else:stop:0:0"]\ntrusted_hash = "sha256:0"\n\n[tui]\n',
    ".gemini/settings.json": '{\r\n\t"ui": {"theme": "Ayu"}\r\n}\r\n',
}
