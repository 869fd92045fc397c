"""``AGENT.md``: what the person and the project want every agent to know."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .files import FileCache, FileProblem

NAME = "AGENT.md"


class MemoryFiles:
    """Reads them. ``most`` is the bytes of each that count."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._cache: FileCache[str] = FileCache()

    def read(self, person: Path, project: Path | None, problems: list[str], *, inside: Sequence[Path]) -> str | None:
        """Both, each below a line that says whose it is; None where neither says anything.

        ``person`` and ``project`` are the ``.agent`` folders, ``project`` None where there is none of its own.
        """
        parts: list[str] = []
        if text := self._text(person / NAME, f"~/.agent/{NAME}", problems):
            parts.append(f"What the person wants you to know, in every project (~/.agent/{NAME}):\n\n{text}")
        if project is not None and (text := self._text(project / NAME, str(project / NAME), problems, inside=inside)):
            parts.append(f"What this project wants you to know (.agent/{NAME}):\n\n{text}")
        return "\n\n".join(parts) or None

    def _text(self, path: Path, where: str, problems: list[str], *, inside: Sequence[Path] = ()) -> str | None:
        try:
            return self._cache.get(path, self._most, self._cut, inside=inside, cut=True)
        except FileProblem as problem:
            problems.append(f"{where} is skipped: {problem}")
            return None

    def _cut(self, data: bytes) -> str:
        # What is cut in the middle of a character loses that character, not more.
        errors = "ignore" if len(data) > self._most else "replace"
        text = data[: self._most].removeprefix(b"\xef\xbb\xbf").decode(errors=errors).strip()
        return f"{text}\n[cut here]" if len(data) > self._most else text
