"""Differences in lists, and in what a folder is configured to."""

from __future__ import annotations

from typing import Any

from .compare import ANYTHING
from .recording import Entry, Frame
from .rewriting import each
from .worlds import OWN_SKILLS

_OWN = ("commit", "debug", "docs")
"""Skills that come with the server: whatever they say of themselves."""

_PLACES = ("project", "global", "user", "built-in")


def skills(_: str, entries: list[Entry]) -> list[Entry]:
    """Within a place they are sorted, those that come with the server are last; a skill's text has no placeholders."""

    def change(frame: Frame) -> None:
        if frame["type"] == "skills_list":
            frame["skills"].sort(key=lambda skill: (_PLACES.index(skill["source"]), skill["name"]))
            frame["skills"] += [_skill(name) for name in _OWN]
        elif frame["type"] == "commands":
            for command in frame["commands"]:
                if command["source"] == "skill":
                    command["hints"] = []
            frame["commands"] += [_command(name) for name in _OWN]
            frame["commands"].sort(key=lambda command: command["name"].casefold())

    return each(entries, change)


def _skill(name: str) -> dict[str, Any]:
    told = {"triggers": ANYTHING, "description": ANYTHING, "interface": ANYTHING}
    path = f"{OWN_SKILLS}/{name}/SKILL.md"
    return {"name": name, "path": path, "source": "built-in", "enabled": True, **told}


def _command(name: str) -> dict[str, Any]:
    return {"name": name, "description": ANYTHING, "source": "skill", "hints": []}


def configured(name: str, entries: list[Entry]) -> list[Entry]:
    """A provider that has a key is taken before one that has none; addresses have no slash behind them."""

    def change(frame: Frame) -> None:
        if name == "observability_disabled" and frame["type"] == "server_hello":
            frame["config"] |= {"provider": "openai", "model": "gpt-5.2"}
        elif frame["type"] == "observability_status":
            addresses = frame["observability"]["queryApi"]
            addresses |= {key: address.rstrip("/") for key, address in addresses.items()}

    return each(entries, change)
