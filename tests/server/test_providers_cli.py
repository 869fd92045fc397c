"""`dragoman providers`: what a server can ask, and keys that come by a prompt or standard input and no other way."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.settings import NativeSettings
from tests.dialects.hub.rig import Rig

SECRET = "sk-very-secret-0123456789"
LIMIT = 20


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "keys" / "keys.json")


@pytest.fixture
async def rig(tmp_path: Path, store: KeyStore) -> AsyncIterator[Rig]:
    directory = ProviderDirectory(
        NativeSettings(local_servers=(), verify_seconds=0.5),
        store,
        environment={"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "PATH": "/nowhere"},
    )
    made = Rig(tmp_path, providers=directory)
    await made.start()
    yield made
    await made.stop()
    await directory.close()


async def dragoman(rig: Rig, *words: str, given: str = "") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command against that server."""
    line = [sys.executable, "-m", "dragoman", "providers", *words, "--url", f"http://127.0.0.1:{rig.port}"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*line, stdin=pipe, stdout=pipe, stderr=pipe)
    out, err = await asyncio.wait_for(process.communicate(given.encode()), LIMIT)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_the_list_says_who_is_ready_and_where_keys_are_from(rig: Rig, store: KeyStore) -> None:
    store.set("google", SECRET)
    code, said, _ = await dragoman(rig)
    assert code == 0
    rows = {line.split()[0]: line.split() for line in said.splitlines()}
    assert list(rows)[:3] == ["google", "openai", "anthropic"]
    assert rows["google"][1:4] == ["ready", "stored", "gemini-3-flash-preview,"]
    assert rows["openai"][1:4] == ["ready", "environment", "gpt-5.2,"]
    assert "+2" in rows["openai"]
    assert rows["anthropic"][1:3] == ["-", "missing"]
    assert rows["demonstration"][1:3] == ["ready", "none_needed"]
    assert SECRET not in said
    code, said, _ = await dragoman(rig, "list", "--json", "--verify")
    entries = {entry["id"]: entry for entry in map(json.loads, said.splitlines())}
    assert code == 0
    assert entries["openai"]["models"][0] == "gpt-5.2"
    assert "not verified" in entries["openai"]["message"]


async def test_a_key_from_standard_input_is_kept_and_forgotten(rig: Rig, store: KeyStore) -> None:
    code, said, err = await dragoman(rig, "key", "anthropic", given=f"{SECRET}\n")
    assert (code, err) == (0, "")
    assert SECRET not in said
    assert store.get("anthropic") == SECRET
    assert await dragoman(rig, "forget", "anthropic") == (0, "the key of anthropic is removed\n", "")
    assert await dragoman(rig, "forget", "anthropic") == (0, "no key of anthropic was kept\n", "")
    assert store.get("anthropic") is None


@pytest.mark.parametrize(
    ("words", "given", "code", "says"),
    [
        (("key",), "k", 2, "whose key"),
        (("forget",), "", 2, "whose key"),
        (("list", "openai"), "", 2, "takes no name"),
        (("key", "openai"), " \n", 2, "no key was given"),
        (("key", "nobody"), "k", 1, "unknown provider"),
        (("key", "../sessions"), "k", 1, ""),
        (("key", "openai"), "two words", 1, "character"),
        (("key", "openai", SECRET), "k", 2, "not taken from the command line"),
        (("dance",), "", 2, "dance"),
    ],
)
async def test_what_was_asked_wrongly_is_one_line(
    rig: Rig, store: KeyStore, words: tuple[str, ...], given: str, code: int, says: str
) -> None:
    ended, said, err = await dragoman(rig, *words, given=given)
    assert (ended, said, len(err.splitlines())) == (code, "", 1)
    assert says in err
    assert SECRET not in err
    assert store.get("openai") is None


async def test_a_server_without_providers_says_so(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.start()
    try:
        code, _, err = await dragoman(rig)
    finally:
        await rig.stop()
    assert code == 1
    assert "no agent of its own" in err


async def test_at_a_terminal_the_key_is_asked_for_and_not_shown(rig: Rig, store: KeyStore) -> None:
    line = [sys.executable, "-m", "dragoman", "providers", "key", "xai", "--url", f"http://127.0.0.1:{rig.port}"]
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *line, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    shown = b""

    def until(word: bytes) -> None:
        nonlocal shown
        while word not in shown:
            shown += os.read(ours, 4096)

    await asyncio.wait_for(asyncio.to_thread(until, b"not shown"), LIMIT)
    os.write(ours, f"{SECRET}\r".encode())
    await asyncio.wait_for(asyncio.to_thread(until, b"is kept"), LIMIT)
    assert await asyncio.wait_for(process.wait(), LIMIT) == 0
    os.close(ours)
    assert SECRET.encode() not in shown
    assert store.get("xai") == SECRET


async def test_signing_in_says_what_to_do_and_what_the_program_says(rig: Rig, store: KeyStore) -> None:
    code, said, err = await dragoman(rig, "sign-in", "codex-cli")
    assert (code, err) == (1, "")
    assert said.splitlines() == [
        "Run Codex CLI sign-in, then continue. (codex login)",
        "[auth] running: codex login",
        '[auth] Executable not found in $PATH: "codex"',
        'OAuth sign-in failed: Executable not found in $PATH: "codex"',
    ]
    code, said, _ = await dragoman(rig, "sign-in", "claude-code")
    assert code == 0
    assert said.splitlines()[-1].startswith("Claude Code OAuth requires a terminal TTY.")
    assert store.mode("claude-code") == "oauth_pending"
    assert await dragoman(rig, "forget", "claude-code") == (0, "the key of claude-code is removed\n", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sign-in",), "whose key"),
        (("sign-in", "openai"), "openai takes a key (dragoman providers key)"),
        (("sign-in", "nobody"), "nobody is not known"),
    ],
)
async def test_what_cannot_be_signed_in_to_is_said(rig: Rig, words: tuple[str, ...], says: str) -> None:
    code, said, err = await dragoman(rig, *words)
    assert (code, said) == (2, "")
    assert says in err
