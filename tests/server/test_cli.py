"""The command line: ready lines, errors of use in one line, exit codes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 20


def dragoman(
    *words: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    line = [sys.executable, "-m", "dragoman", *words]
    return subprocess.run(
        line, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, **(env or {})}, cwd=cwd, check=False
    )


@contextmanager
def running(
    line: list[str], folder: Path, *, env: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], dict[str, object]]]:
    """A server with its ready line; killed at the end if it still runs."""
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder, start_new_session=True, env=env
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # make has a child
        process.wait(LIMIT)
        assert process.stdout is not None
        process.stdout.close()
        log.close()


def test_make_serve_prints_the_ready_line(tmp_path: Path) -> None:
    arguments = f"ARGS=--port 0 --json --data {tmp_path}/data"
    with running(["make", "-s", "-C", str(ROOT), "serve", arguments, f"PYTHON={sys.executable}"], tmp_path) as (
        _,
        ready,
    ):
        assert list(ready)[:4] == ["type", "url", "port", "cwd"]
        assert ready["type"] == "server_listening"
        dialects = ready["dialects"]
        assert isinstance(dialects, dict)
        assert dialects["coop"] == f"ws://127.0.0.1:{ready['port']}/coop/ws"
        assert dialects["hub"] == f"ws://127.0.0.1:{ready['port']}/hub/ws"


def test_a_root_dialect_has_the_short_address(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--json", "--dialect", "coop"]
    with running([*line, "--data", str(tmp_path / "data")], tmp_path) as (_, ready):
        dialects = ready["dialects"]
        assert isinstance(dialects, dict)
        assert dialects["coop"] == f"ws://127.0.0.1:{ready['port']}/ws"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "a command is missing"),
        (["dance"], "dance"),
        (["serve", "--prot", "1"], "--prot"),
        (["serve", "--port", "many"], "many"),
        (["serve", "--port", "70000"], "server.port"),
        (["serve", "--dialect", "klingon"], "klingon"),
        (["serve", "--host", "0.0.0.0"], "without a token"),
        (["serve", "--config", "/no/such/file.toml"], "/no/such/file.toml"),
        (["serve", "--log-level", "loud"], "loud"),
        (["serve", "--data", "/proc/nowhere"], "/proc/nowhere"),
        (["serve", "--dir", "/no/such/folder"], "'/no/such/folder' is not a directory: give"),
        (["serve", "-d", "/etc/passwd"], "'/etc/passwd' is not a directory: give"),
        (["serve", "-p"], "-p"),
        (["serve", "extra"], "extra"),
        (["run"], "a program is missing"),
        (["run", "--", "no-such-program-anywhere"], "no-such-program-anywhere"),
        (["run", "--cols", "0", "--", "cat"], "positive"),
        (["run", "--cols", "5000", "--", "cat"], "1000"),
        (["run", "--", "/"], "folder"),
        (["attach"], "terminal"),
        (["config", "--config", "/no/such/file.toml"], "/no/such/file.toml"),
    ],
)
def test_an_error_of_use_is_one_line_and_exit_code_2(words: list[str], says: str, tmp_path: Path) -> None:
    if words[:1] in (["serve"], ["run"]) and "--data" not in words:
        words = [words[0], "--data", str(tmp_path / "data"), *words[1:]]
        words[1:1] = [] if "--port" in words else ["--port", "0"]
    ended = dragoman(*words)
    errors = [line for line in ended.stderr.splitlines() if not line[:2].isdigit()]
    assert ended.returncode == 2, ended.stderr
    assert len(errors) == 1, ended.stderr
    assert says in errors[0]
    assert ended.stdout == ""


def test_the_folder_that_is_served_is_entered_first(tmp_path: Path) -> None:
    """So what the other flags name is looked for there."""
    work = tmp_path / "work"
    work.mkdir()
    line = [sys.executable, "-m", "dragoman", "serve", "-jp0", "-d", "work", "--data", "data"]
    with running(line, tmp_path) as (_, ready):
        assert ready["cwd"] == str(work)
        assert (work / "data").is_dir()


def test_folders_are_made_where_a_setting_asks_for_it(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--json", "--data", str(tmp_path / "data")]
    env = {**os.environ, "DRAGOMAN_DIALECTS__COWORKER__MAKE_FOLDERS": "true"}
    with running(line, tmp_path, env=env):
        assert all((tmp_path / name).is_dir() for name in (".agent", "output", "uploads"))


def test_a_folder_that_cannot_be_made_is_an_error_of_use(tmp_path: Path) -> None:
    (tmp_path / "output").touch()
    ended = dragoman("serve", "--port", "0", "--data", str(tmp_path / "data"), "--make-folders", cwd=tmp_path)
    assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (2, "", 1), ended.stderr
    assert f"'{tmp_path}/output' cannot be made" in ended.stderr


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = dragoman("serve", "--port", port, "--data", str(tmp_path))
    assert ended.returncode == 2
    assert port in ended.stderr


def test_send_inside_an_agent_allows_its_next_stop(tmp_path: Path) -> None:
    """As ``coop send``: the signal is kept, whoever of the two proofs comes with it."""
    line = [sys.executable, "-m", "dragoman", "run", "--port", "0", "--json", "--data", str(tmp_path / "data")]
    with running([*line, "--agent", "claude", "--", "sh", "-c", "cat"], tmp_path) as (_, ready):
        env = {"COOP_URL": f"http://127.0.0.1:{ready['port']}"}
        for words in ([], ['{"status": "done"}'], ["0"], ["null"]):
            ended = dragoman("send", *words, env=env)
            assert (ended.returncode, json.loads(ended.stdout)) == (0, {"accepted": True}), ended.stderr
        ended = dragoman("send", json.dumps("x" * 70_000), env=env)
        assert (ended.returncode, json.loads(ended.stderr)["error"]["code"]) == (1, "BAD_REQUEST")


@pytest.mark.parametrize(
    ("words", "env", "code", "says"),
    [
        (["{"], {"COOP_URL": "http://127.0.0.1:1"}, 2, "no JSON"),
        (["hello"], {"COOP_URL": "http://127.0.0.1:1"}, 2, "SESSION TEXT"),
        ([], {"COOP_URL": ""}, 2, "COOP_URL"),
        ([], {"COOP_URL": "http://127.0.0.1:1"}, 1, "no server answers"),
        ([], {"COOP_URL": "nonsense"}, 1, "no server answers"),
    ],
)
def test_a_signal_that_cannot_be_sent(words: list[str], env: dict[str, str], code: int, says: str) -> None:
    ended = dragoman("send", *words, env=env)
    assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (code, "", 1), ended.stderr
    assert says in ended.stderr


@pytest.mark.parametrize("command", [["sessions"], ["send", "abc", "hello"]])
def test_a_server_that_is_not_there_is_said_so(command: list[str]) -> None:
    ended = dragoman(*command, "--url", "http://127.0.0.1:1")
    assert ended.returncode == 1
    assert "no server answers" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_config_prints_the_tree_without_the_token() -> None:
    ended = dragoman("config", env={"DRAGOMAN_TOKEN": "s3cret", "DRAGOMAN_PORT": "9"})
    assert json.loads(ended.stdout)["server"]["port"] == 9
    assert "s3cret" not in ended.stdout


def test_version_and_help() -> None:
    assert dragoman("--version").stdout.startswith("dragoman ")
    shown = dragoman("--help").stdout
    assert all(command in shown for command in ("serve", "run", "attach", "sessions", "send", "config"))


def test_sessions_and_send_reach_a_server(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--json", "--data", str(tmp_path / "data")]
    with running(line, tmp_path) as (_, ready):
        url = f"http://127.0.0.1:{ready['port']}"
        assert dragoman("sessions", "--url", url).stdout == "no sessions\n"
        made = subprocess.run(
            [sys.executable, "-c", _CREATE, url, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT,
        )
        session = made.stdout.strip()
        assert session[:8] in dragoman("sessions", "--url", url).stdout
        assert dragoman("send", session[:8], "say hello", "--url", url).stdout.startswith("started ")
        assert dragoman("send", session[:8], "ask anything", "--url", url).stderr == ""
        waiting = dragoman("send", session[:8], "say later", "--url", url)
        assert waiting.stdout.startswith("queued ")
        assert waiting.stderr == "it waits: the agent is working\n"
        row = json.loads(dragoman("sessions", "--json", "--url", url).stdout)
        assert (row["session"], row["kind"]) == (session, "scripted")
        ended = dragoman("send", "zzz", "say hello", "--url", url)
        assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)


_CREATE = """
import json, sys, urllib.request
body = json.dumps({"kind": "scripted", "cwd": sys.argv[2]}).encode()
asked = urllib.request.Request(sys.argv[1] + "/hub/sessions", body, {"content-type": "application/json"})
print(json.load(urllib.request.urlopen(asked))["session"])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_within_its_budget_although_programs_resist(number: signal.Signals, tmp_path: Path) -> None:
    stubborn = "trap '' HUP INT TERM; while :; do sleep 1; done"
    line = ["env", "COOP_SHUTDOWN_TIMEOUT_MS=800", sys.executable, "-m", "dragoman", "run", "--port", "0", "--json"]
    with running([*line, "--data", str(tmp_path / "data"), "--", "sh", "-c", stubborn], tmp_path) as (process, _):
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(LIMIT) == 1, "the program was killed by a signal"
        assert time.monotonic() - began < 4, "stop_budget is 2 s; the rest is this machine's"


def test_a_log_that_nobody_reads_stalls_neither_requests_nor_the_end(tmp_path: Path) -> None:
    """As under a desktop that takes stderr and forgets it."""
    line = [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--json", "--data", str(tmp_path / "data")]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        for _ in range(100):  # each is logged with its path: twice what a pipe holds
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
            connection.request("POST", f"/hub/{'x' * 4_000}")
            assert connection.getresponse().status == 404
            connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_exit_code_of_run_is_the_programs(tmp_path: Path) -> None:
    ended = dragoman(
        "run", "--port", "0", "--data", str(tmp_path / "d"), "--exit-with-child", "--", "sh", "-c", "exit 7"
    )
    assert ended.returncode == 7


def test_what_cannot_be_written_is_one_line_and_no_success(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "dragoman", "config"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, timeout=LIMIT, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr == b"dragoman: it could not be written: No space left on device\n"


def test_whoever_stops_reading_has_read_enough(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "dragoman", "config"]
    try:
        done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, timeout=LIMIT, cwd=tmp_path, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
