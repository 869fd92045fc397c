"""Which server a command uses, and `dragoman providers` where there is none."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.process import Served

SECRET = "sk-very-secret-0123456789"
LIMIT = 20
NOTICE = "· no server runs: these are the keys in {}\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("served"))
    asyncio.run(server.start())
    yield server
    server.kill()


async def dragoman(folder: Path, *words: str, given: str = "", **env: str | None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command that is told of no server, but by its settings."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN_", "OPENAI_"))}
    usual |= {"XDG_CONFIG_HOME": str(folder), "DRAGOMAN_DATA": str(folder / "own"), "DRAGOMAN_PORT": "0"}
    told = {name: value for name, value in {**usual, **env}.items() if value is not None}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", *words), stdin=pipe, stdout=pipe, stderr=pipe, env=told
    )
    out, err = await asyncio.wait_for(process.communicate(given.encode()), LIMIT)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_the_server_at_the_port_of_the_settings_is_used(served: Served, tmp_path: Path) -> None:
    found = await dragoman(tmp_path, "sessions", DRAGOMAN_PORT=str(served.ready["port"]))
    assert found == (0, "no sessions\n", "")
    (tmp_path / "dragoman").mkdir()
    (tmp_path / "dragoman" / "config.toml").write_text(f"[server]\nport = {served.ready['port']}\n")
    code, said, err = await dragoman(tmp_path, "send", "abc", "hi", DRAGOMAN_PORT=None)
    assert (code, said) == (2, "")
    assert "no session begins with 'abc'" in err


async def test_else_the_server_that_holds_the_data_folder(served: Served, tmp_path: Path) -> None:
    data = served.folder / "data"
    for words in (("sessions",), ("providers", "forget", "openai")):
        code, said, err = await dragoman(tmp_path, *words, DRAGOMAN_DATA=str(data))
        assert (code, err) == (0, "")
        assert said in ("no sessions\n", "no key of openai was kept\n")
    kept = await dragoman(tmp_path, "providers", "key", "openai", given=SECRET, DRAGOMAN_DATA=str(data))
    assert kept == (0, "the key of openai is kept\n", "")
    statuses = served.ask("POST", "/providers/status", {})[1]["statuses"]
    assert {status["id"]: status["key"] for status in statuses}["openai"] == "stored"


async def test_a_server_that_is_named_is_the_only_one_that_is_asked(served: Served, tmp_path: Path) -> None:
    port = str(served.ready["port"])
    for words in (("sessions",), ("providers",), ("providers", "forget", "openai")):
        code, said, err = await dragoman(tmp_path, *words, "--url", "http://127.0.0.1:1", DRAGOMAN_PORT=port)
        assert (code, said) == (1, "")
        assert err == "dragoman: no server answers at http://127.0.0.1:1/hub (--url, or dragoman serve)\n"
    code, _, err = await dragoman(tmp_path, "sessions", DRAGOMAN_URL="http://127.0.0.1:1", DRAGOMAN_PORT=port)
    assert (code, "127.0.0.1:1/hub" in err) == (1, True)


@pytest.mark.parametrize("words", [("sessions",), ("send", "abc", "hi")])
async def test_where_none_is_found_it_is_said_where_it_was_looked_for(tmp_path: Path, words: tuple[str, ...]) -> None:
    hint = "(--url, or dragoman serve)"
    own = tmp_path / "own"
    assert await dragoman(tmp_path, *words) == (1, "", f"dragoman: no server answers for the data in {own} {hint}\n")
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        where = f"at http://127.0.0.1:{port}/hub, nor for the data in {own}"
        found = await dragoman(tmp_path, *words, DRAGOMAN_PORT=str(port))
    assert found == (1, "", f"dragoman: no server answers {where} {hint}\n")
    assert not own.exists()


async def test_settings_that_are_none_are_one_line_and_do_not_matter_for_a_named_server(
    served: Served, tmp_path: Path
) -> None:
    code, _, err = await dragoman(tmp_path, "sessions", DRAGOMAN_PORT="http")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "server.port" in err
    url = f"http://127.0.0.1:{served.ready['port']}"
    assert (await dragoman(tmp_path, "sessions", "--url", url, DRAGOMAN_PORT="http"))[0] == 0


async def test_without_a_server_keys_are_kept_in_the_data_folder(tmp_path: Path) -> None:
    own = tmp_path / "own"
    notice = NOTICE.format(own)
    assert await dragoman(tmp_path, "providers", "forget", "xai") == (0, "no key of xai was kept\n", notice)
    assert not own.exists()
    assert await dragoman(tmp_path, "providers", "key", "xai", given=SECRET) == (0, "the key of xai is kept\n", notice)
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert stat.S_IMODE((own / "keys" / "providers.json").stat().st_mode) == 0o600
    code, said, err = await dragoman(tmp_path, "providers", "--json")
    stands = {entry["id"]: entry for entry in map(json.loads, said.splitlines())}
    assert (code, err, stands["xai"]["key"], stands["xai"]["ready"]) == (0, notice, "stored", True)
    assert SECRET not in said
    assert await dragoman(tmp_path, "providers", "forget", "xai") == (0, "the key of xai is removed\n", notice)
    _, said, _ = await dragoman(tmp_path, "providers")
    assert {line.split()[0]: line.split()[1] for line in said.splitlines()}["xai"] == "-"


async def test_without_a_server_a_sign_in_is_kept_in_the_data_folder(tmp_path: Path) -> None:
    nobody = dict.fromkeys(("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"))
    code, said, _ = await dragoman(tmp_path, "providers", "sign-in", "claude-code", **nobody, HOME=str(tmp_path))
    assert code == 0
    assert said.splitlines()[0] == "Run Claude Code sign-in in a terminal, then continue. (claude setup-token)"
    kept = json.loads((tmp_path / "own" / "keys" / "providers.json").read_text())
    assert kept["sign_ins"] == {"claude-code": "oauth_pending"}
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700


async def test_a_key_kept_without_a_server_is_there_for_the_next_one(tmp_path: Path) -> None:
    server = Served(tmp_path)
    data = str(tmp_path / "data")
    assert (await dragoman(tmp_path, "providers", "key", "xai", given=SECRET, DRAGOMAN_DATA=data))[0] == 0
    await server.start()
    try:
        _, listed, noticed = await dragoman(tmp_path, "providers", "--json", DRAGOMAN_DATA=data)
        stands = {entry["id"]: entry["key"] for entry in map(json.loads, listed.splitlines())}
    finally:
        server.kill()
    assert (stands["xai"], noticed) == ("stored", "")


@pytest.mark.parametrize(
    ("words", "given", "code", "says"),
    [
        (("key", "nobody"), "k", 1, "unknown provider"),
        (("key", "openai"), "two words", 1, "character"),
        (("forget", "nobody"), "", 1, "unknown provider"),
    ],
)
async def test_without_a_server_what_is_refused_is_one_line_too(
    tmp_path: Path, words: tuple[str, ...], given: str, code: int, says: str
) -> None:
    ended, said, err = await dragoman(tmp_path, "providers", *words, given=given)
    notice, problem = err.splitlines()
    assert (ended, said, f"{notice}\n") == (code, "", NOTICE.format(tmp_path / "own"))
    assert says in problem


async def test_a_data_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    where = str(tmp_path / "file" / "own")
    code, said, err = await dragoman(tmp_path, "providers", "key", "openai", given=SECRET, DRAGOMAN_DATA=where)
    assert (code, said, len(err.splitlines())) == (1, "", 2)
    assert SECRET not in err
