"""The file of permissions for good: whose it is, and what happens when it is not as it should be."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest

from dragoman.agents.native.mcp.consents import Consents
from dragoman.hub.workspace_config import McpServer

ENTRY = McpServer(name="n", layer="project", transport="stdio", command="x", env={"KEY": "a-secret"})


async def test_a_permission_is_there_for_whoever_reads_the_file_next(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "mcp.json"
    first = Consents(file)
    mark = await first.mark(tmp_path, ENTRY)
    assert not await first.has(mark)
    await first.add(mark)
    second = Consents(file)
    assert await second.mark(tmp_path, ENTRY) == mark
    assert await second.has(mark)
    assert file.stat().st_mode & 0o777 == 0o600
    assert "a-secret" not in file.read_text()


@pytest.mark.parametrize(
    "change",
    [
        {"command": "y"},
        {"args": ("z",)},
        {"env": {"KEY": "b-secret"}},
        {"env": {"KEY": "a-secret", "MORE": ""}},
        {"cwd": "below"},
        {"trusted": True},
        {"url": "http://x"},
        {"headers": {"A": "b"}},
    ],
    ids=str,
)
async def test_whatever_changes_in_an_entry_makes_it_another(tmp_path: Path, change: dict[str, object]) -> None:
    consents = Consents()
    changed = msgspec.structs.replace(ENTRY, **change)
    assert await consents.mark(tmp_path, ENTRY) != await consents.mark(tmp_path, changed)
    assert await consents.mark(tmp_path, ENTRY) != await consents.mark(tmp_path / "below", ENTRY)


@pytest.mark.parametrize("content", [b"", b"{", b'{"key": 5}', b'{"version": 1, "key": "' + b"x" * 64 + b'"}'])
async def test_a_file_that_cannot_be_read_permits_nothing_and_is_replaced(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(content)
    file.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        consents = Consents(file)
        mark = await consents.mark(tmp_path, ENTRY)
    assert "cannot be used" in caplog.text
    assert not await consents.has(mark)
    await consents.add(mark)
    assert await Consents(file).has(mark)


async def test_a_file_that_others_may_write_permits_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "mcp.json"
    first = Consents(file)
    mark = await first.mark(tmp_path, ENTRY)
    await first.add(mark)
    file.chmod(0o666)
    assert not await Consents(file).has(mark)
    assert "for its owner only" in caplog.text


async def test_a_folder_that_takes_no_file_costs_only_the_memory_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "keys").write_text("no folder")
    consents = Consents(tmp_path / "keys" / "mcp.json")
    mark = await consents.mark(tmp_path, ENTRY)
    await consents.add(mark)
    assert await consents.has(mark)
    assert "cannot be kept" in caplog.text
