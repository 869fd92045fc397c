"""The chunks of our turns against those that the original server sent for the same turns (seed: partType contract).

What may differ is written down here, and nothing else may.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.agents.native.mcp.mcp_rig import Configs, demo

from .replaying import FRAMES, Chunk, Turn, recorded, replay

pytestmark = pytest.mark.skipif(not FRAMES.is_dir(), reason="the recordings of the original are not beside this copy")

SESSIONS = (
    "busy",
    "cancel_during_approval",
    "cancel_during_ask",
    "cancel_during_bash",
    "cancel_during_stream",
    "execute_command",
    "session_backup",
    "turn_approval_no",
    "turn_approval_yes",
    "turn_ask_free",
    "turn_ask_options",
    "turn_bad_tool_input",
    "turn_bash_safe",
    "turn_cat",
    "turn_control_op",
    "turn_dangerous_yes",
    "turn_empty_text",
    "turn_empty_user",
    "turn_files",
    "turn_full",
    "turn_http401",
    "turn_http500",
    "turn_memory",
    "turn_missing_file",
    "turn_multi_text",
    "turn_outside_scope",
    "turn_outside_write",
    "turn_parallel",
    "turn_reasoning",
    "turn_skill",
    "turn_spawn_explore",
    "turn_text",
    "turn_todos",
    "turn_unknown_tool",
    "turn_whitespace_text",
    "turn_yolo",
    "two_messages_at_once",
    "two_turns_reset",
)
"""Not among them: ``turn_failed`` and ``turn_spawn_general``, defects of the original; ``disconnect_pending_ask``, that
has no end."""

OWN_WORDS = frozenset(
    {
        "session_backup",
        "turn_cat",
        "turn_control_op",
        "turn_files",
        "turn_mcp",
        "turn_memory",
        "turn_outside_scope",
        "turn_skill",
    }
)
"""Recordings of other files than lie in our folder: results say other things."""


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_turn_has_the_chunks_that_the_original_sent(name: str, tmp_path: Path) -> None:
    for number, turn in enumerate(recorded(name)):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = await replay(turn, folder, mode="all" if name == "turn_yolo" else "accept_edits")
        assert [chunk["index"] for chunk in made] == list(range(len(made)))
        assert compared(made, turn, name) == compared(turn.chunks, turn, name)


async def test_a_tool_that_was_found_has_the_chunks_that_the_original_sent(tmp_path: Path) -> None:
    for turn, enabled in zip(recorded("turn_mcp"), (True, False), strict=True):
        folder = tmp_path / str(enabled)
        folder.mkdir()
        made = await replay(turn, folder, configs=Configs(demo(), enable=enabled), mode="all")
        assert compared(made, turn, "turn_mcp") == compared(turn.chunks, turn, "turn_mcp")


async def test_an_answer_that_its_provider_calls_failed_is_an_error(tmp_path: Path) -> None:
    """Where the original ended as if nothing had been: after three tries, each with its own events."""
    (turn,) = recorded("turn_failed")
    made = await replay(turn, tmp_path)
    assert [chunk["partType"] for chunk in made] == ["start", "start_step", *["raw"] * 9, "error"]
    assert made[-1]["part"]["error"]["message"] == "model exploded"


async def test_the_usual_sub_agent_works(tmp_path: Path) -> None:
    """Where the original's had no prompt, and its call failed."""
    (turn,) = recorded("turn_spawn_general")
    made = await replay(turn, tmp_path)
    then = ["tool_result" if chunk["partType"] == "tool_error" else chunk["partType"] for chunk in turn.chunks]
    assert [chunk["partType"] for chunk in made] == then


def compared(chunks: list[Chunk], turn: Turn, name: str) -> list[Any]:
    """Chunks without what may differ."""
    kept: list[Any] = []
    results: list[Any] = []
    for chunk in chunks:
        kind, part, raw = chunk["partType"], copy.deepcopy(chunk["part"]), copy.deepcopy(chunk["rawPart"])
        for said in (part, raw):
            _strip(said, words=name not in OWN_WORDS)
        if kind in ("tool_result", "tool_error"):
            results.append([kind, part, raw])  # a tool runs while its model still talks: when it ends is not fixed
            continue
        if kind == "finish_step":
            kept += sorted(results, key=lambda result: str(result[1]["toolCallId"]))
            results.clear()
        kept.append([kind, part, raw])
    assert not results
    return kept


def _strip(said: dict[str, Any], *, words: bool) -> None:
    said.pop("request", None)  # what was asked holds the system prompt
    if "finishReason" in said and "response" in said:
        said["response"].pop("headers", None)
        said["usage"].pop("raw", None)
    error = said.get("error")
    if isinstance(error, dict):
        error.pop("stack", None)
        error.pop("code", None)
        if error["name"] == "AI_RetryError":  # how often it was tried is in the log's own lines
            error |= {"name": "AI_APICallError", "message": error["message"].rpartition("Last error: ")[2]}
        if said.get("invalid") or "toolCallId" in said:  # a tool's own words
            error.pop("message")
    elif error is not None:
        said["error"] = type(error).__name__
    if not words and "output" in said:
        said["output"] = None
