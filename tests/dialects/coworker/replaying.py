"""Turns of the original server, played again: our native agent gets the provider's recorded events, over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.native.providers.openai_responses import OpenAIResponses
from dragoman.dialects.coworker.chunks import TurnChunks
from dragoman.dialects.coworker.messages import encode
from dragoman.hub.events import Answer, AnyFact, RawPart, TurnEnded
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.workspace_config import WorkspaceConfigs
from tests.agents.native.mcp.mcp_rig import MCP
from tests.agents.native.native_rig import QUICK, NativeHub, native_hub
from tests.agents.native.providers.played import Play, playing, sse
from tests.hub.rig import PATIENCE
from tests.hub.workspaces import KnownSkills

FRAMES = Path(__file__).parents[4] / "shared" / "frames" / "coworker"

PATIENT = msgspec.structs.replace(QUICK, mcp=MCP)
"""Settings under which a turn waits for its servers of tools."""

KEY = "sk-recorded-0123456789"

Chunk = dict[str, Any]

_HELLO = [
    {"type": "response.output_item.added", "output_index": 0, "item": {"id": "m", "type": "message"}},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hello from the "},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "fake model."},
    {"type": "response.output_item.done", "output_index": 0, "item": {"id": "m", "type": "message"}},
    {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
]
"""What a sub-agent's model said: its events are not in the recordings."""


class Turn(msgspec.Struct):
    """One turn as it was recorded: its chunks, and what its client answered meanwhile."""

    chunks: list[Chunk] = []
    answers: list[dict[str, Any]] = []
    cancelled: bool = False

    @property
    def steps(self) -> list[list[Any]]:
        """The provider's events, of each step that it answered."""
        steps: list[list[Any]] = []
        for chunk in self.chunks:
            if chunk["partType"] == "start_step":
                steps.append([])
            elif chunk["partType"] == "raw":
                steps[-1].append(chunk["part"]["raw"])
        return steps


def recorded(name: str) -> list[Turn]:
    """The turns of one recording."""
    turns: dict[str, Turn] = {}
    asked: dict[str, Turn] = {}
    current = Turn()
    for line in (FRAMES / f"{name}.jsonl").read_text().splitlines():
        given = json.loads(line)
        frame = given.get("frame") or {}
        if given["dir"] == "recv" and frame["type"] == "model_stream_chunk":
            current = turns.setdefault(frame["turnId"], Turn())
            current.chunks.append(frame)
        elif given["dir"] == "recv" and frame["type"] in ("ask", "approval"):
            asked[f"{frame['type']}_response {frame['requestId']}"] = current
        elif given["dir"] == "send" and (turn := asked.pop(f"{frame['type']} {frame.get('requestId')}", None)):
            turn.answers.append(frame)
        elif given["dir"] == "send" and frame["type"] == "cancel":
            current.cancelled = True
    return list(turns.values())


async def replay(turn: Turn, folder: Path, *, configs: WorkspaceConfigs | None = None, **settings: Any) -> list[Chunk]:
    """The chunks of a turn of ours that met the same provider and the same client, as they are on the wire."""
    async with playing(*_plays(turn)) as server:
        provider = OpenAIResponses(name="openai", base_url=server.url, key=KEY, settings=QUICK)
        skills = KnownSkills()
        skills.add("pdf")
        try:
            async with native_hub(folder, provider=provider, skills=skills, configs=configs, settings=PATIENT) as hub:
                facts = await _facts(hub, turn, settings)
        finally:
            await provider.close()
    return projected(facts)


def projected(facts: Sequence[AnyFact]) -> list[Chunk]:
    """All chunks of the turn that ends in these facts."""
    ended = next(fact for fact in facts if isinstance(fact, TurnEnded))
    chunks = TurnChunks("s", ended.turn, provider="openai", model="gpt-5.2")
    made = [chunk for fact in facts for chunk in chunks.project(fact)]
    return [json.loads(encode(chunk)) for chunk in [*made, *chunks.end(ended.outcome, ended.problem)]]


def _plays(turn: Turn) -> Iterator[Play]:
    """What the provider's server answers, call for call."""
    for chunk in turn.chunks:
        if chunk["partType"] == "error":
            yield _refusal(chunk["part"]["error"])
            return
    spawning = {chunk["part"]["id"] for chunk in turn.chunks if chunk["part"].get("toolName") == "spawnAgent"
                and "id" in chunk["part"]}  # fmt: skip
    for step in turn.steps:
        ended = step[-1]["type"] in ("response.completed", "response.failed")
        yield Play([sse(*step)], after="end" if ended else "hold")
        if any(event.get("item", {}).get("call_id") in spawning for event in step):
            yield Play([sse(*_HELLO)])


def _refusal(error: dict[str, Any]) -> Play:
    status = "401 Unauthorized" if error["name"] == "AI_APICallError" else "500 Internal Server Error"
    message = error["message"].rpartition("Last error: ")[2]
    body = json.dumps({"error": {"message": message, "type": "refused", "code": None}}).encode()
    return Play([body], status=status, headers={"Content-Type": "application/json"})


async def _facts(hub: NativeHub, turn: Turn, settings: dict[str, Any]) -> list[AnyFact]:
    session = await hub.session(raw_parts=True, provider="openai", model="gpt-5.2", **settings)
    begin = session.head
    await hub.submit(session, "go")
    heard = sum(len(step) for step in turn.steps)
    answers = list(turn.answers)
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        facts = (await hub.facts(session))[begin:]
        if any(isinstance(fact, TurnEnded) for fact in facts):
            return facts
        assert asyncio.get_running_loop().time() < deadline, f"the turn does not end: {facts[-1]}"
        await _answer(session, answers)
        all_heard = sum(isinstance(fact, RawPart) for fact in facts) >= heard
        if turn.cancelled and all_heard and not answers and session.shown.turn is not None:
            await session.cancel(LOCAL, session.shown.turn.turn, via="test")
        await asyncio.sleep(0)


async def _answer(session: Session, answers: list[dict[str, Any]]) -> None:
    """Answer what is open as the client did; what the original did not ask is permitted."""
    for opened in list(session.shown.decisions.values()):
        wanted = "ask_response" if opened.kind == "question" else "approval_response"
        given = next((answer for answer in answers if answer["type"] == wanted), None)
        if given is None:
            continue
        answers.remove(given)
        said = Answer(text=given["answer"]) if wanted == "ask_response" else Answer(accept=given["approved"])
        await session.answer(LOCAL, opened.decision, said, via="test")
