"""The dialect's page names all that there is."""

from __future__ import annotations

import re
from pathlib import Path

from dragoman.dialects.cin import client_messages
from dragoman.dialects.cin.ingest import PATHS

from . import seed_page

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "dialects" / "cin.md").read_text("utf-8")
CODE = "".join(file.read_text("utf-8") for file in (ROOT / "src" / "dragoman" / "dialects" / "cin").glob("*.py"))


def named() -> set[str]:
    """What stands there in code letters, without the HTTP methods in front of it."""
    return {text.rpartition(" ")[2] for text in re.findall(r"`([^`\n]+)`", PAGE)}


def test_every_route_is_named() -> None:
    routes = set(re.findall(r'resource\(host, "([^"]+)", [A-Z]+=[a-z]', CODE)) | PATHS
    assert len(routes) > 30
    assert {re.sub(r"\{(\w+)[^}]*\}", r":\1", route) for route in routes} <= named()


def test_every_message_is_named() -> None:
    told = {f"cin:{name}" for name in re.findall(r'extension\("(\w+)"', CODE)} | {"cin:git_status", "cin:text_tiles"}
    assert told | set(seed_page.messages()) <= named()
    assert set(client_messages._READERS) <= named()
    assert set(re.findall(r'legacy\("(\w+)"', CODE)) <= named()
