"""Signing in at a provider's own program: what a person is told, what is kept, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.settings import DelegateSettings, NativeSettings
from dragoman.hub.errors import AlreadyRunning, InvalidRequest, Unsupported
from dragoman.hub.providers import Account, AuthMethod, AuthResult, ProviderStatus
from tests.agents.native.delegates.codex_rig import Script
from tests.hub.rig import until

CODEX, CLAUDE = "codex-cli", "claude-code"
PROBE = "native.delegates.probe_seconds"
SECRET = "sk-very-secret-0123456789"


class Machine:
    """A HOME and a PATH of its own, the programs in it, and the directory that uses them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin, self.home = folder / "bin", folder / "home"
        for place in (self.bin, self.home / ".codex", self.home / ".claude"):
            place.mkdir(parents=True)
        self.keys = folder / "keys" / "providers.json"
        self.environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.home)}
        self.made: list[ProviderDirectory] = []
        self.told: list[str] = []

    def program(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def directory(self, **delegates: object) -> ProviderDirectory:
        settings = NativeSettings(local_servers=(), delegates=DelegateSettings(**delegates))  # type: ignore[arg-type]
        self.made.append(ProviderDirectory(settings, KeyStore(self.keys), environment=self.environment))
        return self.made[-1]

    def codex_signs_in(self) -> None:
        tokens = {"access_token": SECRET, "refresh_token": SECRET}
        (self.home / ".codex" / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": None, "tokens": tokens}))

    async def sign_in(self, directory: ProviderDirectory, provider: str = CODEX) -> AuthResult:
        return await directory.finish_sign_in(provider, "oauth_cli", tell=self.told.append)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(tmp_path)
    yield made
    for directory in made.made:
        await directory.close()


async def status(directory: ProviderDirectory, name: str, *, verify: bool = False) -> ProviderStatus:
    return next(one for one in await directory.status(verify=verify) if one.id == name)


# What there is


def test_the_ways_to_sign_in_are_the_seeds(machine: Machine) -> None:
    methods = machine.directory().auth_methods()
    assert list(methods)[:5] == ["google", "openai", "anthropic", CODEX, CLAUDE]
    key = AuthMethod(id="api_key", type="api", label="API key")
    assert methods["openai"] == (key,)
    codex = AuthMethod(id="oauth_cli", type="oauth", label="Sign in with Codex CLI", oauth_mode="auto")
    assert methods[CODEX] == (codex, key)
    assert [way.label for way in methods[CLAUDE]] == ["Sign in with Claude Code", "API key"]
    assert "demonstration" not in methods


async def test_what_a_person_is_to_do_is_the_seeds(machine: Machine) -> None:
    challenge = await machine.directory().begin_sign_in(CODEX, "oauth_cli")
    assert (challenge.method, challenge.command) == ("auto", "codex login")
    assert challenge.instructions == "Run Codex CLI sign-in, then continue."
    challenge = await machine.directory().begin_sign_in(CLAUDE, "oauth_cli")
    assert challenge.instructions == "Run Claude Code sign-in in a terminal, then continue."
    assert challenge.command == "claude setup-token"
    assert not machine.keys.exists()


async def test_what_cannot_be_signed_in_to_is_refused_in_the_seeds_words(machine: Machine) -> None:
    directory = machine.directory()
    for provider, method, message in (
        ("nobody", "oauth_cli", "missing/invalid provider"),
        ("demonstration", "api_key", "missing/invalid provider"),
        (CODEX, "", "missing/invalid methodId"),
        (CODEX, "oauth", "unknown methodId"),
        ("openai", "oauth_cli", "unknown methodId"),
    ):
        with pytest.raises(InvalidRequest, match=f"^{message}$"):
            await directory.begin_sign_in(provider, method)
        with pytest.raises(InvalidRequest, match=f"^{message}$"):
            await directory.finish_sign_in(provider, method, tell=machine.told.append)
    with pytest.raises(Unsupported, match='Auth method "api_key" does not support authorization'):
        await directory.begin_sign_in("openai", "api_key")
    done = await directory.finish_sign_in("openai", "api_key", tell=machine.told.append)
    assert (done.ok, done.message) == (False, 'Method "api_key" is not an OAuth method.')


# Codex


async def test_credentials_that_are_there_are_enough(machine: Machine) -> None:
    machine.codex_signs_in()
    directory = machine.directory()
    done = await machine.sign_in(directory)
    assert done == AuthResult(ok=True, mode="oauth", message="Existing OAuth credentials detected.")
    assert machine.told == []
    assert (await status(directory, CODEX)).mode == "oauth"


async def test_its_own_sign_in_is_run_and_told_line_by_line(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    machine.program("codex", 'echo "Open https://auth.test/x?code=abc"; echo "waiting" >&2; printf "no end"')
    done = await machine.sign_in(machine.directory())
    assert done == AuthResult(ok=True, mode="oauth", message="OAuth sign-in completed.")
    assert machine.told[0] == "[auth] running: codex login"
    assert sorted(machine.told[1:]) == [
        "[auth] Open https://auth.test/x?code=abc",
        "[auth] no end",
        "[auth] waiting",
    ]
    assert "auth.test" not in caplog.text
    assert KeyStore(machine.keys).mode(CODEX) == "oauth"
    assert json.loads(machine.keys.read_text())["sign_ins"] == {CODEX: "oauth"}


async def test_a_program_that_is_not_there_is_named(machine: Machine) -> None:
    done = await machine.sign_in(machine.directory())
    assert not done.ok
    assert done.message == 'OAuth sign-in failed: Executable not found in $PATH: "codex"'
    assert machine.told == ["[auth] running: codex login", '[auth] Executable not found in $PATH: "codex"']
    assert KeyStore(machine.keys).mode(CODEX) == "missing"


async def test_one_that_fails_is_said_and_nothing_is_kept(machine: Machine) -> None:
    machine.program("codex", "exit 3")
    done = await machine.sign_in(machine.directory())
    assert (done.ok, done.message) == (False, "OAuth sign-in failed: codex login exited with code 3.")
    assert not machine.keys.exists()


async def test_nobody_is_waited_for_without_end(machine: Machine) -> None:
    machine.program("codex", f"echo $$ > {machine.folder}/pid; sleep 600")
    done = await machine.sign_in(machine.directory(sign_in_seconds=0.3))
    assert not done.ok
    assert "nobody signed in within 0.3 s" in done.message
    assert not _runs(int((machine.folder / "pid").read_text()))


async def test_a_flow_that_runs_is_not_begun_again(machine: Machine) -> None:
    machine.program("codex", f"touch {machine.folder}/runs; while [ ! -e {machine.folder}/go ]; do sleep 0.01; done")
    directory = machine.directory()
    first = asyncio.create_task(machine.sign_in(directory))
    await until((machine.folder / "runs").exists)
    with pytest.raises(AlreadyRunning, match="Connection flow already running"):
        await machine.sign_in(directory)
    # That one waits for somebody says nothing of the others.
    assert (await machine.sign_in(directory, CLAUDE)).ok
    (machine.folder / "go").touch()
    assert (await first).ok
    assert (await machine.sign_in(directory)).ok


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_who_is_broken_off_leaves_nothing(machine: Machine, how: str) -> None:
    pid = machine.folder / "pid"
    machine.program("codex", f"echo $$ > {pid}; sleep 600")
    directory = machine.directory()
    flow = asyncio.create_task(machine.sign_in(directory))
    await until(lambda: pid.exists() and pid.read_text().strip())
    if how == "cancel":
        flow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flow
    else:
        await directory.close()
        assert (await flow).message == "OAuth sign-in failed: the server stops"
    assert not _runs(int(pid.read_text()))
    assert not machine.keys.exists()


async def test_what_a_lost_server_left_waiting_is_ended_by_the_next_sign_in(machine: Machine) -> None:
    pid = machine.folder / "pid"
    machine.program("codex", f"[ -e {pid} ] && exit 0; echo $$ > {pid}; sleep 600")
    lost = multiprocessing.get_context("spawn").Process(target=_sign_in_for_ever, args=(str(machine.folder),))
    lost.start()
    try:
        await until(lambda: pid.exists() and pid.read_text().strip(), seconds=20)
    finally:
        assert lost.pid is not None
        os.kill(lost.pid, signal.SIGKILL)
        await asyncio.to_thread(lost.join)
        lost.close()
    left = int(pid.read_text())
    assert _runs(left)
    assert (await machine.sign_in(machine.directory())).ok
    assert not _runs(left)


async def test_very_many_lines_are_not_all_told(machine: Machine) -> None:
    machine.program("codex", "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done")
    assert (await machine.sign_in(machine.directory())).ok
    assert len(machine.told) <= 201


async def test_it_gets_none_of_our_keys(machine: Machine) -> None:
    machine.environment |= {"OPENAI_API_KEY": SECRET, "GROQ_API_KEY": SECRET + "x", "CODEX_HOME": str(machine.home)}
    machine.program("codex", f"env > {machine.folder}/env")
    assert (await machine.sign_in(machine.directory())).ok
    seen = (machine.folder / "env").read_text()
    assert SECRET not in seen
    assert f"CODEX_HOME={machine.home}" in seen


# Claude Code


async def test_claude_is_left_to_a_terminal_and_pending(machine: Machine) -> None:
    directory = machine.directory()
    done = await machine.sign_in(directory, CLAUDE)
    assert (done.ok, done.mode) == (True, "oauth_pending")
    assert done.message == (
        "Claude Code OAuth requires a terminal TTY. Run `claude setup-token` in a terminal to authenticate, "
        "then retry /connect."
    )
    assert (await status(directory, CLAUDE)).mode == "oauth_pending"
    machine.program("claude", "exit 0")
    assert (await status(directory, CLAUDE)).message == "Pending connection (no credentials)."
    (machine.home / ".claude" / ".credentials.json").write_text("{}")
    assert (await machine.sign_in(directory, CLAUDE)).mode == "oauth"


# How they stand


async def test_how_nobody_and_somebody_stands(machine: Machine) -> None:
    machine.program("codex", "exit 0")
    directory = machine.directory()
    stands = await status(directory, CODEX)
    assert (stands.mode, stands.ready, stands.verified) == ("missing", False, False)
    assert stands.message == "Not logged in to Codex CLI. Run codex login."
    machine.codex_signs_in()
    stands = await status(directory, CODEX)
    assert (stands.mode, stands.ready, stands.message) == ("oauth", True, "OAuth connected.")
    await directory.set_key("groq", SECRET)
    assert (await status(directory, "groq")).mode == "api_key"
    assert (await status(directory, "openai")).mode == "missing"


async def test_a_key_of_the_environment_is_no_connection(machine: Machine) -> None:
    machine.environment["OPENAI_API_KEY"] = SECRET
    machine.program("codex", "exit 0")
    directory = machine.directory()
    assert (await status(directory, "openai")).mode == "missing"
    stands = await status(directory, CODEX)
    assert (stands.mode, stands.ready) == ("missing", True)
    assert stands.message.endswith("The key of openai is used.")


async def test_what_is_said_of_a_key_is_a_sentence_of_its_own(machine: Machine) -> None:
    machine.environment["ANTHROPIC_API_KEY"] = SECRET
    stands = await status(machine.directory(), CLAUDE, verify=True)
    assert stands.message.endswith('not found in $PATH: "claude". The key of anthropic is used.')


async def test_only_verifying_runs_the_programs(machine: Machine) -> None:
    for name in ("codex", "claude"):
        machine.program(name, f"touch {machine.folder}/ran; exit 1")
    await machine.directory().status()
    assert not (machine.folder / "ran").exists()


async def test_claude_says_who_is_signed_in(machine: Machine) -> None:
    said = json.dumps({"loggedIn": True, "email": "a@example.com", "orgName": "A"})
    machine.program("claude", f"[ \"$1 $2\" = 'auth status' ] && echo '{said}'")
    stands = await status(machine.directory(), CLAUDE, verify=True)
    assert (stands.mode, stands.ready, stands.verified) == ("oauth", True, True)
    assert stands.account == Account(email="a@example.com", name="A")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, 'Not authorized. Claude CLI verify failed: Error: Executable not found in $PATH: "claude"'),
        ("echo '{\"loggedIn\": false}'", "Not authorized. Run claude setup-token."),
        ("echo what; exit 4", "Not authorized. Claude CLI verify failed: Error: claude auth status exited with code 4"),
        (
            "sleep 600",
            "Not authorized. Claude CLI verify failed: Error: it did not answer within 0.3 s (" + PROBE + ")",
        ),
    ],
)
async def test_claude_that_does_not_confirm_is_not_verified(machine: Machine, script: str | None, message: str) -> None:
    if script is not None:
        machine.program("claude", script)
    stands = await status(machine.directory(probe_seconds=0.3), CLAUDE, verify=True)
    assert (stands.ready, stands.verified, stands.message) == (False, False, message)


async def test_codex_says_who_is_signed_in(machine: Machine) -> None:
    script = Script(machine.folder / "codex")
    account = {"type": "chatgpt", "email": "a@example.com", "planType": "plus"}
    script.does(results={"account/read": {"account": account, "requiresOpenaiAuth": True}})
    stands = await status(machine.directory(codex=str(script.program)), CODEX, verify=True)
    assert (stands.mode, stands.verified, stands.account) == ("oauth", True, Account(email="a@example.com"))
    script.does(results={"account/read": {"account": None, "requiresOpenaiAuth": True}})
    stands = await status(machine.directory(codex=str(script.program)), CODEX, verify=True)
    assert (stands.verified, stands.message) == (False, "Not logged in to Codex CLI. Run codex login.")


@pytest.mark.parametrize("what", ["die", "hang", "no"])
async def test_codex_that_cannot_say_is_not_verified(machine: Machine, what: str) -> None:
    script = Script(machine.folder / "codex")
    script.does(at={"account/read": what})
    directory = machine.directory(codex=str(script.program), probe_seconds=0.5)
    stands = await status(directory, CODEX, verify=True)
    assert (stands.ready, stands.verified) == (False, False)
    assert stands.message.startswith("Not authorized. Codex CLI verify failed: ")
    assert "turn" not in stands.message, "there is none"


# Whose key


async def test_a_program_is_given_its_makers_key_unless_it_is_signed_in(machine: Machine) -> None:
    machine.program("codex", "exit 0")
    machine.program("claude", "exit 0")
    directory = machine.directory()

    async def key(provider: str) -> str | None:
        return (await directory.choose(provider)).find_key()

    assert await key(CODEX) is None
    await directory.set_key("openai", SECRET)
    await directory.set_key("anthropic", SECRET + "a")
    assert (await key(CODEX), await key(CLAUDE)) == (SECRET, SECRET + "a")
    await directory.set_key(CODEX, SECRET + "c")
    assert await key(CODEX) == SECRET + "c"
    machine.codex_signs_in()
    assert await key(CODEX) == SECRET + "c"
    await machine.sign_in(directory)
    assert await key(CODEX) is None
    await directory.set_key(CODEX, SECRET + "d")
    assert (await status(directory, CODEX)).mode == "api_key"
    assert await key(CODEX) == SECRET + "d"


# The store


def test_a_sign_in_counts_more_than_a_key_and_a_later_key_takes_its_place(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.json")
    assert store.mode("a") == "missing"
    store.set("a", SECRET)
    assert store.mode("a") == "api_key"
    store.sign_in("a", "oauth_pending")
    assert (store.mode("a"), store.get("a")) == ("oauth_pending", SECRET)
    store.set("a", SECRET)
    assert store.mode("a") == "api_key"
    store.sign_in("a", "oauth")
    assert store.forget("a") is True
    assert (store.mode("a"), store.get("a")) == ("missing", None)
    assert store.forget("a") is False


def test_a_mode_that_is_none_is_not_used_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"version": 1, "keys": {}, "sign_ins": {"a": "else", "b": 5, "c": "oauth"}}))
    store = KeyStore(path)
    assert [store.mode(name) for name in "abc"] == ["missing", "missing", "oauth"]
    store.set("d", SECRET)
    assert json.loads(path.read_text())["sign_ins"] == {"a": "else", "b": 5, "c": "oauth"}


async def test_sessions_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"

    def write(number: int) -> None:
        store = KeyStore(path)
        store.set(f"key-{number}", SECRET)
        store.sign_in(f"sign-in-{number}", "oauth")

    await asyncio.gather(*(asyncio.to_thread(write, number) for number in range(8)))
    kept = json.loads(path.read_text())
    assert (len(kept["keys"]), len(kept["sign_ins"])) == (8, 8)


def test_a_writer_killed_at_any_moment_leaves_the_old_sign_ins_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    KeyStore(path).sign_in("first", "oauth")
    writer = multiprocessing.get_context("spawn").Process(target=_write_for_ever, args=(str(path),))
    writer.start()
    try:
        while KeyStore(path).mode("other") == "missing":
            assert writer.is_alive()
    finally:
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        writer.close()
    assert KeyStore(path).mode("first") == "oauth"
    KeyStore(path).sign_in("after", "oauth")  # its lock is not held for ever
    assert KeyStore(path).mode("after") == "oauth"


def _write_for_ever(path: str) -> None:
    while True:
        KeyStore(Path(path)).sign_in("other", "oauth_pending")
        KeyStore(Path(path)).sign_in("other", "oauth")


def _sign_in_for_ever(folder: str) -> None:
    settings = NativeSettings(local_servers=())
    environment = {"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": f"{folder}/home"}
    directory = ProviderDirectory(settings, KeyStore(Path(folder, "keys", "providers.json")), environment=environment)
    asyncio.run(directory.finish_sign_in(CODEX, "oauth_cli", tell=lambda _line: None))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
