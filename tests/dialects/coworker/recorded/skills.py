"""The skills that the original's server found: those of the recorder, and those built in, as far as they were shown."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .recording import frames, load

GLOBAL_SKILL = """---
description: Global test skill
---

# Global Skill

TRIGGERS: alpha, beta , gamma

Use $1 with $2 then $ARGUMENTS.
"""

PROJECT_PDF = "---\ndescription: Project pdf overrides built-in\n---\n# P\n"

_BODIES = {"spreadsheet": "# Spreadsheet\n\nIt costs $3.\n"}
"""Texts that were left out of the recordings, where something of them shows all the same."""

_KEYS = {"displayName": "display_name", "shortDescription": "short_description", "defaultPrompt": "default_prompt"}
_ICONS = {"iconSmall": "icon_small", "iconLarge": "icon_large"}


def write_built_in(folder: Path) -> None:
    """Every skill that a plain folder listed."""
    said = frames(load("lists"))
    listed = next(frame["skills"] for frame in said if frame["type"] == "skills_list")
    bodies = {frame["skill"]["name"]: frame["content"] for frame in said if frame["type"] == "skill_content"}
    for skill in listed:
        body = bodies.get(skill["name"]) or _BODIES.get(skill["name"]) or f"# {skill['name']}\n"
        write_skill(folder / skill["name"], f"---\ndescription: {skill['description']}\n---\n\n{body}")
        if "interface" in skill:
            _write_interface(folder / skill["name"], skill["interface"])


def write_skill(folder: Path, text: str) -> None:
    """One skill."""
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text, "utf-8")


def write_recorders(project: Path, home: Path) -> None:
    """Those that the recorder had made, in all places that a person's skills may lie in."""
    own = project / ".agent" / "skills"
    write_skill(own / "emptyskill", "")
    write_skill(own / "pskill", "---\ndescription: Project skill\n---\nProject body\n")
    write_skill(own / "pdf", PROJECT_PDF)
    write_skill(home / ".agent" / "skills" / "uskill", "# User Skill heading\n\nUser body\n")
    everywhere = home / ".cowork" / "skills" / "gskill"
    write_skill(everywhere, GLOBAL_SKILL)
    icon = "data:image/svg+xml;base64," + base64.b64encode(b"<svg/>\n").decode()
    told = {"displayName": "G Skill", "shortDescription": "short", "defaultPrompt": "Do it", "iconSmall": icon}
    _write_interface(everywhere, {**told, "agents": ["claude", "openai"]})


def _write_interface(skill: Path, told: Mapping[str, Any]) -> None:
    """The file of each agent that is named; the last of them says it all."""
    lines = ["interface:"]
    lines += [f"  {key}: {json.dumps(told[name])}" for name, key in _KEYS.items() if name in told]
    for name, key in _ICONS.items():
        if name in told:
            lines.append(f"  {key}: assets/{_write_icon(skill, name, told[name])}")
    (skill / "agents").mkdir()
    for agent in told["agents"]:
        (skill / "agents" / f"{agent}.yaml").write_text("\n".join(lines) + "\n", "utf-8")


def _write_icon(skill: Path, name: str, uri: str) -> str:
    """A file that comes out as that data URI, or as one that begins like it where the recording left the rest out."""
    kind, _, data = uri.partition(";base64,")
    data = data.partition("<elided>")[0]
    file = f"{name}.svg" if "svg" in kind else f"{name}.png"
    (skill / "assets").mkdir(exist_ok=True)
    (skill / "assets" / file).write_bytes(base64.b64decode(data + "A" * (-len(data) % 4)))
    return file
