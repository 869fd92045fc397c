"""The base that all facts share."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = Any
"""A JSON value exactly as it came: null, bool, number, string, list or object."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Something that happened in a session. Subclasses carry the tag that names them on disk.

    Fields added later must have a default, so that logs written before stay readable.
    """
