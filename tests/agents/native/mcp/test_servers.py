"""The life of MCP servers: late, hanging, dying, printing rubbish, switched off; and no process is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dragoman.agents.native.mcp import library
from dragoman.agents.native.mcp.server import pause
from dragoman.agents.native.mcp.servers import McpServers
from dragoman.agents.native.mcp.settings import McpSettings
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import StepStarted, TurnEnded
from dragoman.hub.journal import Journal
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.sqlite import SqliteJournal
from tests.agents.native.native_rig import of, outcome, script
from tests.hub.rig import until

from .mcp_rig import Configs, alive, demo, ends, lines, mcp_hub, program, said, text_of

DEAF = "import time; time.sleep(600)"
"""A server that never answers the handshake, nor ends when its input is closed."""

SHY = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(600)"
"""One that does not end when it is asked to, either."""


def servers_of(session: Session) -> McpServers:
    found = session.ensure_agent()._mcp  # type: ignore[attr-defined]
    assert isinstance(found, McpServers)
    return found


def state_of(session: Session, name: str = "demo") -> str | None:
    held = servers_of(session)._held.get(name)
    return held.server.state if held is not None else None


# Late and missing servers


async def test_a_turn_does_not_wait_for_a_server_that_hangs(tmp_path: Path) -> None:
    """The original's turns waited for every failing server, each turn anew."""
    configs = Configs(program("deaf", DEAF))
    async with mcp_hub(tmp_path, configs, first_wait=0.0) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("say at once"))
        assert outcome(facts) == "completed"
        assert state_of(session, "deaf") == "connecting", "the turn was over before anybody knew of the server"


async def test_a_turn_waits_for_a_new_server_once(tmp_path: Path) -> None:
    configs = Configs(program("deaf", DEAF))
    async with mcp_hub(tmp_path, configs, first_wait=0.3) as hub:
        session = await hub.session()
        loop = asyncio.get_running_loop()
        began = loop.time()
        await hub.turn(session, script("say first"))
        assert loop.time() - began >= 0.3
        held = servers_of(session)._held["deaf"].server
        assert held.waited_for
        await hub.turn(session, script("say second"))
        assert state_of(session, "deaf") == "connecting"


async def test_no_server_is_started_before_a_turn(tmp_path: Path) -> None:
    configs = Configs(demo())
    async with mcp_hub(tmp_path, configs) as hub:
        session = await hub.session()
        assert not servers_of(session).holds
        assert configs.reads == 0


async def test_a_server_that_cannot_be_had_is_tried_as_often_as_its_entry_says(tmp_path: Path) -> None:
    missing = msgspec.structs.replace(program("broken", DEAF, retries=1), command="/no/such")
    async with mcp_hub(tmp_path, Configs(missing), rest_seconds=600.0) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("say all the same"))
        assert outcome(facts) == "completed"
        told = lines(facts)
        assert told[0] == "[MCP] Retrying broken (attempt 2)..."
        assert told[1].startswith("[MCP] Failed to connect to broken after 2 attempts: ")
        assert "/no/such" in told[1]
        assert lines(await hub.turn(session, script("say again"))) == [], "it rests"


@pytest.mark.parametrize(
    ("times", "seconds"), [(1, 1.0), (2, 2.0), (3, 3.0), (0, 1.0), (100, 60.0)], ids=lambda value: f"{value:g}"
)
def test_each_try_waits_a_second_longer_than_the_one_before(times: int, seconds: float) -> None:
    assert pause(times, McpSettings()) == seconds


async def test_a_server_that_rested_is_tried_again_by_a_turn(tmp_path: Path) -> None:
    notes = tmp_path / "count"
    flaky = f"import pathlib; p = pathlib.Path({str(notes)!r}); p.open('a').write('x'); raise SystemExit(3)"
    async with mcp_hub(tmp_path, Configs(program("flaky", flaky))) as hub:
        session = await hub.session()
        await hub.turn(session, script("say one"))
        await until(lambda: state_of(session, "flaky") == "resting", "it rests")
        await hub.turn(session, script("say two"))
        await until(lambda: notes.read_text() == "xx", "the second try")


async def test_a_time_out_of_the_handshake_is_said_as_one(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(program("deaf", DEAF)), connect_seconds=0.2, first_wait=0.0) as hub:
        session = await hub.session()
        await hub.turn(session, script("say hello"))
        line = await said(session, "Failed to connect")
        assert line == "[MCP] Failed to connect to deaf after 1 attempts: it was not there within 0.2 s"
        await until(lambda: not alive(session.id), "its program is ended")


async def test_a_required_server_that_is_not_there_fails_the_turn(tmp_path: Path) -> None:
    required = program("needed", "raise SystemExit('no licence')", required=True)
    async with mcp_hub(tmp_path, Configs(required)) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("say anything"))
        assert outcome(facts) == "failed"
        (end,) = of(facts, TurnEnded)
        assert end.problem.code == "mcp_required"
        assert "needed" in end.problem.message
        assert "it ended with code 1: no licence" in end.problem.message
        assert not of(facts, StepStarted)


async def test_without_the_library_turns_go_on_and_the_extra_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise library.LibraryMissing(f"{library.EXTRA} (mcp)")

    monkeypatch.setattr(library, "_load", missing)
    configs = Configs(program("any", DEAF))
    async with mcp_hub(tmp_path, configs) as hub:
        session = await hub.session()
        facts = [*await hub.turn(session, script("say one")), *await hub.turn(session, script("say two"))]
        assert lines(facts) == ["[MCP] MCP servers need the extra mcp: pip install 'dragoman[mcp]' (mcp)"]
        assert outcome(facts) == "completed"


# Losing a server


async def test_a_server_that_dies_in_a_call_is_told_truthfully_and_comes_back(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo(retries=3))) as hub:
        session = await hub.session()
        (end,) = ends(await hub.turn(session, script("call mcp__demo__die {}")))
        assert end.status == "error"
        assert "was lost during the call" in end.problem.message
        assert "it ended with code 7" in end.problem.message
        assert "the last words" in await said(session, "Lost demo")
        await until(lambda: state_of(session) == "ready", "it is there again")
        facts = await hub.turn(session, script('call mcp__demo__echo {"text": "again"}'))
        assert text_of(ends(facts)[0]) == "again"


async def test_calls_of_a_lost_server_fail_at_once_and_it_is_not_started_over_and_over(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    configs = Configs(demo(env={"NOTES": str(notes)}, retries=3))
    async with mcp_hub(tmp_path, configs, retry_delay=600.0) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("call mcp__demo__die {}", *['call mcp__demo__echo {"text": "?"}'] * 3))
        assert [end.status for end in ends(facts)] == ["error"] * 4
        for end in ends(facts)[1:]:
            assert end.problem.message.startswith("The MCP server demo is not there: it ended with code 7")
        assert len([line for line in notes.read_text().splitlines() if line.startswith("started")]) == 1


RUBBISH = """
import os, runpy, sys, threading
def flood():
    for number in range(2000):
        os.write(2, b"noise " * 2000 + b"\\n")
threading.Thread(target=flood).start()
for number in range(20):
    print("this is not JSON", number, flush=True)
print('{"jsonrpc": "2.0", "method": 5}', flush=True)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


async def test_rubbish_on_its_output_and_a_flood_of_errors_cost_a_server_nothing(tmp_path: Path) -> None:
    usual = demo()
    noisy = program("noisy", RUBBISH, env=usual.env)
    noisy = msgspec.structs.replace(noisy, args=(*noisy.args, *usual.args))
    async with mcp_hub(tmp_path, Configs(noisy)) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script('call mcp__noisy__echo {"text": "heard"}'))
        assert text_of(ends(facts)[0]) == "heard"
        assert len(lines(facts)) == 1


async def test_a_program_that_prints_nothing_but_rubbish_is_no_server(tmp_path: Path) -> None:
    chatter = "while True: print('hello')"
    async with mcp_hub(tmp_path, Configs(program("chatter", chatter))) as hub:
        session = await hub.session()
        (line,) = lines(await hub.turn(session, script("say on")))
        assert "it printed 1000 lines that are no messages of MCP" in line
        await until(lambda: not alive(session.id), "it is ended")


async def test_a_message_without_end_lets_the_server_go(tmp_path: Path) -> None:
    endless = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    async with mcp_hub(tmp_path, Configs(program("endless", endless)), message_bytes=100_000) as hub:
        session = await hub.session()
        (line,) = lines(await hub.turn(session, script("say on")))
        assert "it sent a message of more than 100000 bytes (native.mcp.message_bytes)" in line


NAGGING = """
import json, sys, time
asked = json.loads(sys.stdin.readline())
result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "n", "version": "1"}}
print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
number = 0
while True:
    number += 1
    print(json.dumps({"jsonrpc": "2.0", "id": f"{number}" * 50, "method": "ping"}), flush=True)
"""


async def test_a_server_that_asks_and_never_reads_is_let_go(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(program("nagging", NAGGING))) as hub:
        session = await hub.session()
        await hub.turn(session, script("say on"))
        assert "it does not read what it is told" in await said(session, "Failed to connect")


# Switching


async def test_the_switch_takes_effect_at_the_next_step_and_ends_the_servers(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo())) as hub:
        session = await hub.session(enable_mcp=True)
        await hub.turn(session, script("say on"))
        assert alive(session.id)
        await session.change_settings(LOCAL, {"enable_mcp": False})
        facts = await hub.turn(session, script("call mcp__demo__add {}"))
        assert [end.problem.code for end in ends(facts)] == ["no_such_tool"]
        await until(lambda: not alive(session.id), "its program is ended")
        await until(lambda: not servers_of(session).holds, "nothing is held")
        await session.change_settings(LOCAL, {"enable_mcp": True})
        facts = await hub.turn(session, script('call mcp__demo__add {"a": 1, "b": 1}'))
        assert text_of(ends(facts)[0]) == "2"


async def test_an_unset_switch_is_the_configurations(tmp_path: Path) -> None:
    configs = Configs(demo(), enable=False)
    async with mcp_hub(tmp_path, configs) as hub:
        session = await hub.session()
        await hub.turn(session, script("say off"))
        assert not servers_of(session).holds
        await session.change_settings(LOCAL, {"enable_mcp": True})
        await hub.turn(session, script("say on"))
        assert state_of(session) == "ready"


async def test_the_switch_is_true_or_false(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs()) as hub:
        session = await hub.session()
        with pytest.raises(InvalidRequest, match="enable_mcp"):
            await session.change_settings(LOCAL, {"enable_mcp": "yes"})


async def test_a_changed_entry_is_another_server(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    configs = Configs(demo(env={"NOTES": str(notes)}))
    async with mcp_hub(tmp_path, configs) as hub:
        session = await hub.session()
        await hub.turn(session, script("say one"))
        configs.servers = (demo(env={"NOTES": str(notes), "MORE": "1"}),)
        facts = await hub.turn(session, script("call mcp__demo__environment {}"))
        assert "MORE=1" in text_of(ends(facts)[0])
        await until(lambda: len(alive(session.id)) == 1, "the old one is ended")


# Nothing is left behind


async def test_a_closed_session_leaves_no_process_not_even_a_grandchild_that_ignores_signals(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo(), program("shy", SHY)), first_wait=0.0) as hub:
        session = await hub.session()
        await hub.turn(session, script("say begin"))
        await until(lambda: state_of(session) == "ready", "it is there")
        (end,) = ends(await hub.turn(session, script("call mcp__demo__fork {}")))
        grandchild = int(text_of(end))
        assert grandchild in alive(session.id)
        assert len(alive(session.id)) == 3
        await session.close("done")
        assert alive(session.id) == []


async def test_a_server_that_stops_ends_the_servers_of_sessions_at_rest(tmp_path: Path) -> None:
    """Row 22 of the originals' known bugs: MCP children outlived their server."""
    async with mcp_hub(tmp_path, Configs(demo())) as hub:
        session = await hub.session()
        await hub.turn(session, script("say hello"))
        assert alive(session.id)
        assert not session.idle, "it stays in memory as long as its servers run"
        await hub.close()
        assert alive(session.id) == []
        await hub.open()


async def test_servers_that_no_turn_needs_for_long_are_ended(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo()), idle_seconds=0.05) as hub:
        session = await hub.session()
        await hub.turn(session, script("say hello"))
        await until(lambda: not alive(session.id), "they are ended")
        await until(lambda: session.idle, "the session may leave memory")
        facts = await hub.turn(session, script('call mcp__demo__echo {"text": "back"}'))
        assert text_of(ends(facts)[0]) == "back"


class OneFile:
    """A store that several processes have, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def journal(self) -> SqliteJournal:
        return SqliteJournal(self.folder / "journal.db")

    def crash(self, journal: Journal) -> None:
        raise NotImplementedError


async def host(folder: str) -> None:
    """A server with one session, which says its id once all its MCP servers run; until it is killed."""
    configs = Configs(demo())
    async with mcp_hub(Path(folder), configs, store=OneFile(Path(folder))) as hub:
        session = await hub.session()
        await hub.turn(session, script("call mcp__demo__fork {}"))
        configs.servers += (program("shy", SHY),)
        await hub.submit(session, script("say begin"))
        await until(lambda: len(alive(session.id)) == 3, "all run")
        print(session.id, flush=True)
        await asyncio.Event().wait()


async def test_what_a_killed_server_left_running_is_ended_by_the_next(tmp_path: Path) -> None:
    code = f"import asyncio; from {__name__} import host; asyncio.run(host({str(tmp_path)!r}))"
    served = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), stdout=subprocess.PIPE, env={**os.environ, **demo().env}
    )
    assert served.stdout is not None
    name = (await served.stdout.readline()).decode().strip()
    served.kill()
    await served.wait()
    left = alive(name)
    try:
        assert len(left) >= 2, "the server that does not end by itself, and what the other one started"
        async with mcp_hub(tmp_path, Configs(), store=OneFile(tmp_path)) as hub:
            await until(lambda: not alive(name), "what was left is ended")
            await said(await hub.get(name), "left running by the lost server: ended")
    finally:
        for pid in alive(name):
            os.kill(pid, signal.SIGKILL)
