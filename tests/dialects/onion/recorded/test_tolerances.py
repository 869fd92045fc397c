"""What may be said beyond the seed comes between what the recordings have, and changes nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .canonical import canonical
from .compare import problems
from .differences import expected
from .host import RecordedHost
from .player import Player
from .recording import Entry, Received, load, received, sockets
from .showing import side_by_side

TOLERATED = ("assistant_delta", "session_sync")


@pytest.mark.parametrize(
    "name",
    [
        "agent_error",
        "approval_reject",
        "client_py192_on_121",
        "client_ts033_open",
        "compact",
        "input_tool_errors",
        "interrupt",
        "reconnect_idle_merge",
        "reconnect_running_replay_all",
        "runtime_input",
        "two_sockets_running",
    ],
)
async def test_they_only_add(name: str, tmp_path: Path) -> None:
    wanted = expected(name)
    async with RecordedHost(name, load(name).began, tmp_path, tolerate=TOLERATED).running() as host:
        player = Player(host, beside=TOLERATED)
        await player.play(wanted)
    got = canonical(player.entries)
    found = problems(wanted, got)
    assert not found, "\n".join([*found, side_by_side(wanted, got)])
    for frame in (other.frame for other in player.others):
        assert {"type", "id", "ts", "session_id"} < frame.keys()
    _check_texts(player.entries, player.others)
    _check_syncs(player.entries, player.others)


def _check_texts(entries: list[Entry], others: list[Received]) -> None:
    """The pieces join to the results, on every socket that heard a turn to its end."""
    for conn in sockets(entries):
        said = "".join(o.frame["content"] for o in others if o.conn == conn and o.frame["type"] == "assistant_delta")
        told = [frame["result"] for frame in received(entries, conn) if frame["type"] == "OUTPUT"]
        assert said == "".join(result for result in told if result.startswith("echo["))


def _check_syncs(entries: list[Entry], others: list[Received]) -> None:
    """One for each turn that a socket heard the result of, with what was said by then."""
    for conn in sockets(entries):
        syncs = [o.frame for o in others if o.conn == conn and o.frame["type"] == "session_sync"]
        ends = [frame for frame in received(entries, conn) if frame["type"] == "OUTPUT"]
        assert [sync["session_id"] for sync in syncs] == [end["session_id"] for end in ends]
        assert all(sync["session"]["messages"] for sync in syncs)
