"""A coworker client on a terminal session: a prompt is typed into the agent, its dialog is an approval or an ask."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from tests.fake_agent.test_launch import Place, Run

Json = dict[str, Any]

LIMIT = 30.0
"""Seconds for any frame that must come."""


class Link:
    """One client of the run's session."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.frames: list[Json] = []

    async def send(self, type_: str, **fields: Any) -> None:
        session = self.frames[0]["sessionId"]
        await self._socket.send(json.dumps({"type": type_, "sessionId": session, **fields}))

    async def until(self, type_: str, **fields: Any) -> Json:
        """The next frame like that; those before it are kept."""
        try:
            async with asyncio.timeout(LIMIT):
                while True:
                    frame: Json = json.loads(await self._socket.recv())
                    self.frames.append(frame)
                    if frame["type"] == type_ and fields.items() <= frame.items():
                        return frame
        except TimeoutError:
            raise AssertionError(f"no {type_} {fields} after {self.frames[-10:]}") from None

    def since(self, first: Json) -> list[str]:
        """The types of what came from this frame on, but for the unasked news of providers."""
        begin = next(place for place, frame in enumerate(self.frames) if frame is first)
        types = [frame["type"] for frame in self.frames[begin:]]
        return [type_ for type_ in types if type_ not in ("provider_catalog", "provider_status")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def session_of(run: Run) -> str:
    (row,) = run.server.http("GET", "/hub/sessions").json["sessions"]
    return str(row["session"])


@contextlib.asynccontextmanager
async def joined(run: Run, *, named: bool = True) -> AsyncIterator[Link]:
    url = run.server.ready["dialects"]["coworker"]
    async with connect(f"{url}?session={session_of(run)}" if named else url) as socket:
        link = Link(socket)
        await link.until("server_hello")
        yield link


async def test_a_terminal_is_named_by_its_agent_and_its_command(place: Place) -> None:
    async with place.run() as run, joined(run) as link:
        config = link.frames[0]["config"]
        assert config["provider"] == "claude"
        assert config["model"] == " ".join(place.command)
        assert config["workingDirectory"] == str(place.project)
        await link.send("list_tools")
        assert (await link.until("tools"))["tools"] == []


async def test_a_link_that_names_no_session_views_the_one_that_is_run(place: Place) -> None:
    async with place.run() as run:
        async with joined(run, named=False) as link:
            assert link.frames[0]["sessionId"] == session_of(run)
            assert link.frames[0]["config"]["provider"] == "claude"
        assert session_of(run), "there is still one, and it goes on"
        assert (await run.becomes("idle"))["next"] == "idle"


async def test_a_prompt_is_typed_and_its_turn_is_told(place: Place) -> None:
    async with place.run() as run, joined(run) as link:
        await run.becomes("idle")
        await link.send("user_message", text="[[say:Here you are.]]", clientMessageId="x")
        echo = await link.until("user_message")
        assert (echo["text"], echo["clientMessageId"]) == ("[[say:Here you are.]]", "x")
        await link.until("session_busy", busy=True)
        assert (await link.until("assistant_message"))["text"] == "Here you are."
        await link.until("session_busy", busy=False)
        assert place.effects("submitted")[-1]["text"] == "[[say:Here you are.]]"
        assert link.since(echo).count("user_message") == 1


@pytest.mark.parametrize(("approved", "result"), [(True, "allowed"), (False, "denied")], ids=["yes", "no"])
async def test_its_dialog_is_an_approval(place: Place, approved: bool, result: str) -> None:
    async with place.run() as run, joined(run) as link:
        await run.becomes("idle")
        await link.send("user_message", text="[[permission:touch made.txt]]")
        asked = await link.until("approval")
        assert set(asked) == {"type", "sessionId", "requestId", "command", "dangerous", "reasonCode"}
        await link.send("user_message", text="more")
        assert (await link.until("error"))["message"] == "Agent is busy"
        await link.send("approval_response", requestId=asked["requestId"], approved=approved)
        await link.until("session_busy", busy=False)
        await link.send("approval_response", requestId=asked["requestId"], approved=approved)
        late = f"[warn] approval_response for unknown requestId: {asked['requestId']}"
        assert (await link.until("log", line=late))["line"] == late


async def test_words_to_a_plan_are_its_answer_and_the_turn_goes_on(place: Place) -> None:
    async with place.run() as run, joined(run) as link:
        await run.becomes("idle")
        await link.send("user_message", text="[[plan]]")
        asked = await link.until("ask")
        await link.send("ask_response", requestId=asked["requestId"], answer="write fewer lines")
        end = await link.until("model_stream_chunk", partType="finish")
        await link.until("session_busy", busy=False)
        said = next(frame for frame in link.frames if frame.get("partType") == "tool_output_denied")
        assert said["part"]["reason"].endswith("the user said:\nwrite fewer lines")
        assert not [frame for frame in link.frames if frame.get("partType") == "abort"], end


async def test_who_joins_while_it_asks_is_asked_as_well(place: Place) -> None:
    async with place.run() as run, joined(run) as first:
        await run.becomes("idle")
        await first.send("user_message", text="[[permission:touch made.txt]]")
        asked = await first.until("approval")
        async with joined(run) as second:
            await second.until("session_busy", busy=True)
            assert (await second.until("approval"))["requestId"] == asked["requestId"]
            await second.send("approval_response", requestId=asked["requestId"], approved=True)
            await first.until("session_busy", busy=False)
            await second.until("session_busy", busy=False)


async def test_a_turn_is_cancelled_and_the_session_outlives_its_viewers(place: Place) -> None:
    async with place.run() as run:
        await run.becomes("idle")
        async with joined(run) as link:
            await link.send("user_message", text="[[think:60000]]")
            await link.until("session_busy", busy=True)
            await run.becomes("working")
            await link.send("cancel")
            await link.until("session_busy", busy=False)
        async with joined(run) as again:
            await again.send("user_message", text="[[say:Still here.]]")
            await again.until("assistant_message", text="Still here.")


@pytest.mark.parametrize(
    ("type_", "fields"),
    [("set_model", {"model": "x"}), ("set_enable_mcp", {"enableMcp": False}), ("reset", {})],
    ids=["model", "mcp", "reset"],
)
async def test_what_only_the_agent_itself_can_change_is_refused(place: Place, type_: str, fields: Json) -> None:
    async with place.run() as run, joined(run) as link:
        await run.becomes("idle")
        await link.send(type_, **fields)
        refused = await link.until("error")
        assert (refused["code"], refused["source"]) == ("validation_failed", "session")
        assert "terminal" in refused["message"]


async def test_a_session_that_is_closed_says_so_to_who_views_it_and_to_who_joins(place: Place) -> None:
    async with place.run() as run, joined(run) as link:
        session = session_of(run)
        assert run.server.http("POST", f"/hub/sessions/{session}/close").status == 200
        said = "the session is closed: closed"
        await link.until("log", line=said)
        async with connect(f"{run.server.ready['dialects']['coworker']}?session={session}") as socket:
            late = Link(socket)
            await late.until("log", line=said)


async def test_a_session_that_is_not_there_is_not_joined(place: Place) -> None:
    async with place.run() as run:
        url = run.server.ready["dialects"]["coworker"]
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"{url}?session=00000000-0000-4000-8000-000000000000"):
                pass
        assert refused.value.response.status_code == 404
