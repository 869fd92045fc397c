"""Pictures that come with a prompt (spec §3.2, §11: 15): what is taken, and that no name leads anywhere."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.cin.played import Play, played
from tests.hub.rig import until

PIXEL = base64.b64encode(b"any bytes").decode()


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    async with played(tmp_path, image_bytes=1000) as play:
        yield play


@pytest.mark.parametrize(
    ("kind", "ending"),
    [("image/png", "png"), ("image/jpeg", "jpg"), ("image/gif", "gif"), ("image/webp", "webp")],
)
async def test_pictures_come_with_a_prompt_as_files_that_it_names(play: Play, kind: str, ending: str) -> None:
    made = await play.made()
    body = {
        "prompt": "see",
        "images": [{"data": PIXEL, "mediaType": kind}, {"data": PIXEL, "mediaType": kind, "name": "a b"}],
    }

    paths = (await play.good("POST", f"/sessions/{made['id']}/prompt", body))["imagePaths"]

    assert [Path(path).parent for path in paths] == [play.folder / ".cin-images"] * 2
    assert Path(paths[0]).name.startswith("image-")
    assert Path(paths[1]).name == f"a_b.{ending}"
    assert [Path(path).read_bytes() for path in paths] == [b"any bytes"] * 2
    await until(lambda: play.programs.typed)
    assert play.programs.typed == [f"[Image: {paths[0]}]\n[Image: {paths[1]}]\n\nsee"]


@pytest.mark.parametrize(
    ("image", "status", "words"),
    [
        ({"data": PIXEL, "mediaType": "image/svg+xml"}, 400, "Invalid mediaType"),
        ({"data": PIXEL, "mediaType": "application/pdf"}, 400, "Invalid mediaType"),
        ({"data": PIXEL, "mediaType": "IMAGE/PNG"}, 400, "Invalid mediaType"),
        ({"mediaType": "image/png"}, 400, "data and mediaType"),
        ({"data": PIXEL}, 400, "data and mediaType"),
        ({"data": "?", "mediaType": "image/png"}, 400, "base64"),
        ({"data": 5, "mediaType": "image/png"}, 400, "Invalid fields"),
        ({"data": base64.b64encode(bytes(1001)).decode(), "mediaType": "image/png"}, 413, "larger than 1000"),
    ],
)
async def test_what_is_no_picture_is_refused_and_nothing_is_sent(
    play: Play, image: dict[str, Any], status: int, words: str
) -> None:
    path = f"/sessions/{(await play.made())['id']}/prompt"
    good = {"data": PIXEL, "mediaType": "image/png"}

    (await play.ask("POST", path, {"prompt": "x", "images": [good, image]})).failed(status, words)
    assert play.programs.typed == []
    assert not (play.folder / ".cin-images").exists()
    (await play.ask("POST", path, {"images": [good]})).failed(400, "required")
    (await play.ask("POST", path, {"prompt": "x", "images": [good] * 21})).failed(400, "at most 20")


@pytest.mark.parametrize(
    "name",
    [
        "../../escape",
        "/etc/cron.d/escape",
        "..",
        "...",
        ".bashrc",
        "..\\..\\escape",
        "a/b/c",
        "a\u0000b",
        "\u202egnp.exe",
        "x" * 5000,
        "-rf",
        "CON",
        "\uff0e\uff0e\uff0fescape",
        "a.png",
        "",
    ],
)
async def test_no_name_of_a_picture_leads_out_of_their_folder(play: Play, tmp_path: Path, name: str) -> None:
    path = f"/sessions/{(await play.made())['id']}/prompt"
    body = {"prompt": "x", "images": [{"data": PIXEL, "mediaType": "image/png", "name": name}]}

    for _ in range(2):  # a name that is taken is not taken again
        (saved,) = (await play.good("POST", path, body))["imagePaths"]
        assert Path(saved).parent == play.folder / ".cin-images"
        assert Path(saved).suffix == ".png"
        assert not Path(saved).name.startswith((".", "-"))
    assert len(list((play.folder / ".cin-images").iterdir())) == 2
    assert not list(tmp_path.rglob("escape"))


async def test_pictures_go_into_no_folder_that_is_a_link(play: Play, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (play.folder / ".cin-images").symlink_to(elsewhere)
    path = f"/sessions/{(await play.made())['id']}/prompt"
    body = {"prompt": "x", "images": [{"data": PIXEL, "mediaType": "image/png"}]}

    (await play.ask("POST", path, body)).failed(409)
    assert list(elsewhere.iterdir()) == []
    assert play.programs.typed == []
