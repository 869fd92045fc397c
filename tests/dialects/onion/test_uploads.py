"""Files and pictures over a real socket: kept where the agent finds them, refused without harm (seed: File Upload
Protocol).
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from .conftest import MakeServer
from .rig import Frame, Onion, calls, of, script

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"pixels").decode()
IMAGE = f"data:image/png;base64,{PNG}"
TOO_MANY = "Too many files: 11 (max: 10). Increase max_files_per_request in host.yaml"


def a_file(name: str, data: bytes = b"Tea is at five.") -> dict[str, str]:
    return {"name": name, "data": "data:text/plain;base64," + base64.b64encode(data).decode()}


def stored(served: Onion, frames: list[Frame]) -> list[Path]:
    """Where the files of these frames lie."""
    return [served.work / file["path"] for it in of(frames, "files_received") for file in it["files"]]


async def test_a_tool_reads_what_came_with_the_prompt(served: Onion) -> None:
    async with served.client() as talk:
        frames = await talk.turn(
            "what do these say?", files=[a_file("tea.txt"), a_file("../../b", b"x")], images=[IMAGE]
        )
        (said,) = of(frames, "user_input")
        assert said["content"] == "what do these say?", "spec §15 row 30"
        (received,) = of(frames, "files_received")
        assert [file["name"].partition("_")[2] for file in received["files"]] == ["tea.txt", "b"]
        assert [path.read_bytes() for path in stored(served, frames)] == [b"Tea is at five.", b"x"]
        path = received["files"][0]["path"]
        assert path.startswith(".co/uploads/")
        assert path in frames[-1]["result"], "the model was told where"
        frames = await talk.turn(script(*calls(("read", {"filePath": path})), "say read"))
        (result,) = of(frames, "tool_result")
        assert (result["status"], "Tea is at five." in result["result"]) == ("success", True)


async def test_after_a_refused_file_the_next_prompt_runs(served: Onion) -> None:
    """Spec §15 row 39."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"files": [a_file(str(n)) for n in range(11)]}, TOO_MANY),
        ({"files": [a_file("a"), {"name": "b", "data": "@@@@"}]}, "File b: data is not valid base64"),
        ({"files": "abc"}, "files must be a list"),
        ({"images": ["data:image/png;base64,PHN2Zy8+"]}, "Image 1 is none: PNG, JPEG, GIF and WebP are taken"),
        ({"files": [a_file("a", bytes(11 * 1024 * 1024))]}, "File too large: a (11.0MB, max: 10MB)"),
    ]
    async with served.client() as talk:
        before = set((served.work / ".co").rglob("*"))
        for fields, said in wrong:
            talk.input("hello", **fields)
            assert (await talk.next("ERROR"))["message"].startswith(said)
            assert await talk.status() == "connected"
        frames = await talk.turn("hello again")
        assert frames[-1]["result"] == "You said: hello again"
        assert set((served.work / ".co").rglob("*")) == before, "nothing is left of what was refused"


async def test_what_comes_while_the_agent_works_is_not_lost(served: Onion) -> None:
    """Spec §6: the original drops images and files of a runtime input without a word."""
    async with served.client() as talk:
        talk.input(script("deltas 3\npause 500\n" + calls(("glob", {"pattern": "none-*"}))[0], "say done"))
        await talk.next("llm_call")
        talk.input("and this", files=[a_file("more.txt")], images=[IMAGE])
        ack = await talk.next("RUNTIME_INPUT_ACK")
        await talk.until(lambda: of(talk.frames, "OUTPUT"), "the turn's end")
        said = next(it for it in of(talk.frames, "user_input") if it["id"] == ack["id"])
        assert said["content"] == "and this"
        await talk.until(lambda: of(talk.frames, "files_received"), "its file is told of")
        (path,) = stored(served, talk.frames)
        assert path.read_bytes() == b"Tea is at five."


@pytest.mark.slow
async def test_ten_files_of_ten_megabytes_fit_and_another_client_goes_on(make_server: MakeServer) -> None:
    served = await make_server()
    data = os.urandom(10 * 1024 * 1024)
    message = json.dumps(
        {"type": "INPUT", "prompt": "all of it", "files": [a_file(f"{n}.bin", data) for n in range(10)]}
    )
    async with served.client() as talk, served.client() as other:
        talk.wire.send(message)
        asked = 0
        output = asyncio.create_task(talk.next("OUTPUT"))
        while not output.done():
            await other.status()
            asked += 1
        await output
        assert asked > 1, "somebody else was answered meanwhile"
        kept = stored(served, talk.frames)
        assert len(kept) == 10
        assert all(path.stat().st_size == len(data) for path in kept)
        assert kept[0].read_bytes() == data


async def test_what_was_acknowledged_is_there_after_a_kill(make_server: MakeServer) -> None:
    """Invariant 3."""
    served = await make_server()
    async with served.client() as talk:
        session = talk.session_id
        talk.input(script("say waiting\nwait"), files=[a_file("kept.txt")], images=[IMAGE])
        (path,) = await talk.until(lambda: stored(served, talk.frames), "its file is told of")
        pictures = list((served.folder.parent / "data" / "artifacts").rglob("*"))
        served.kill()
    await served.start()
    assert path.read_bytes() == b"Tea is at five."
    assert [it for it in pictures if not it.exists()] == []
    assert [it for it in pictures if it.is_file()] != []
    async with served.client(session) as talk:
        frames = await talk.turn("what was it?")
        assert frames[-1]["type"] == "OUTPUT"
