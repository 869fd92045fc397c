"""Settings of the ``[skills]`` section: where skills are looked for, and how much of them is taken."""

from __future__ import annotations

import msgspec


class SkillSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where skills are looked for, and how much of them is taken. Sizes are bytes."""

    folders: tuple[str, ...] = ()
    """More folders of skills, after ``~/.agent/skills`` and before the built-in ones."""

    most: int = 500
    """Skills that one folder may have; the rest, in the order of their names, is skipped."""

    skill_bytes: int = 256 * 1024
    """Size of one ``SKILL.md``; a larger one is skipped."""

    interface_bytes: int = 16 * 1024
    """Size of one file of a skill's ``agents``; a larger one is skipped."""

    icon_bytes: int = 128 * 1024
    """Size of one icon; a larger one is left out."""

    icons_bytes: int = 4 * 1024 * 1024
    """All icons of one list, as they are sent; those beyond are left out."""

    expanded_chars: int = 1_000_000
    """Characters that a slash command of the configuration may come to with its arguments."""
