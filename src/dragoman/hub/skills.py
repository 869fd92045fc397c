"""The Skills port: instructions for kinds of task, and the slash commands, as they are on disk now.

Read by agents (what their prompt and their tool ``skill`` offer) and by dialects (lists, and switching skills on and
off). Everything depends on the folder that a session works in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

import msgspec

SkillSource = Literal["project", "global", "user", "built-in"]
CommandSource = Literal["command", "mcp", "skill"]


class SkillInterface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a UI may show a skill. Icons are ``data:`` URIs; ``agents`` are the names of the files that say so."""

    display_name: str | None = None
    short_description: str | None = None
    icon_small: str | None = None
    icon_large: str | None = None
    default_prompt: str | None = None
    agents: tuple[str, ...] | None = None


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill. ``path`` is its ``SKILL.md``; ``name`` its folder's name."""

    name: str
    path: str
    source: SkillSource
    enabled: bool
    triggers: tuple[str, ...]
    description: str
    interface: SkillInterface | None = None


class SkillContent(msgspec.Struct, frozen=True):
    """A skill with its text, without the front matter. ``file`` is all of ``SKILL.md``: what an agent is given."""

    skill: Skill
    content: str
    file: str = ""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command. ``hints`` are its placeholders: ``$1``, ``$2``… then ``$ARGUMENTS``."""

    name: str
    source: CommandSource
    hints: tuple[str, ...]
    description: str | None = None


class Expanded(msgspec.Struct, frozen=True):
    """A command that was called: ``shown`` is what the person typed (``/review HEAD~3``), ``text`` what that means."""

    shown: str
    text: str


class Skills(Protocol):
    """See the module. Names that could lead out of a folder of skills are unknown ones."""

    async def skills(self, cwd: Path) -> tuple[Skill, ...]:
        """Every skill that can be listed for this folder, those that are switched off among them."""

    async def in_use(self, cwd: Path) -> tuple[Skill, ...]:
        """Those that an agent in this folder may load; ``interface`` is left out."""

    def in_use_blocking(self, cwd: Path) -> tuple[Skill, ...]:
        """As ``in_use``, for who is in a thread already."""

    async def read(self, cwd: Path, name: str) -> SkillContent | None:
        """One of the listed skills with its text."""

    async def load(self, cwd: Path, name: str) -> SkillContent | None:
        """One that an agent may load, with its text. Also an unlisted ``NAME.md`` in a folder of skills."""

    async def disable(self, cwd: Path, name: str) -> None:
        """Switch a global skill off. Raises ``InvalidRequest``, which says why it cannot be, and
        ``StorageUnavailable`` when the disk refuses."""

    async def enable(self, cwd: Path, name: str) -> None:
        """Switch it on again. Raises as ``disable``."""

    async def delete(self, cwd: Path, name: str) -> None:
        """Remove a global skill for good. Raises as ``disable``."""

    async def commands(self, cwd: Path) -> tuple[Command, ...]:
        """The slash commands of this folder, sorted by name."""

    async def expand(self, cwd: Path, name: str, arguments: str) -> Expanded | None:
        """What a command means with these arguments; None when there is none of that name.

        Raises ``LimitReached`` when it would be too long. It may be blank.
        """
