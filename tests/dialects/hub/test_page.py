"""The page that strangers write clients from says what the code does."""

from __future__ import annotations

import re

from dragoman.dialects.hub import replies, workspace_replies
from dragoman.dialects.hub.errors import STATUS
from dragoman.dialects.hub.messages import MESSAGES, PROTOCOL
from dragoman.dialects.hub.routes import ROUTES
from dragoman.dialects.hub.views import Row, Snapshot

from .page import PAGE, renewed

TEXT = PAGE.read_text()


def cells(name: str) -> list[list[str]]:
    """The rows of every table whose first cell is ``name``."""
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in TEXT.splitlines() if line[:1] == "|"]
    return [row for row in rows if f"`{name}`" in row[0].split(", ")]


def test_what_is_made_from_the_code_is_new() -> None:
    assert renewed(TEXT) == TEXT, "run: .venv/bin/python -m tests.dialects.hub.page"


def test_every_message_of_a_client_is_there_with_every_field() -> None:
    for kind in MESSAGES:
        op = str(kind.__struct_config__.tag)
        rows = cells(op)
        assert rows, op
        said = " ".join(cell for row in rows for cell in row)
        as_list = "as `list`" in said
        for field in kind.__struct_encode_fields__:
            if field != "id" and not (as_list and field in ("status", "kind", "limit")):
                assert f"`{field}`" in said, f"{op}.{field}"


def test_every_message_of_the_server_is_there_with_every_field() -> None:
    told = [kind for module in (replies, workspace_replies) for kind in vars(module).values()]
    for kind in told:
        if not isinstance(kind, type) or kind.__module__ not in (replies.__name__, workspace_replies.__name__):
            continue
        if kind.__struct_config__.tag is not None:
            assert f'"type":"{kind.__struct_config__.tag}"' in TEXT, kind
        for field in kind.__struct_encode_fields__:
            assert re.search(rf'[`"]{field}[`"]', TEXT), f"{kind.__name__}.{field}"


def test_rows_and_snapshots_are_there_with_every_field() -> None:
    for kind in (Row, Snapshot):
        for field in kind.__struct_encode_fields__:
            assert re.search(rf'[`"]{field}[`"]', TEXT), f"{kind.__name__}.{field}"


def test_every_route_and_every_error_is_there() -> None:
    for route in ROUTES:
        assert f"`{route.method} {route.path}`" in TEXT, route.path
    for code, status in STATUS.items():
        assert any(row[1] == str(status) for row in cells(code)), code
    assert f'"protocol":{PROTOCOL}' in TEXT
