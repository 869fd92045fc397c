"""Console lines are told from the conversation as the original told them, in the seed's words; and ours are those."""

from __future__ import annotations

from pathlib import Path

import pytest

from .console import in_words_of_seed, lines_of, of_seed, without_counts
from .differences import expected
from .host import RecordedHost
from .player import Player
from .recording import FOLDER, SCENARIOS, load

HOSTS = {
    "console-open-18620.txt": ("compact",),
    "console-open-18621.txt": ("thinking",),
    "console-strict-18624.txt": ("strict",),
    "console-open-18960.txt": (
        "merge_iteration_resets_each_turn",
        "error_while_reattached",
        "rewind_to_shared_llm_id",
        "input_signed_prompt_mismatch",
        "disconnect_while_waiting_answer_old_socket",
    ),
}
"""Which scenarios one host of the original played, one after the other."""

NOT_HERE = ("files_big", "ping_pong", "http_open", "careful_http", "careful_code_http")
"""Scenarios that say nothing more of the console, or talk over HTTP."""


@pytest.mark.parametrize("file", HOSTS)
def test_the_lines_are_told_as_the_original_told_them(file: str) -> None:
    said = [in_words_of_seed(line) for line in (FOLDER / file).read_text("utf-8").splitlines()]
    told = [line for name in HOSTS[file] for line in lines_of(load(name).entries)]
    assert sorted(without_counts(told)[0]) == sorted(without_counts(said)[0])
    assert without_counts(told)[1:] == without_counts(said)[1:]


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in NOT_HERE])
async def test_our_console_says_what_the_seed_says(name: str, tmp_path: Path) -> None:
    async with RecordedHost(name, load(name).began, tmp_path).running() as host:
        player = Player(host)
        await player.play(expected(name))
        told = lines_of(player.entries)
        said = [line for line in host.console if of_seed(line)]
    assert without_counts(said)[0] == without_counts(told)[0]
    assert without_counts(said)[1] == without_counts(told)[1]
