"""How a UI may show a skill: ``agents/*.yaml`` beside its ``SKILL.md``, and the icons that these name.

Everything here may be missing or broken: a skill is as good without.
"""

from __future__ import annotations

import base64
import importlib
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from dragoman.hub.skills import SkillInterface
from dragoman.services.workspace.files import FileCache, FileProblem, contained

from .settings import SkillSettings

_FAVOURITE = "openai.yaml"
_MOST_AGENTS = 50
_MOST_ENTRIES = 1000

_TEXTS = {"display_name": 200, "short_description": 500, "default_prompt": 4000}
"""Characters of each that count."""

_ICONS = ("icon_small", "icon_large")

_MOST_BRACKETS = 200
"""Those of lists and objects within a line. Without a bound the time for them grows with the square of their number."""

_NOTHING = frozenset({"", "~", "null"})
"""How YAML says that there is no value."""

_MEDIA_TYPES = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
}


class Interfaces:
    """Reads them. All of it blocks."""

    def __init__(self, settings: SkillSettings) -> None:
        self._settings = settings
        self._texts: FileCache[dict[str, str]] = FileCache()
        self._icons: FileCache[str] = FileCache(256)

    def read(self, skill: Path, inside: Sequence[Path]) -> SkillInterface | None:
        """Of the skill in this folder; None where it says nothing. ``inside``: what all its files must lie in.

        Raises ``FileProblem`` for a file that cannot be used, and names it.
        """
        names = _agents(skill / "agents", inside)
        if not names:
            return None
        name = _FAVOURITE if _FAVOURITE in names else names[0]
        try:
            most = self._settings.interface_bytes
            said = self._texts.get(skill / "agents" / name, most, _texts, inside=inside) or {}
        except FileProblem as problem:
            raise FileProblem(f"agents/{name}: {problem}") from None
        texts = {key: said[key][:most] for key, most in _TEXTS.items() if key in said}
        icons = {key: self._icon(skill, said[key], inside) for key in _ICONS if key in said}
        return SkillInterface(agents=tuple(Path(name).stem for name in names), **texts, **icons)

    def _icon(self, skill: Path, path: str, inside: Sequence[Path]) -> str | None:
        media_type = _MEDIA_TYPES.get(Path(path).suffix.lower(), "application/octet-stream")
        try:
            encoded = self._icons.get(skill / path, self._settings.icon_bytes, _base64, inside=inside)
        except FileProblem:
            return None
        return f"data:{media_type};base64,{encoded}" if encoded else None


def without_icons(interface: SkillInterface) -> SkillInterface:
    """The rest of it."""
    return SkillInterface(
        display_name=interface.display_name,
        short_description=interface.short_description,
        default_prompt=interface.default_prompt,
        agents=interface.agents,
    )


def icons_size(interface: SkillInterface) -> int:
    """Characters of its icons."""
    return len(interface.icon_small or "") + len(interface.icon_large or "")


def _agents(folder: Path, inside: Sequence[Path]) -> list[str]:
    """Names of the files that may say something, sorted."""
    if not contained(folder, inside):
        return []
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST_ENTRIES)]
    except OSError:
        return []
    return sorted(name for name in names if name.endswith((".yaml", ".yml")) and name.isprintable())[:_MOST_AGENTS]


def _texts(data: bytes) -> dict[str, str]:
    """The texts below ``interface``. Raises ``FileProblem``."""
    if data.count(b"[") + data.count(b"{") > _MOST_BRACKETS:
        raise FileProblem("it has too many brackets")
    yaml = importlib.import_module("yaml")  # late: it takes longer than all skills together
    # These loaders make nothing but texts, lists and objects: no types of YAML's, no merged keys that grow for ever.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        given = yaml.load(data, Loader=loader)
    except (yaml.YAMLError, UnicodeError, RecursionError, ValueError):
        raise FileProblem("it is no YAML") from None
    said = given.get("interface") if isinstance(given, dict) else None
    if not isinstance(said, dict):
        return {}
    wanted = (*_TEXTS, *_ICONS)
    texts = {key: said[key].strip() for key in wanted if isinstance(said.get(key), str)}
    return {key: text for key, text in texts.items() if text not in _NOTHING}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
