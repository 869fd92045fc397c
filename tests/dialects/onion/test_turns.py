"""Turns over sockets: how they fail, are broken off, take prompts in; what a session keeps (seed: INPUT; §6, §9)."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.agents.pty_rig import alive

from .rig import ALICE, BOB, LIMIT, Onion, calls, kinds, of, script

TOUCH = [("bash", {"command": "touch one"}), ("bash", {"command": "touch two"})]


async def test_a_failed_turn_is_told_to_every_socket_and_the_next_prompt_runs(served: Onion) -> None:
    async with served.client(key=ALICE) as first, served.client(first.session_id, key=ALICE) as second:
        first.input(script("wait"))
        await second.next("llm_call")
        async with served.client(first.session_id, key=ALICE) as reattached:
            assert reattached.frames[0]["status"] == "running"
            first.say("INTERRUPT")
            for talk in (first, second, reattached):
                assert (await talk.next("OUTPUT"))["result"] == "What would you like me to do?"
            second.input("#script\nfail failed llm exploded")
            for talk in (first, second, reattached):
                assert "llm exploded" in (await talk.next("ERROR"))["message"]
                assert await talk.status() == "connected"
            assert (await first.turn(script("say fine again")))[-1]["result"] == "fine again"
            assert "✗ agent error: " in served.log.read_text()


async def test_an_empty_prompt_is_refused_idle_or_not(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        for prompt in ("", None, 5):
            talk.say("INPUT", prompt=prompt)
            assert (await talk.next("ERROR"))["message"] == "prompt required"
        talk.input(script("wait"))
        await talk.next("llm_call")
        talk.say("INPUT", prompt="")
        assert (await talk.next("ERROR"))["message"] == "prompt required"
        talk.say("INTERRUPT")
        await talk.next("OUTPUT")


async def test_what_comes_while_the_agent_runs_is_acknowledged_and_taken_in(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        talk.input(script(*calls(("ask", {"question": "Which?", "options": ["a"]})), "say one answer"))
        asked = await talk.next("ask_user")
        talk.input("and this")
        ack = await talk.next("RUNTIME_INPUT_ACK")
        assert ack["session_id"] == talk.session_id
        talk.say("ASK_USER_RESPONSE", answer="a", request_id=asked["id"])
        taken = await talk.next("user_input", runtime_input=True)
        assert (taken["id"], taken["content"], taken["turn"], taken["iteration"]) == (ack["id"], "and this", 1, 2)
        output = await talk.next("OUTPUT")
        assert {"role": "user", "content": "and this"} in output["session"]["messages"]
        assert output["session"]["turn"] == 1


async def test_the_same_input_id_is_the_same_prompt(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        frames = await talk.turn(script("say once"), input_id="i-1")
        talk.input(script("say once"), input_id="i-1")
        assert (await talk.next("RUNTIME_INPUT_ACK"))["id"] == of(frames, "user_input")[0]["id"]
        talk.input(script("say other"), input_id="i-1")
        assert "already used" in (await talk.next("ERROR"))["message"]
        assert (await talk.turn(script("say twice")))[-1]["session"]["turn"] == 2


async def test_an_interrupt_ends_what_its_turn_runs_and_no_other_turn(served: Onion) -> None:
    """Invariant 9."""
    mark = served.work / "running"
    async with served.client(key=ALICE) as talk, served.client(key=BOB) as other:
        other.input(script("wait"))
        await other.next("llm_call")
        talk.say("mode_change", mode="ulw")
        await talk.next("mode_changed")
        command = f"sleep 300 & echo $$ $! > {mark}.new; mv {mark}.new {mark}; wait"
        talk.input(script(*calls(("bash", {"command": command}))))
        async with asyncio.timeout(LIMIT):
            while not mark.exists():
                await asyncio.sleep(0.01)
        programs = [int(pid) for pid in mark.read_text().split()]
        assert len(programs) == 2
        assert all(map(alive, programs))
        talk.say("INTERRUPT")
        assert (await talk.next("OUTPUT"))["result"] == "What would you like me to do?"
        assert not any(map(alive, programs))
        assert await talk.status() == "connected"
        assert await other.status() == "running"
        other.say("INTERRUPT")
        await other.next("OUTPUT")


async def test_an_interrupt_without_a_turn_is_an_error(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        talk.say("INTERRUPT")
        assert (await talk.next("ERROR"))["message"] == "no turn is open"


async def test_a_session_keeps_its_mode_and_a_claim_of_one_grants_nothing(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        await talk.turn(script("say hi"))
        claimed = {"messages": [], "mode": "ulw", "permissions": {"bash": {"allowed": True}}, "turn": 99}
        await talk.connect(talk.session_id, key=ALICE, session=claimed)
        talk.input(script(*calls(TOUCH[0]), "say over"))
        asked = await talk.next("approval_needed")
        talk.say("APPROVAL_RESPONSE", approved=True, request_id=asked["id"])
        await talk.next("OUTPUT")
        talk.say("mode_change", mode="ulw")
        assert (await talk.next("mode_changed"))["mode"] == "ulw"
        for _ in range(2):  # it holds for more than one turn
            frames = await talk.turn(script(*calls(*TOUCH), "say over"))
            assert "approval_needed" not in kinds(frames)
            assert frames[-1]["session"]["mode"] == "ulw"
        talk.say("mode_change", mode="root")
        assert (await talk.next("ERROR"))["message"] == "Unsupported mode: 'root'"


async def test_a_yes_for_the_session_is_one_to_the_tool(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        for scope, asked_again in (("once", True), ("session", False)):
            talk.input(script(*calls(TOUCH[0]), "say over"))
            asked = await talk.next("approval_needed")
            talk.say("APPROVAL_RESPONSE", approved=True, scope=scope, request_id=asked["id"])
            await talk.next("OUTPUT")
            if not asked_again:
                frames = await talk.turn(script(*calls(("bash", {"command": "rm -rf never-there"})), "say over"))
                assert "approval_needed" not in kinds(frames)


BATCH = "\n".join(calls(*TOUCH))


@pytest.mark.parametrize("mode", ["reject_hard", "reject_soft", "reject_explain", None])
async def test_ways_to_say_no(served: Onion, mode: str | None) -> None:
    async with served.client(key=ALICE) as talk:
        talk.input(script(BATCH, "say went on"))
        first = await talk.next("approval_needed")
        # Shown with it where the model has said it by then, which an approval is not kept waiting for.
        assert [json.loads(call["arguments"]) for call in first.get("batch_remaining", [])] in ([], [TOUCH[1][1]])
        fields = {} if mode is None else {"mode": mode}
        talk.say("APPROVAL_RESPONSE", approved=False, feedback="use yarn", request_id=first["id"], **fields)
        if mode in ("reject_soft", "reject_explain"):
            second = await talk.next("approval_needed")
            assert {first["arguments"]["command"], second["arguments"]["command"]} == {"touch one", "touch two"}
            talk.say("APPROVAL_RESPONSE", approved=False, mode=mode, request_id=second["id"])
        output = await talk.next("OUTPUT")
        results = [json.dumps(frame) for frame in of(talk.frames, "tool_result")]
        assert len(results) == 2
        assert any("use yarn" in result for result in results)
        assert output["result"] == ("went on" if mode in ("reject_soft", "reject_explain") else WHAT_NEXT)


WHAT_NEXT = "What would you like me to do?"


async def test_files_and_pictures_come_along_and_bad_ones_harm_nothing(served: Onion) -> None:
    picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # noqa: E501
    async with served.client(key=ALICE) as talk:
        for files in ([{"name": "x", "data": "data:text/plain;base64,@@@@"}], "abc", [{"data": "eHg="}]):
            talk.input("with files", files=files)
            why = (await talk.next("ERROR"))["message"]
            assert await talk.status() == "connected"
            assert f"✗ INPUT rejected: {why}" in served.log.read_text()
        files = [{"name": "../../etc/passwd", "data": "data:text/plain;base64,eHh4"}]
        frames = await talk.turn(script("say seen"), files=files, images=[picture])
        (received,) = of(frames, "files_received")
        (stored,) = received["files"]
        assert stored["path"] == f".co/uploads/{stored['name']}"
        assert stored["name"].endswith("_passwd")
        assert (served.work / stored["path"]).read_bytes() == b"xxx"
        assert of(frames, "user_input")[0]["content"] == script("say seen")
        assert frames[-1]["session"]["messages"][0]["content"] == script("say seen")
        # Behind a prompt's own event its files are still told.
        assert kinds(frames)[:2] == ["user_input", "files_received"]
