"""Files and pictures that come with prompts: what is kept, where, and what a client is told that is refused."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.errors import Busy, ConflictingRepeat
from dragoman.hub.events import ArtifactStored, Attachment, PromptSubmitted
from dragoman.hub.permissions import LOCAL
from dragoman.services.uploads import Received, UploadFailed, UploadRefused, UploadSettings, discard
from tests.hub.rig import idle, until

from .rig import GIF, JPEG, NULL, PNG, SECONDS, WEBP, Rig, a_file, coded, names, paths

RECORDED = Path(__file__).parents[2] / "data" / "onion" / "uploads.jsonl"
MB = 1024 * 1024


async def test_files_lie_in_the_folder_and_the_model_is_told_where(rig: Rig) -> None:
    received = await rig.receive(prompt="read these", files=[a_file("a.txt", b"one"), a_file("../b c.pdf", b"")])
    assert rig.uploads() == {f"{SECONDS}_a.txt": b"one", f"{SECONDS}_b c.pdf": b""}
    assert received.files == (
        Attachment("file", f"{SECONDS}_a.txt", f"upload:.co/uploads/{SECONDS}_a.txt", "text/plain", 3),
        Attachment("file", f"{SECONDS}_b c.pdf", f"upload:.co/uploads/{SECONDS}_b c.pdf", "text/plain", 0),
    )
    assert received.images == ()
    assert received.content is not None
    assert received.content.startswith("read these\n\n<system-reminder>\n")
    assert received.content.endswith("\n</system-reminder>")
    for path in paths(received.files):
        assert f"\n- {path} (" in received.content
        assert (rig.cwd / path).is_file()
    assert str(rig.cwd) not in received.content
    assert {stat.S_IMODE(it.stat().st_mode) for it in rig.folder.iterdir()} == {0o600}
    assert {stat.S_IMODE(it.stat().st_mode) for it in (rig.folder, rig.folder.parent)} == {0o700}


async def test_pictures_lie_in_the_store_and_are_what_their_bytes_say(rig: Rig) -> None:
    pictures = [PNG, JPEG, GIF, WEBP]
    received = await rig.receive(
        images=[coded(it, "data:image/png;base64,") for it in pictures[:3]] + [coded(WEBP, "")]
    )
    kinds = ["image/png", "image/jpeg", "image/gif", "image/webp"]
    assert [(it.kind, it.media_type, it.size) for it in received.images] == [
        ("image", kind, len(it)) for kind, it in zip(kinds, pictures, strict=True)
    ]
    assert names(received.images) == ["image-1.png", "image-2.jpg", "image-3.gif", "image-4.webp"]
    for it, data in zip(received.images, pictures, strict=True):
        assert await rig.store.read(rig.session.id, it.artifact) == data
    assert (received.files, received.content) == ((), None)
    assert not (rig.cwd / ".co").exists()


async def test_who_cannot_be_shown_pictures_gets_files(rig: Rig) -> None:
    received = await rig.receive(images=[coded(PNG)], files=[a_file("a.txt")], inline_images=False)
    assert names(received.files) == [f"{SECONDS}_a.txt", f"{SECONDS}_image-1.png"]
    assert [it.media_type for it in received.files] == ["text/plain", "image/png"]
    assert rig.uploads()[f"{SECONDS}_image-1.png"] == PNG
    assert received.images == ()
    assert received.content is not None
    assert "image-1.png" in received.content
    assert rig.pictures() == []


@pytest.mark.parametrize("nothing", [None, [], NULL], ids=["absent", "empty", "null"])
async def test_nothing_comes_with_most_prompts(rig: Rig, nothing: Any) -> None:
    received = await rig.receive(images=nothing, files=nothing)
    assert (received.files, received.images, received.content) == ((), (), None)
    assert not (rig.cwd / ".co").exists()


# What was recorded of the original


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


DIFFERENT = {
    "files_errors/noname": "File 1 has no name",
    "files_errors/badb64": "File x: data is not valid base64",
    "files_errors/notlist": "files must be a list",
}
"""What the original's words say of its own inside, and what it takes as an empty file."""


@pytest.mark.parametrize("frame", recorded(), ids=lambda frame: frame["from"])
async def test_recorded_prompts_are_taken_or_refused_as_the_seed_says(rig: Rig, frame: dict[str, Any]) -> None:
    wanted = DIFFERENT.get(frame["from"], frame.get("error"))
    if wanted is not None:
        with pytest.raises(UploadRefused) as refused:
            await rig.receive(files=frame["files"], images=frame["images"])
        assert str(refused.value) == wanted
        assert (rig.uploads(), rig.pictures()) == ({}, [])
        return
    received = await rig.receive(files=frame["files"], images=frame["images"])
    there = frame.get("received") or [f"0_{frame['files'][0]['name']}"]
    ours = [name.partition("_")[2] for name in names(received.files)]
    assert ours == [name.partition("_")[2].strip(".") or "file" for name in there]
    assert len(received.images) == len(frame["images"] or [])
    assert len(rig.uploads()) == len(there)


# Limits


@pytest.mark.parametrize("images", [0, 1, 11], ids=["files", "both", "pictures"])
async def test_too_many_are_refused(rig: Rig, images: int) -> None:
    files = [a_file(str(number)) for number in range(11 - images)]
    with pytest.raises(UploadRefused) as refused:
        await rig.receive(files=files, images=[coded(PNG)] * images)
    assert str(refused.value) == "Too many files: 11 (max: 10). Increase max_files_per_request in host.yaml"
    assert (rig.uploads(), rig.pictures()) == ({}, [])
    assert len((await rig.receive(files=files[1:], images=[coded(PNG)] * min(images, 10))).files) <= 10


async def test_the_size_is_that_of_the_bytes(rig: Rig) -> None:
    """Not of the text, which is a third longer (spec §15 row 39)."""
    largest = bytes(10 * MB)
    received = await rig.receive(files=[a_file("big.txt", largest)])
    assert received.files[0].size == 10 * MB
    with pytest.raises(UploadRefused) as refused:
        await rig.receive(files=[a_file("a/big.txt", largest + bytes(1 * MB))])
    assert str(refused.value) == "File too large: big.txt (11.0MB, max: 10MB). Increase max_file_size in host.yaml"
    with pytest.raises(UploadRefused, match=r"^File too large: big.txt \(10.0MB, max: 10MB\)"):
        await rig.receive(files=[a_file("big.txt", largest + b"x")])
    assert len(rig.uploads()) == 1


async def test_pictures_have_the_same_limit(rig: Rig) -> None:
    """Spec §15 row 29."""
    small = UploadSettings(max_file_size=0.5)
    with pytest.raises(UploadRefused) as refused:
        await rig.receive(images=[coded(PNG), coded(PNG + bytes(1 * MB))], settings=small)
    assert str(refused.value) == "Image too large: image-2.png (1.0MB, max: 0.5MB). Increase max_file_size in host.yaml"
    assert rig.pictures() == []


@pytest.mark.parametrize(
    ("files", "images", "said"),
    [
        ("abc", None, "files must be a list"),
        ({}, None, "files must be a list"),
        (1, None, "files must be a list"),
        (["a"], None, "File 1 must be an object with a name and data"),
        ([a_file("a"), None], None, "File 2 must be an object with a name and data"),
        ([{"data": "eHg="}], None, "File 1 has no name"),
        ([{"name": 1, "data": "eHg="}], None, "File 1: the name must be a text"),
        ([{"name": None, "data": "eHg="}], None, "File 1: the name must be a text"),
        ([{"name": "a"}], None, "File a: data must be a base64 text"),
        ([{"name": "a", "data": None}], None, "File a: data must be a base64 text"),
        ([{"name": "a", "data": ["eHg="]}], None, "File a: data must be a base64 text"),
        ([{"name": "a\n\u202e<b>", "data": "@"}], None, "File a_b_: data is not valid base64"),
        ([{"name": "..", "data": "@"}], None, "File 1: data is not valid base64"),
        (None, "eHg=", "images must be a list"),
        (None, [1], "Image 1: data must be a base64 text"),
        (None, [{"url": "x"}], "Image 1: data must be a base64 text"),
        (None, [""], "Image 1 is none: PNG, JPEG, GIF and WebP are taken"),
        (None, ["https://example.org/a.png"], "Image 1: data is not valid base64"),
        (
            None,
            [coded(PNG), coded(b"<svg/>", "data:image/png;base64,")],
            "Image 2 is none: PNG, JPEG, GIF and WebP are taken",
        ),
        (None, [coded(PNG)[:-1]], "Image 1: data is not valid base64"),
        ([a_file("a"), {"name": "b", "data": "AAA@"}], [coded(PNG)], "File b: data is not valid base64"),
        ([a_file("a")], [coded(PNG)[:-4] + "@@@@"], "Image 1: data is not valid base64"),
    ],
    ids=range(22),
)
async def test_what_is_wrong_is_refused_and_leaves_nothing(rig: Rig, files: Any, images: Any, said: str) -> None:
    with pytest.raises(UploadRefused) as refused:
        await rig.receive(files=files, images=images)
    assert str(refused.value) == said
    assert not isinstance(refused.value, UploadFailed)
    assert (rig.uploads(), rig.pictures()) == ({}, [])


# Names


async def test_nothing_is_ever_overwritten(rig: Rig) -> None:
    received = await rig.receive(files=[a_file("a", b"1"), a_file("x/a", b"2"), a_file("a", b"3")])
    again = await rig.receive(files=[a_file("a", b"4")])
    assert [names(it.files) for it in (received, again)] == [
        [f"{SECONDS}_a", f"{SECONDS}-2_a", f"{SECONDS}-3_a"],
        [f"{SECONDS}-4_a"],
    ]
    assert sorted(rig.uploads().values()) == [b"1", b"2", b"3", b"4"]


async def test_a_name_that_leads_elsewhere_already_is_passed_over(rig: Rig, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    rig.folder.mkdir(parents=True)
    (rig.folder / f"{SECONDS}_a").symlink_to(target)
    received = await rig.receive(files=[a_file("a")])
    assert names(received.files) == [f"{SECONDS}-2_a"]
    assert not target.exists()


async def test_many_at_once_lose_nothing(rig: Rig) -> None:
    all_ = await asyncio.gather(*(rig.receive(files=[a_file("a", str(n).encode())]) for n in range(20)))
    assert len({it.files[0].name for it in all_}) == 20
    assert sorted(rig.uploads().values()) == sorted(str(n).encode() for n in range(20))
    for n, it in enumerate(all_):
        assert (rig.cwd / paths(it.files)[0]).read_bytes() == str(n).encode()


@pytest.mark.parametrize("name", ["x" * 500, "ü" * 500 + ".pdf"], ids=["long", "wide"])
async def test_a_long_name_fits_a_disk(rig: Rig, name: str) -> None:
    received = await rig.receive(files=[a_file(name)] * 2)
    assert all(len(os.fsencode(it)) <= 255 for it in names(received.files))
    assert len(rig.uploads()) == 2


# Folders


@pytest.mark.parametrize("linked", [".co", ".co/uploads"])
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
async def test_nothing_is_written_through_a_link(rig: Rig, tmp_path: Path, linked: str, inside: bool) -> None:
    target = (rig.cwd if inside else tmp_path) / "elsewhere"
    (target / "uploads").mkdir(parents=True)
    (rig.cwd / linked).parent.mkdir(exist_ok=True)
    (rig.cwd / linked).symlink_to(target)
    with pytest.raises(UploadFailed, match="is no folder, or leads elsewhere"):
        await rig.receive(files=[a_file("a")], images=[coded(PNG)])
    assert [it for it in target.rglob("*") if it.is_file()] == []
    assert rig.pictures() == []


async def test_a_file_in_the_folders_place_is_said(rig: Rig) -> None:
    (rig.cwd / ".co").write_text("mine")
    with pytest.raises(UploadFailed, match="is no folder"):
        await rig.receive(files=[a_file("a")])
    assert (rig.cwd / ".co").read_text() == "mine"


async def test_a_folder_that_is_gone_is_said(rig: Rig) -> None:
    rig.cwd.rmdir()
    with pytest.raises(UploadFailed, match="No such file"):
        await rig.receive(files=[a_file("a")])
    rig.cwd.mkdir()


async def test_a_folder_that_was_there_keeps_its_mode(rig: Rig) -> None:
    (rig.cwd / ".co").mkdir(0o755)
    (rig.cwd / ".co").chmod(0o755)
    await rig.receive(files=[a_file("a")])
    assert stat.S_IMODE((rig.cwd / ".co").stat().st_mode) == 0o755


async def test_another_folder_may_be_set(rig: Rig) -> None:
    received = await rig.receive(files=[a_file("a")], settings=UploadSettings(folder="in/box"))
    assert paths(received.files) == [f"in/box/{SECONDS}_a"]
    assert (rig.cwd / "in" / "box" / f"{SECONDS}_a").read_bytes() == b"xyz"
    await discard(rig.session, received)
    assert list((rig.cwd / "in" / "box").iterdir()) == []


@pytest.mark.parametrize("folder", ["", ".", "/tmp", "../x", "a/../../b", "a\0b"], ids=range(6))
def test_a_folder_elsewhere_is_no_setting(folder: str) -> None:
    with pytest.raises(ValueError, match=r"uploads\.folder"):
        UploadSettings(folder=folder)


@pytest.mark.parametrize("number", [-1, 257])
def test_no_more_files_are_allowed_than_are_ever_read(number: int) -> None:
    with pytest.raises(ValueError, match=r"uploads\.max_files_per_request"):
        UploadSettings(max_files_per_request=number)


@pytest.mark.parametrize("length", [0, 221])
def test_a_name_must_fit_a_disk(length: int) -> None:
    with pytest.raises(ValueError, match=r"uploads\.name_bytes"):
        UploadSettings(name_bytes=length)


# Prompts


async def submitted(rig: Rig, received: Received, **more: Any) -> PromptSubmitted:
    attachments = received.files + received.images
    receipt = await rig.session.submit(
        LOCAL, "hello", via="test", content=received.content, attachments=attachments, **more
    )
    fact = await rig.session.fact_at(receipt.seq)
    assert isinstance(fact, PromptSubmitted)
    return fact


async def test_a_prompt_has_what_came_with_it_and_the_log_says_what_is_new(rig: Rig) -> None:
    for _ in range(2):
        received = await rig.receive(images=[coded(PNG)] * 2, files=[a_file("a")])
        prompt = await submitted(rig, received, when_busy="queue")
        assert prompt.text == "hello"
        assert [it.kind for it in prompt.attachments] == ["file", "image", "image"]
    facts = await rig.hub.facts(rig.session)
    digest = hashlib.sha256(PNG).hexdigest()
    stored = [fact for fact in facts if isinstance(fact, ArtifactStored)]
    assert stored == [
        ArtifactStored(artifact=digest, media_type="image/png", size=len(PNG), sha256=digest, name="image-2.png")
    ]
    assert facts.index(stored[0]) < next(n for n, fact in enumerate(facts) if isinstance(fact, PromptSubmitted))


async def test_a_refused_prompt_leaves_nothing_behind(rig: Rig) -> None:
    await submitted(rig, await rig.receive(images=[coded(GIF)], files=[a_file("a")]))
    await idle(rig.session)
    await rig.session.submit(LOCAL, "wait", via="test")
    before = (rig.uploads(), rig.pictures())
    received = await rig.receive(images=[coded(PNG), coded(PNG), coded(GIF)], files=[a_file("a"), a_file("b")])
    assert (len(rig.uploads()), len(rig.pictures())) == (3, 2)
    with pytest.raises(Busy):
        await submitted(rig, received)
    await discard(rig.session, received)
    assert (rig.uploads(), rig.pictures()) == before
    stored = [fact.artifact for fact in await rig.hub.facts(rig.session) if isinstance(fact, ArtifactStored)]
    assert stored == [hashlib.sha256(GIF).hexdigest()]


async def test_what_a_recorded_prompt_refers_to_is_never_discarded(rig: Rig) -> None:
    """Who submits may be cut off, or told that the disk is slow, after the prompt was recorded."""
    received = await rig.receive(images=[coded(PNG)], files=[a_file("a")])
    submitting = asyncio.create_task(submitted(rig, received))
    await until(lambda: rig.session.head > received.since, "it is recorded")
    submitting.cancel()
    await asyncio.wait([submitting])
    await discard(rig.session, received)
    assert (len(rig.uploads()), len(rig.pictures())) == (1, 1)
    await idle(rig.session)
    await discard(rig.session, received)
    assert (len(rig.uploads()), len(rig.pictures())) == (1, 1)


async def test_what_is_gone_by_itself_is_not_missed(rig: Rig, tmp_path: Path) -> None:
    received = await rig.receive(images=[coded(PNG)], files=[a_file("a"), a_file("b")])
    (rig.cwd / paths(received.files)[0]).unlink()
    await rig.store.release(rig.session.id, received.images[0].artifact)
    await discard(rig.session, received)
    assert (rig.uploads(), rig.pictures()) == ({}, [])
    shutil.rmtree(rig.cwd / ".co")
    await discard(rig.session, received)
    assert not (rig.cwd / ".co").exists()
    (tmp_path / "elsewhere" / "uploads").mkdir(parents=True)
    other = tmp_path / "elsewhere" / "uploads" / received.files[0].name
    other.write_text("theirs")
    (rig.cwd / ".co").symlink_to(tmp_path / "elsewhere")
    await discard(rig.session, received)
    assert other.read_text() == "theirs"


async def test_the_same_message_again_is_one_prompt_wherever_its_files_lie(rig: Rig) -> None:
    """Invariant 3: a client that was cut off sends all of it again."""
    given: dict[str, Any] = {"images": [coded(PNG)], "files": [a_file("a")]}
    repeat: dict[str, Any] = {"client_message_id": "m", "when_busy": "queue"}
    first = await submitted(rig, await rig.receive(**given), **repeat)
    received = await rig.receive(**given)
    assert await submitted(rig, received, **repeat) == first
    await discard(rig.session, received)
    assert (len(rig.uploads()), len(rig.pictures())) == (1, 1)
    for other in ({**given, "files": [a_file("a", b"more")]}, {**given, "images": [coded(GIF)]}, {"files": []}):
        with pytest.raises(ConflictingRepeat):
            await submitted(rig, await rig.receive(**other), **repeat)


@pytest.mark.parametrize("kind", ["scripted", "puppet"])
async def test_by_default_the_session_says_whether_it_is_shown_pictures(rig: Rig, kind: str) -> None:
    rig.session = await rig.hub.create(kind)
    received = await rig.receive(images=[coded(PNG)], inline_images=None)
    assert (names(received.files), received.images) == ([f"{SECONDS}_image-1.png"], ())


async def test_who_discards_twice_does_no_harm(rig: Rig) -> None:
    kept, received = await rig.receive(images=[coded(PNG)]), await rig.receive(images=[coded(PNG)], files=[a_file("a")])
    await discard(rig.session, received)
    assert rig.uploads() == {}
    assert await rig.store.read(rig.session.id, kept.images[0].artifact) == PNG
    await discard(rig.session, Received())


@pytest.mark.parametrize("kind", ["files", "images"])
async def test_who_goes_away_meanwhile_leaves_nothing_behind(
    rig: Rig, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go = threading.Event(), threading.Event()
    fsync = os.fsync

    def slow(descriptor: int) -> None:
        reached.set()
        assert go.wait(10)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    files = [a_file("a"), a_file("b")]
    receiving = asyncio.create_task(
        rig.receive(files=files) if kind == "files" else rig.receive(images=[coded(PNG), coded(GIF)])
    )
    await until(reached.is_set)
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    go.set()
    await until(lambda: not (rig.uploads() or rig.pictures()), lambda: f"{rig.uploads()} {rig.pictures()}")
    monkeypatch.undo()
    received = await rig.receive(files=files)
    assert len(rig.uploads()) == len(received.files)
