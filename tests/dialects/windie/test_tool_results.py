"""Results of tools that a client runs: which call they end, what the model is given, and what becomes of all others."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.providers.conversation import ToolMessage
from dragoman.dialects.windie import tool_results
from dragoman.hub.events import ToolEnded
from tests.agents.native.native_rig import of, script
from tests.hub.rig import turns_of_the_loop, until

from .link_rig import PNG, Client, Frame, Place, definition, place, tool

ONE = script('call save_note {"text": "a"}', "say done")
TWO = script('call save_note {"text": "a"}\ncall save_note {"text": "b"}', "say done")
SAVED = "Tool save_note executed successfully (no output)."


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as opened:
        yield opened


async def working(here: Place, user: str = "user") -> Client:
    return await here.client(user, agent_definition=definition(tool()))


async def called(client: Client, text: str = ONE) -> tuple[str, Frame]:
    """Ask for it; the query's id and the call."""
    name = client.ask(text)
    return name, await client.called()


async def bundled(client: Client, text: str = TWO) -> tuple[str, Frame]:
    name = client.ask(text)
    frame = await client.reply(name, "tool-bundle")
    return name, frame["payload"]


def result(call: Frame, **more: Any) -> Frame:
    return {"request_id": call["request_id"], "success": True, "data": {"output": "saved"}, **more}


def steps(*given: Frame) -> list[Frame]:
    return [{"tool": "save_note", "status": "ok", **each} for each in given]


def given(here: Place) -> list[ToolMessage]:
    """What the model was given by tools."""
    return [message for message in here.model.last if isinstance(message, ToolMessage)]


async def ends(here: Place) -> list[ToolEnded]:
    return of(await here.hub.facts(await here.session()), ToolEnded)


# One call


async def test_a_result_goes_to_the_model_and_its_turn_goes_on(here: Place) -> None:
    client = await working(here)
    name, call = await called(client)
    assert (call["tool_name"], call["parameters"]) == ("save_note", {"text": "a"})
    client.send("tool-result", result(call))
    assert await client.ended(name) == "done"
    assert [(message.text, message.failed) for message in given(here)] == [("saved", False)]
    assert "tool-output" not in client.told(name), "its own people have seen it"


@pytest.mark.parametrize(
    ("output", "text"),
    [("text", "text"), (None, "null"), ({"a": [1]}, '{"a":[1]}'), ("", ""), (0, "0")],
)
async def test_the_output_is_any_json(here: Place, output: Any, text: str) -> None:
    """Also null, which a formatter of the original refused."""
    client = await working(here)
    name, call = await called(client)
    client.send("tool-result", result(call, data={"output": output}))
    await client.ended(name)
    assert given(here)[0].text == text


async def test_the_model_sees_the_output_and_nothing_beside_it(here: Place) -> None:
    """Defect f40827bd of the original; and no free field is taken for one of ours."""
    client = await working(here)
    name, call = await called(client)
    beside = {
        "system_state": {"active_window": "W", "mouse_position": "(1, 2)"},
        "system_state_internal": {"secret": "S3CRET"},
        "capture_meta": {"frame_id": "f"},
    }
    free = {"model_text": "another text", "debug": "D3BUG"}
    client.send("tool-result", result(call, data={"output": "saved", **beside, **free}))
    await client.ended(name)
    assert given(here)[0].text == "saved"
    assert "S3CRET" not in str(here.model.requests[-1])
    (end,) = await ends(here)
    assert end.detail == {**beside, "extra": free}


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        ({"error": "no disk"}, "no disk"),
        ({"data": {}, "error": "no disk"}, "no disk"),
        ({"data": {"output": "half of it"}, "error": "no disk"}, "half of it"),
        ({"data": {"output": "half of it"}}, "half of it"),
        ({"data": {"output": None}}, "the tool failed, and did not say why"),
        ({}, "the tool failed, and did not say why"),
    ],
)
async def test_a_failure_is_a_result(here: Place, failure: Frame, text: str) -> None:
    """Defect bbe85317 of the original: without output the turn hung."""
    client = await working(here)
    name, call = await called(client)
    client.send("tool-result", {"request_id": call["request_id"], "success": False, **failure})
    assert await client.ended(name) == "done"
    assert [(message.text, message.failed) for message in given(here)] == [(text, True)]
    (end,) = await ends(here)
    assert end.status == "error"
    assert end.problem is not None
    assert end.problem.code == "tool_failed"


async def test_a_result_that_is_too_long_ends_its_call_as_a_failure(
    here: Place, caplog: pytest.LogCaptureFixture
) -> None:
    client = await working(here)
    name, call = await called(client)
    client.send("tool-result", result(call, data={"output": "x" * 5_000_000, "screenshot_ref": await here.upload()}))
    assert await client.ended(name) == "done"
    (message,) = given(here)
    assert message.failed
    assert "tool_result_bytes" in message.text
    assert "TOOL_VALIDATION_ERROR" in caplog.text
    session = await here.session()
    folder = here.hub.artifacts._folder / session.id  # type: ignore[union-attr]
    assert not any(folder.iterdir()), "its picture is let go"


@pytest.mark.parametrize("inline", [True, False])
async def test_its_screenshot_is_shown_to_the_model(here: Place, inline: bool) -> None:
    client = await working(here)
    name, call = await called(client)
    shot = {"screenshot": base64.b64encode(PNG).decode()} if inline else {"screenshot_ref": await here.upload()}
    client.send("tool-result", result(call, data={"output": "seen", **shot}))
    await client.ended(name)
    (message,) = given(here)
    assert [image.data for image in message.images] == [PNG]
    (end,) = await ends(here)
    assert len(end.artifacts) == 1


@pytest.mark.parametrize("shot", [{"screenshot": "none!"}, {"screenshot_ref": "shot.png"}, {"screenshot_ref": " "}])
async def test_a_screenshot_that_is_none_is_left_out(here: Place, shot: Frame) -> None:
    client = await working(here)
    name, call = await called(client)
    client.send("tool-result", result(call, data={"output": "seen", **shot}))
    await client.ended(name)
    assert [(message.text, message.images) for message in given(here)] == [("seen", ())]


# Results that are nobody's


async def test_a_result_that_comes_twice_or_late_changes_nothing(here: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    client = await working(here)
    name, call = await called(client)
    ref = await here.upload()
    client.send("tool-result", result(call, data={"output": "first", "screenshot_ref": ref}))
    client.send("tool-result", result(call, data={"output": "second"}))
    await client.ended(name)
    heard = len(client.heard)
    late = client.send("tool-result", result(call))
    await until(lambda: caplog.text.count("TOOL_NOT_FOUND") == 2, lambda: caplog.text)
    assert [message.text for message in given(here)] == ["first"]
    assert len(await ends(here)) == 1
    assert len(client.heard) == heard, client.told(late)


@pytest.mark.parametrize("name", ["req-1", "x", "-1", "-", "s-2-3", "s-²"])
async def test_a_result_for_an_unknown_call_changes_nothing(here: Place, name: str) -> None:
    client = await working(here)
    query, call = await called(client)
    client.send("tool-result", {**result(call), "request_id": name})
    client.send("tool-bundle-result", {"bundle_id": name, "status": "success", "step_results": steps({})})
    await turns_of_the_loop()
    assert not await ends(here)
    client.send("tool-result", result(call))
    assert await client.ended(query) == "done"


@pytest.mark.parametrize("user", ["user", "somebody"])
async def test_another_links_result_changes_nothing(here: Place, user: str) -> None:
    client, other = await working(here), await working(here, user)
    name, call = await called(client)
    other.send("tool-result", result(call, data={"output": "forged"}))
    await turns_of_the_loop()
    assert not await ends(here)
    client.send("tool-result", result(call))
    await client.ended(name)
    assert [message.text for message in given(here)] == ["saved"]


async def test_the_tools_of_a_link_that_is_lost_fail_at_once_and_the_turn_goes_on(here: Place) -> None:
    client, other = await working(here), await working(here)
    name, _ = await called(client)
    client.leave()
    assert await other.ended(name) == "done"
    (message,) = given(here)
    assert message.failed
    assert "is gone" in message.text


async def test_calls_of_two_links_are_each_ones_own(here: Place) -> None:
    client, other = await working(here), await working(here)
    mine, call = await called(client)
    theirs = other.ask(ONE, "another")
    their_call = await other.called()
    assert call["request_id"] != their_call["request_id"]
    shown = [frame for frame in other.heard if frame["type"] == "tool-call" and frame["id"] == mine]
    assert shown[0]["payload"]["metadata"]["skip_local_execution"], "it is another link's"
    other.send("tool-result", result(their_call))
    client.send("tool-result", result(call))
    assert await other.ended(theirs) == "done"
    assert await client.ended(mine) == "done"


# Bundles


async def test_calls_of_one_step_are_one_bundle(here: Place) -> None:
    client = await working(here)
    name, bundle = await bundled(client)
    assert [step["args"] for step in bundle["tools"]] == [{"text": "a"}, {"text": "b"}]
    outputs = steps({"output": {"output": "saved a"}}, {"output": {"stdout": "b", "exit_code": 0}})
    client.send("tool-bundle-result", {"bundle_id": bundle["bundle_id"], "status": "success", "step_results": outputs})
    assert await client.ended(name) == "done"
    assert [message.text for message in given(here)] == ["saved a", '{"stdout":"b","exit_code":0}']


async def test_a_mixed_bundle(here: Place) -> None:
    """Defect b88e07be of the original: the words for a step and for a bundle differed."""
    client = await working(here)
    name, bundle = await bundled(client)
    client.send(
        "tool-bundle-result",
        {
            "bundle_id": bundle["bundle_id"],
            "status": "partial_failure",
            "step_results": steps({"debug_trace": "t"}, {"status": "error", "error": "no disk"}),
            "screenshot_ref": await here.upload(),
            "capture_meta": {"frame_id": "f"},
            "system_state": {"active_window": "W", "mouse_position": "(1, 2)"},
            "error": None,
        },
    )
    await client.ended(name)
    assert [(message.text, message.failed) for message in given(here)] == [(SAVED, False), ("no disk", True)]
    first, last = await ends(here)
    assert first.detail == {"step_status": "ok", "extra": {"debug_trace": "t"}}
    assert last.detail == {
        "step_status": "error",
        "extra": {"error": "no disk"},
        "bundle_status": "partial_failure",
        "capture_meta": {"frame_id": "f"},
        "system_state": {"active_window": "W", "mouse_position": "(1, 2)"},
    }
    assert (len(first.artifacts), len(last.artifacts)) == (0, 1)


@pytest.mark.parametrize(
    ("given_steps", "states"),
    [
        (steps({}), ["ok", "interrupted"]),
        (steps({}, {}, {}, {}), ["ok", "ok"]),
        ([*steps({}), {"tool": "other", "status": "ok"}], ["ok", "interrupted"]),
        ([{"tool": "other", "status": "ok"}, *steps({}, {"status": "failed"})], ["ok", "error"]),
        ([], ["interrupted", "interrupted"]),
        (steps({"status": "success"}, {"status": "skipped"}), ["ok", "error"]),
    ],
)
async def test_steps_are_told_by_tool_and_order(here: Place, given_steps: list[Frame], states: list[str]) -> None:
    client = await working(here)
    name, bundle = await bundled(client)
    client.send(
        "tool-bundle-result", {"bundle_id": bundle["bundle_id"], "status": "success", "step_results": given_steps}
    )
    assert await client.ended(name) == "done"
    assert [end.status for end in await ends(here)] == states


async def test_a_bundle_that_failed_as_a_whole_says_why(here: Place) -> None:
    client = await working(here)
    name, bundle = await bundled(client)
    client.send(
        "tool-bundle-result",
        {"bundle_id": bundle["bundle_id"], "status": "failure", "step_results": [], "error": "no runner"},
    )
    await client.ended(name)
    assert given(here)[0].text == "no runner"
    assert [end.status for end in await ends(here)] == ["error", "interrupted"]


async def test_a_bundle_that_is_too_long_fails(here: Place) -> None:
    client = await working(here)
    name, bundle = await bundled(client)
    outputs = steps({"output": "x" * 3_000_000}, {"output": "x" * 3_000_000})
    client.send("tool-bundle-result", {"bundle_id": bundle["bundle_id"], "status": "success", "step_results": outputs})
    assert await client.ended(name) == "done"
    assert all("tool_result_bytes" in message.text for message in given(here))


async def test_a_bundle_that_ended_is_nobodys(here: Place) -> None:
    client = await working(here)
    name, bundle = await bundled(client)
    whole = {"bundle_id": bundle["bundle_id"], "status": "success", "step_results": steps({}, {})}
    client.send("tool-bundle-result", whole)
    client.send("tool-bundle-result", whole)
    await client.ended(name)
    client.send("tool-bundle-result", whole)
    await until(lambda: not here.dialect.tasks, "all is worked on")
    assert len(await ends(here)) == 2


# Limits


async def test_results_are_taken_however_much_is_worked_on(here: Place) -> None:
    """Else a turn would wait for what is refused."""
    client = await working(here)
    name, call = await called(client)
    others = [client.ask("later") for _ in range(60)]
    refused = await client.reply(others[-1], "error")
    assert "Too many concurrent requests" in refused["payload"]["message"]
    client.send("tool-result", result(call))
    assert await client.ended(name) == "done"
    assert (await client.reply(others[0], "streaming-complete"))["id"] == others[0]


async def test_a_result_that_the_disk_does_not_take_is_taken_later(here: Place, monkeypatch: Any) -> None:
    """No client sends it again, and its turn waits for it."""
    monkeypatch.setattr(tool_results, "DISK_AGAIN", 0.01)
    client = await working(here)
    name, call = await called(client)
    here.hub.journal.fail("no room")
    client.send("tool-result", result(call))
    await turns_of_the_loop(20)
    assert client.told(name)[-1] == "tool-call"
    here.hub.journal.heal()
    assert await client.ended(name) == "done"
