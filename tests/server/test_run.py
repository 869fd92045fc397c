"""``dragoman run``: what flags and coop's environment make of it, where it listens, and how it comes to its end."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.coop_environment import OPTIONS, settings_from, table
from dragoman.cli.main import build_parser
from dragoman.cli.run import Made, asked_for, with_shutdown_timeout
from dragoman.cli.serving import flags_of
from dragoman.cli.stopping import drain, idle_for
from dragoman.hub.events import AgentExited, TerminalTitled
from dragoman.server.settings import Settings, load
from dragoman.server.use import UseError
from tests.dialects.coop.driven import Play, eventually

from .test_cli import LIMIT, dragoman, running

# What is asked for


def asked(*words: str) -> Made:
    return asked_for(build_parser().parse_args(["run", *words]))


@pytest.fixture(autouse=True)
def _without_coops_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("COOP", "DRAGOMAN_"))]:
        monkeypatch.delenv(name)


def test_the_plainest_run() -> None:
    assert asked("--", "bash") == Made(
        agent="unknown", options={"command": ["bash"], "cols": 200, "rows": 50}, settings={}
    )


def test_every_option_of_a_driven_agent(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"stop": {"mode": "signal"}, "start": {"text": "Hi"}, "settings": {"a": 1}, "mcp": {}}')
    flags = ["--agent", "Claude", "--agent-config", str(file), "--resume", "abc", "--groom", "manual", "--cols", "80"]
    made = asked(*flags, "--", "claude", "--verbose")
    assert made.agent == "claude"
    assert made.settings == {"stop_config": {"mode": "signal"}, "start_config": {"text": "Hi"}}
    assert made.options == {
        "command": ["claude", "--verbose"],
        "cols": 80,
        "rows": 50,
        "groom": "manual",
        "resume": "abc",
        "agent_config": {"settings": {"a": 1}, "mcp": {}},
    }


def test_coops_environment_gives_what_no_flag_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AGENT": "gemini", "GROOM": "pristine", "COLS": "90", "ROWS": "", "RESUME": ""}.items():
        monkeypatch.setenv(f"COOP_{name}", value)
    made = asked("--cols", "91", "--", "gemini")
    assert (made.agent, made.options) == (
        "gemini",
        {"command": ["gemini"], "cols": 91, "rows": 50, "groom": "pristine"},
    )


NO_JSON = "/dev/null"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "a program is missing"),
        (["--agent", "emacs", "--", "x"], "emacs"),
        (["--groom", "often", "--", "x"], "often"),
        (["--attach", "tmux:work", "--", "x"], "--attach"),
        (["--attach", "work"], "tmux:NAME"),
        (["--attach", "tmux:"], "tmux:NAME"),
        (["--attach", "screen:work"], "screen"),
        (["--resume", "x", "--", "x"], "--agent claude"),
        (["--resume", "", "--agent", "claude", "--", "x"], "--resume names no session: give its id"),
        (["--resume", "  ", "--agent", "claude", "--", "x"], "--resume names no session: give its id"),
        (["--resume", "x", "--agent", "codex", "--", "x"], "--agent claude"),
        (["--resume", "x", "--agent", "claude", "--groom", "pristine", "--", "x"], "pristine"),
        (["--agent-config", NO_JSON, "--", "x"], "--agent"),
        (["--agent-config", NO_JSON, "--agent", "claude", "--", "x"], "not JSON"),
        (["--agent-config", "/no/such/file", "--agent", "claude", "--", "x"], "/no/such/file"),
    ],
)
def test_what_cannot_be_asked_for(words: list[str], says: str) -> None:
    with pytest.raises(UseError) as refusal:
        asked(*words)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"\xff\xfe\0",
        b'{"settings": {"model": "\xff"}}',
        b'{"settings": {"model": "\\ud800"}}',
        b'{"settings": 1}',
        b'{"settings": {"hooks": [1]}}',
        b'{"hooks": [1]}',
        b'{"settings": {"permissions": {"allow": "x"}}}',
        b'{"stop": 1}',
        b'{"stop": {"mode": "never"}}',
        b'{"start": {"shell": "echo"}}',
        b'{"start": {"shell": ["a\\u0000b"]}}',
        b'{"start": {"text": "' + b"x" * 70_000 + b'"}}',
        b'{"settings": ' * 100_000,
        b"{" + b'"a":[' * 500 + b"]" * 500 + b"}",
        b" " * 2_000_000,
    ],
    ids=lambda data: repr(data[:40]),
)
def test_an_agent_config_that_cannot_be_used(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "c"
    file.write_bytes(data)
    with pytest.raises(UseError, match=r"\A--agent-config.{1,400}\Z"):
        asked("--agent-config", str(file), "--agent", "claude", "--", "x")


def test_an_agent_config_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UseError, match=r"\A--agent-config .*cannot be read.*\Z"):
        asked("--agent-config", str(tmp_path), "--agent", "claude", "--", "x")


def test_an_agent_config_may_come_through_a_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"mcp": {}}')
    os.close(writing)
    made = asked("--agent-config", f"/dev/fd/{reading}", "--agent", "claude", "--", "x")
    os.close(reading)
    assert made.options["agent_config"] == {"mcp": {}}


DRIVEN = ("--agent", "claude")


@pytest.mark.parametrize(
    "words",
    [
        [*DRIVEN, "--agent-config", "given", "--", "cat"],
        [*DRIVEN, "--", "cat", "--settings", "given"],
        [*DRIVEN, "--", "cat", '--settings={"hooks": [1]}'],
        [*DRIVEN, "--resume", "given.jsonl", "--", "cat"],
        [*DRIVEN, "--resume", os.fsdecode(b"\xff.jsonl"), "--", "cat"],
        [*DRIVEN, "--resume", "", "--", "cat"],
        ["--", "cat", os.fsdecode(b"\xff")],
        [*DRIVEN, "--", "cat", os.fsdecode(b"--settings=\xff")],
    ],
    ids=[
        "agent config",
        "settings file",
        "settings",
        "resume",
        "resume of bytes",
        "resume of nothing",
        "a word of bytes",
        "settings file of bytes",
    ],
)
def test_what_cannot_be_used_is_one_line_and_an_error_of_use(tmp_path: Path, words: list[str]) -> None:
    for name in ("given", "given.jsonl"):
        (tmp_path / name).write_bytes(b'{"sessionId": "\xff"}')
    data = str(tmp_path / "data")
    ended = dragoman("run", "--port", "0", "--data", data, "--log-level", "error", *words, cwd=tmp_path)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1), ended.stderr
    assert ended.stderr.startswith("dragoman: ")


def test_coops_settings_stand_between_the_file_and_ours(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[server]\nport = 1\nhost = 'localhost'\n[run]\ndrain_timeout = 1.0\n")
    usual = settings_from({"COOP_PORT": "2", "COOP_DRAIN_TIMEOUT_MS": "1500", "COOP_RING_SIZE": "4096"})
    assert load(file, {}, {}, usual=usual).server.port == 2
    settings = load(file, {"DRAGOMAN_PORT": "3"}, {}, usual=usual)
    assert (settings.server.port, settings.server.host) == (3, "localhost")
    assert (settings.run.drain_timeout, settings.terminal.tape) == (1.5, 4096)


def test_coops_variables_are_those_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "dialects" / "coop.md"
    assert f"\n\n{table()}\n\n" in page.read_text()


def test_every_variable_of_the_page_is_read() -> None:
    read = set(OPTIONS.values())
    for name in re.findall(r"COOP_\w+", table()):
        if settings_from({name: "debug" if name == "COOP_LOG_LEVEL" else "1"}):
            read.add(name)
    assert read == set(re.findall(r"COOP_\w+", table()))


def test_coops_tuning_variables() -> None:
    given = {
        "COOP_INPUT_DELAY_MS": "100",
        "COOP_INPUT_DELAY_PER_BYTE_MS": "2",
        "COOP_INPUT_DELAY_MAX_MS": "3000",
        "COOP_NUDGE_TIMEOUT_MS": "0",
        "COOP_IDLE_TIMEOUT_MS": "60000",
        "COOP_SCREEN_DEBOUNCE_MS": "20",
        "COOP_SHUTDOWN_TIMEOUT_MS": "12000",
        "COOP_LOG_LEVEL": "WARN",
        "COOP_LOG_FORMAT": "json",
        "COOP_LOG_POLL_MS": "many",
        "COOP_DRAIN_TIMEOUT_MS": "-1",
        "COOP_GRPC_PORT": "9",
        "COOP_HOST": "",
    }
    settings = with_shutdown_timeout(load(None, {}, {}, usual=settings_from(given)))
    driver = settings.terminal.driver
    assert (driver.input_delay, driver.input_delay_per_byte, driver.input_delay_max) == (0.1, 0.002, 3.0)
    assert (driver.nudge_timeout, settings.run.idle_timeout, settings.terminal.screen_interval) == (0.0, 60.0, 0.02)
    usual = load(None, {}, {})
    assert (driver.log_interval, settings.run.drain_timeout) == (
        usual.terminal.driver.log_interval,
        usual.run.drain_timeout,
    )
    assert (settings.log.level, settings.log.json) == ("warning", True)
    assert _killed_after(settings) == 12.0


def _killed_after(settings: Settings) -> float:
    return settings.terminal.schedule.within(settings.server.stop_budget * 0.6).kill


def test_a_program_has_coops_time_to_end_unless_the_file_gives_another(tmp_path: Path) -> None:
    assert _killed_after(with_shutdown_timeout(load(None, {}, {}))) == 10.0
    file = tmp_path / "config.toml"
    file.write_text("[run]\nshutdown_timeout = 0.1\n")
    settings = with_shutdown_timeout(load(file, {}, {}))
    assert _killed_after(settings) == settings.terminal.schedule.terminate == 0.1


def test_coops_own_flags_are_understood() -> None:
    words = ["--auth-token", "t", "--log-format", "JSON", "--log-level", "WARN", "--term", "xterm", "--", "x"]
    given = flags_of(build_parser().parse_args(["run", *words]))
    assert given["server"]["token"] == "t"
    assert given["log"] == {"level": "warning", "json": True}
    assert flags_of(build_parser().parse_args(["run", "--log-format", "text", "--", "x"]))["log"]["json"] is False
    assert flags_of(build_parser().parse_args(["run", "--log-json", "--", "x"]))["log"]["json"] is True


@pytest.mark.parametrize(
    "words", [["--agent", "codex"], ["--agent", "opencode"], ["--agent", "claude", "--groom", "pristine"]]
)
@pytest.mark.parametrize("config", ['{"settings": {}}', '{"mcp": {}}', '{"stop": {}}', '{"start": {}}'])
def test_a_config_that_would_have_no_effect_is_refused(tmp_path: Path, words: list[str], config: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(config)
    with pytest.raises(UseError, match="--agent-config"):
        asked(*words, "--agent-config", str(file), "--", "x")


# Where it listens


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=LIMIT)
        self.path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LIMIT)
        self.sock.connect(self.path)


def fetch(connection: http.client.HTTPConnection, path: str, **headers: str) -> tuple[int, Any]:
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body)


def line(tmp_path: Path, *words: str) -> list[str]:
    data = str(tmp_path / "data")
    return [sys.executable, "-m", "dragoman", "run", "--port", "0", "--json", "--data", data, *words]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_ready_line_names_coop_at_the_root_and_the_others_by_prefix(tmp_path: Path) -> None:
    with running(line(tmp_path, "--", "cat"), tmp_path) as (_, ready):
        base = f"ws://127.0.0.1:{ready['port']}"
        assert ready["url"] == f"{base}/ws"
        others = {name: f"{base}/{name}/ws" for name in ("hub", "coworker", "onion", "windie")}
        assert ready["dialects"] == {"coop": f"{base}/ws", "cin": f"{base}/cin/", **others}


def test_a_unix_socket_serves_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for _ in range(2):
        with running(line(tmp_path, "--socket", str(path), "--", "cat"), tmp_path) as (process, ready):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            status, body = fetch(UnixConnection(path), "/api/v1/health")
            assert (status, body["status"]) == (200, "running")
            assert fetch(http.client.HTTPConnection("127.0.0.1", int(str(ready["port"]))), "/api/v1/health")[0] == 200
            taken = dragoman("run", "--port", "0", "--socket", str(path), "--data", str(tmp_path / "b"), "--", "cat")
            assert (taken.returncode, str(path) in taken.stderr) == (2, True)
            assert path.is_socket()
            process.kill()  # leaves its socket behind; the next one takes its place
    with running(line(tmp_path, "--socket", str(path), "--", "cat"), tmp_path) as (process, _):
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
        assert not path.exists()


def test_a_file_is_not_taken_for_a_socket(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    words = ["--port", "0", "--socket", str(tmp_path / "s"), "--data", str(tmp_path / "data"), "--", "cat"]
    ended = dragoman("run", *words)
    assert (ended.returncode, (tmp_path / "s").read_text()) == (2, "mine")
    assert str(tmp_path / "s") in ended.stderr


async def test_a_link_over_a_unix_socket_has_the_rights_of_this_machine(tmp_path: Path) -> None:
    from websockets.asyncio.client import unix_connect

    path = tmp_path / "s"
    words = line(tmp_path, "--socket", str(path), "--token", "secret", "--", "cat")
    with running(words, tmp_path):
        async with unix_connect(str(path), uri="ws://localhost/ws?mode=state", compression=None) as link:
            await link.send('{"event":"get:status"}')
            assert json.loads(await link.recv())["event"] == "status"
            await link.send('{"event":"input","text":"x"}')
            assert json.loads(await link.recv())["code"] == "UNAUTHORIZED"


def test_the_health_port_serves_health_only(tmp_path: Path) -> None:
    port = free_port()
    words = line(tmp_path, "--port-health", str(port), "--token", "secret", "--", "sh", "-c", "echo hi; cat")
    with running(words, tmp_path):

        def ask(path: str, **headers: str) -> tuple[int, Any]:
            return fetch(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT), path, **headers)

        assert ask("/api/v1/health")[1]["status"] == "running"
        assert "ready" in ask("/api/v1/ready")[1]
        assert ask("/api/v1/agent")[1]["agent"] == "unknown"
        for path in ("/api/v1/screen", "/api/v1/status", "/", "/ws", "/hub/sessions"):
            assert ask(path, Authorization="Bearer secret")[0] == 404, path
        with pytest.raises(ValueError):  # noqa: PT011  the guard's plain text
            ask("/api/v1/health", Origin="http://evil.example")


def test_a_taken_health_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = dragoman("run", "--port", "0", "--port-health", port, "--data", str(tmp_path), "--", "cat")
    assert (ended.returncode, port in ended.stderr) == (2, True)


# How it ends


@pytest.mark.parametrize("state", ["idle", "error"])
async def test_an_agent_at_rest_is_not_disturbed(play: Play, state: str) -> None:
    play.moves(state)
    await play.durable()
    assert await drain(play.session, limit=5, interval=1, hurried=asyncio.Event())
    assert play.session.terminal.written == b""


async def test_escape_at_once_and_again_until_the_agent_rests(play: Play) -> None:
    play.moves("working")
    await play.durable()
    draining = asyncio.create_task(drain(play.session, limit=LIMIT, interval=0.05, hurried=asyncio.Event()))
    await eventually(lambda: len(play.session.terminal.written) == 3, "three presses")
    assert not draining.done()
    play.moves("idle")
    assert await draining
    assert set(play.session.terminal.written) == {0x1B}


async def test_an_agent_that_never_rests_is_waited_for_until_the_deadline(play: Play) -> None:
    play.moves("working")
    await play.durable()
    began = time.monotonic()
    assert not await drain(play.session, limit=0.3, interval=0.2, hurried=asyncio.Event())
    assert 0.25 < time.monotonic() - began < LIMIT
    assert play.session.terminal.written == b"\x1b\x1b"


@pytest.mark.parametrize("case", ["off", "no driver", "exited"])
async def test_no_escape_where_there_is_nothing_to_bring_to_rest(play: Play, case: str) -> None:
    play.factory.driven = case != "no driver"
    play.moves("working")
    if case == "exited":
        play.record(AgentExited(cause="exit", code=0))
    await play.durable()
    assert await drain(play.session, limit=0 if case == "off" else 5, interval=1, hurried=asyncio.Event())
    assert play.session.terminal.written == b""


async def test_a_second_request_breaks_it_off(play: Play) -> None:
    play.moves("working")
    await play.durable()
    hurried = asyncio.Event()
    draining = asyncio.create_task(drain(play.session, limit=60, interval=30, hurried=hurried))
    await eventually(lambda: play.session.terminal.written, "the first press")
    hurried.set()
    async with asyncio.timeout(LIMIT):
        assert not await draining


async def test_only_idleness_without_a_break_counts(play: Play) -> None:
    waiting = asyncio.create_task(idle_for(play.session, 0.3))
    for _ in range(4):
        play.moves("idle")
        await asyncio.sleep(0.1)
        play.moves("working")
    await asyncio.sleep(0.4)
    assert not waiting.done()
    play.moves("idle")
    began = time.monotonic()
    for number in range(3):
        await asyncio.sleep(0.05)
        play.record(TerminalTitled(title=f"{number}", tape_offset=0))  # news of other things is no break
    async with asyncio.timeout(LIMIT):
        await waiting
    assert time.monotonic() - began >= 0.25


RECORDS = "stty raw -echo; exec cat > {}"


def test_a_stop_brings_a_driven_agent_to_rest_first(tmp_path: Path) -> None:
    """Spec 6.3: Escape at once and every 2 s until the deadline, then the hang-up."""
    words = line(tmp_path, "--agent", "claude", "--groom", "pristine", "--", "sh", "-c", RECORDS.format("keys"))
    environment = {**os.environ, "COOP_DRAIN_TIMEOUT_MS": "1000"}
    with running(words, tmp_path, env=environment) as (process, _):
        time.sleep(0.5)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 1
        assert 0.9 < time.monotonic() - began < 6
    assert (tmp_path / "keys").read_bytes() == b"\x1b"


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    words = line(tmp_path, "--agent", "claude", "--groom", "pristine", "--", "sh", "-c", RECORDS.format("keys"))
    with running(words, tmp_path) as (process, _):
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        while not (tmp_path / "keys").exists() or not (tmp_path / "keys").read_bytes():
            assert time.monotonic() - began < LIMIT
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 130
        assert time.monotonic() - began < 10, "the drain timeout is 20 s"
