"""When the disk does not take it: an answer that says so, and nothing that was not kept is shown as if it were."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.dialects.cin.played import played

NOTE = {"text": "note", "position": {"q": 1, "r": 2}}


async def test_what_cannot_be_kept_is_refused_and_tried_anew_the_next_time(tmp_path: Path) -> None:
    state = tmp_path.resolve() / "state"
    state.write_text("in the way")
    async with played(tmp_path) as play:
        (await play.ask("POST", "/tiles", NOTE)).failed(503, "cannot be written")
        assert (await play.good("GET", "/tiles"))["tiles"] == []
        (await play.ask("POST", "/feedback", {"type": "bug", "description": "d"})).failed(503)
        assert (await play.good("GET", "/feedback"))["total"] == 0
        made = await play.made()
        assert (await play.good("GET", "/projects"))["projects"] == []
        assert (await play.good("GET", f"/sessions/{made['id']}"))["ok"], "a session does not need it"

        state.unlink()
        tile = (await play.good("POST", "/tiles", NOTE, 201))["tile"]
        assert (await play.good("GET", "/tiles"))["tiles"] == [tile]
        await play.good("POST", "/feedback", {"type": "bug", "description": "d"}, 201)
        await play.made()
        assert len((await play.good("GET", "/projects"))["projects"]) == 1


@pytest.mark.parametrize("kept", ["[1]", '{"projects": 5}', "[]", "\x00", '[{"id": 5}]', "x" * 1000])
async def test_files_of_another_shape_are_set_aside(tmp_path: Path, kept: str) -> None:
    state = tmp_path.resolve() / "state"
    (state / "feedback").mkdir(parents=True)
    for name in ("tiles.json", "projects.json", "feedback/x.json"):
        (state / name).write_text(kept)
    async with played(tmp_path) as play:
        assert (await play.good("GET", "/tiles"))["tiles"] == []
        assert (await play.good("GET", "/projects"))["projects"] == []
        assert (await play.good("GET", "/feedback"))["feedback"] == []
        assert (await play.good("GET", "/browse"))["items"][0]["path"] == str(play.folder)
        await play.good("POST", "/tiles", NOTE, 201)
        await play.made()
    assert (state / "projects.json.damaged").read_text() == kept


async def test_a_file_that_is_no_file_is_set_aside(tmp_path: Path) -> None:
    state = tmp_path.resolve() / "state"
    (state / "tiles.json").mkdir(parents=True)
    async with played(tmp_path) as play:
        assert (await play.good("GET", "/tiles"))["tiles"] == []
        await play.good("POST", "/tiles", NOTE, 201)
    assert (state / "tiles.json.damaged").is_dir()


@pytest.mark.parametrize("path", ["/tiles", "/event"])
async def test_a_body_that_does_not_come_is_waited_for_by_nobody_for_ever(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.dialects.bodies.FIRST_SECONDS", 0.2)
    async with played(tmp_path) as play:
        reader, writer = await asyncio.open_connection("127.0.0.1", play.port)
        writer.write(b"POST " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert b" 408 " in await asyncio.wait_for(reader.readline(), 10)
        writer.close()


async def test_voice_is_answered_as_long_as_nobody_hears(tmp_path: Path) -> None:
    async with played(tmp_path) as play, play.link() as link:
        await link.say({"type": "voice_start"})
        told = await link.hear("cin:voice_error")
        assert told["data"] == told["payload"] == {"error": "Voice input not configured"}
        assert (await link.hear("voice_error"))["payload"] == told["data"]
        await link.say({"type": "voice_stop"})
        await link.say(b"\x00\x01" * 1000)
        await link.pong()
