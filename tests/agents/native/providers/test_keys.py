"""Keys: kept for their owner alone, never shown, and never lost or mixed up by whatever ends a writer."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.native.providers.keys import KeyRing, KeyStore, clean_key, usable_key
from dragoman.hub.errors import InvalidRequest, StorageUnavailable

SECRET = "sk-very-secret-0123456789"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "keys" / "keys.json"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_is_kept_trimmed_for_its_owner_alone(path: Path) -> None:
    store = KeyStore(path)
    assert store.get("openai") is None
    assert not path.parent.exists(), "nothing is made before it is needed"
    store.set("openai", f"  {SECRET}\n")
    assert store.get("openai") == SECRET
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert KeyStore(path).get("openai") == SECRET
    assert {entry.name for entry in path.parent.iterdir()} == {"keys.json", "keys.json.lock"}


def test_what_another_process_writes_is_seen(path: Path) -> None:
    here, there = KeyStore(path), KeyStore(path)
    here.set("openai", "one")
    assert there.get("openai") == "one"
    there.set("openai", "two")
    there.set("google", "three")
    assert (here.get("openai"), here.get("google")) == ("two", "three")
    assert here.forget("openai") is True
    assert (there.get("openai"), there.get("google")) == (None, "three")


def test_forgetting_says_whether_there_was_one(path: Path) -> None:
    store = KeyStore(path)
    assert store.forget("openai") is False
    assert not path.parent.exists()
    store.set("google", "one")
    assert store.forget("openai") is False
    assert store.forget("google") is True
    assert "one" not in path.read_text()


@pytest.mark.parametrize("key", ["", "  \n", "a b", "a\nHost: evil", "a\x00", "schlüssel", "k" * 5000])
def test_what_is_no_key_is_refused_and_not_repeated(path: Path, key: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        KeyStore(path).set("openai", key)
    assert not key.strip() or key not in str(refused.value)
    assert not path.exists()


@given(st.text())
def test_a_key_that_is_taken_can_stand_in_a_header(text: str) -> None:
    key = usable_key(text)
    if key is None:
        with pytest.raises(InvalidRequest):
            clean_key(text)
    else:
        assert key == text.strip()
        assert key.isascii()
        assert not any(letter.isspace() or ord(letter) < 33 for letter in key)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"[" * 5000, b'{"version": 2, "keys": {"openai": "k"}}', b" " * 2_000_000],
)
def test_a_damaged_file_is_empty_with_one_warning_and_moved_aside_when_another_is_written(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    store = KeyStore(path)
    with caplog.at_level(logging.WARNING):
        assert [store.get("openai"), store.get("google"), store.get("openai")] == [None, None, None]
    assert len([r for r in caplog.records if "no key is taken" in r.message]) == 1
    assert path.read_bytes() == content
    store.set("openai", "new")
    assert store.get("openai") == "new"
    (aside,) = path.parent.glob("*.damaged-*")
    assert aside.read_bytes() == content


@pytest.mark.parametrize("what", ["folder", "pipe"])
def test_what_is_no_file_is_warned_of_once_however_often_a_key_is_wanted(
    path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir(parents=True)
    if what == "folder":
        path.mkdir(mode=0o755)
    else:
        os.mkfifo(path, 0o644)
    store = KeyStore(path)
    assert [store.get("openai") for _ in range(5)] == [None] * 5
    assert len(caplog.records) == 1


def test_a_file_that_is_opened_to_others_again_is_closed_again(path: Path) -> None:
    store = KeyStore(path)
    store.set("openai", SECRET)
    for _ in range(2):
        path.chmod(0o644)
        assert store.get("openai") == SECRET
        assert mode(path) == 0o600


def test_a_folder_or_a_pipe_in_its_place_holds_nobody_up(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    store = KeyStore(path)
    assert store.get("openai") is None
    store.set("openai", "one")
    assert store.get("openai") == "one"
    path.unlink()
    path.mkdir()
    assert store.get("openai") is None
    store.set("openai", "two")
    assert store.get("openai") == "two"


def test_an_entry_that_is_no_key_is_skipped_and_kept(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"version": 1, "keys": {"openai": "good", "google": {"kind": "oauth"}, "xai": " "}}))
    store = KeyStore(path)
    assert [store.get(name) for name in ("openai", "google", "xai")] == ["good", None, None]
    store.set("groq", "more")
    assert json.loads(path.read_text())["keys"]["google"] == {"kind": "oauth"}


def test_a_file_that_others_may_read_is_closed_to_them(path: Path) -> None:
    store = KeyStore(path)
    store.set("openai", "one")
    path.chmod(0o644)
    assert store.get("openai") == "one"
    assert mode(path) == 0o600


def test_keys_are_in_no_repr_log_or_exception(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = KeyStore(path)
    store.set("openai", SECRET)
    ring = KeyRing(store, {})
    found = ring.find("openai", ())
    path.write_text(f'{{"version": 1, "keys": {{"openai": "{SECRET}"')
    with caplog.at_level(logging.DEBUG):
        store.get("openai")
        store.set("google", "x")
    said = [caplog.text, repr(store), repr(ring), repr(found), str(found)]
    assert not [text for text in said if SECRET in text]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = KeyStore(tmp_path / "file" / "keys.json")
    with pytest.raises(StorageUnavailable) as refused:
        store.set("openai", SECRET)
    assert SECRET not in str(refused.value)
    assert store.get("openai") is None


def test_a_writer_that_holds_the_file_for_too_long_is_said(path: Path) -> None:
    store = KeyStore(path, lock_seconds=0.05)
    store.set("openai", "one")
    with path.with_name("keys.json.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StorageUnavailable, match="another process"):
            store.set("openai", "two")
        assert store.get("openai") == "one"


def test_stored_wins_over_the_environment_whose_first_name_wins(path: Path) -> None:
    store = KeyStore(path)
    ring = KeyRing(store, {"A_KEY": " ", "B_KEY": " fromb\n", "C_KEY": "fromc", "D_KEY": "two words"})
    found = ring.find("one", ("A_KEY", "B_KEY", "C_KEY"))
    assert (found.source, found.key, found.variable) == ("environment", "fromb", "B_KEY")
    assert ring.find("one", ("D_KEY", "E_KEY")).source == "missing"
    store.set("one", "stored")
    found = ring.find("one", ("B_KEY",))
    assert (found.source, found.key) == ("stored", "stored")


async def test_writers_in_many_threads_lose_nothing(path: Path) -> None:
    stores = [KeyStore(path) for _ in range(4)]
    await asyncio.gather(*(asyncio.to_thread(stores[n % 4].set, f"p{n}", f"key{n}") for n in range(24)))
    assert [KeyStore(path).get(f"p{n}") for n in range(24)] == [f"key{n}" for n in range(24)]


WRITER = """
import sys
from pathlib import Path
from dragoman.agents.native.providers.keys import KeyStore
store = KeyStore(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(10**9):
    store.set("openai", f"key-{number}-" + "x" * 2000)
    store.set("fixed", "same")
"""


def test_a_writer_killed_at_any_moment_leaves_the_old_keys_or_the_new(path: Path) -> None:
    KeyStore(path).set("other", "stays")
    for round_ in range(8):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        watched = KeyStore(path)
        first, seen = watched.get("openai"), 0
        while seen <= round_:  # another moment each time: after as many changes as rounds
            if (now := watched.get("openai")) != first:
                first, seen = now, seen + 1
        writer.kill()
        writer.wait()
        writer.stdout.close()
        stored = json.loads(path.read_text())["keys"]
        assert stored["other"] == "stays"
        assert stored["openai"].startswith("key-")
        assert stored["openai"].endswith("x" * 2000)
        assert not list(path.parent.glob("*.damaged-*"))
    KeyStore(path).set("last", "works")
    assert {entry.name for entry in path.parent.iterdir()} == {"keys.json", "keys.json.lock"}, "no copy is left"
