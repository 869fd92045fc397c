"""What a client says right before it closes its socket: it counts, whatever it still had to be told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from .rig import LIMIT, Onion, script


async def facts(served: Onion, prompt: str, kind: str, count: int) -> list[dict[str, Any]]:
    """Wait until the session that begins with this prompt has so many facts of a type."""
    async with asyncio.timeout(LIMIT):
        while True:
            for row in await served.hub_sessions():
                log = [event["fact"] for event in await served.whole_log(row["session"])]
                texts = [fact["text"] for fact in log if fact["type"] == "prompt.submitted"]
                found = [fact for fact in log if fact["type"] == kind]
                if texts[:1] == [prompt] and len(found) >= count:
                    return found
            await asyncio.sleep(0.02)


async def test_prompts_that_were_sent_before_the_socket_closed_are_kept(served: Onion) -> None:
    async with served.client() as talk:
        for number in range(5):
            talk.input(f"number {number}")
    prompts = await facts(served, "number 0", "prompt.submitted", 5)
    assert [prompt["text"] for prompt in prompts] == [f"number {number}" for number in range(5)]


async def test_an_answer_that_was_sent_before_the_socket_closed_is_taken(served: Onion) -> None:
    prompt = script("call ask " + json.dumps({"question": "Which?"}), "say fine")
    async with served.client() as talk:
        talk.input(prompt)
        await talk.next("ask_user")
        talk.say("PONG")
        talk.say("ASK_USER_RESPONSE", answer="Rust")
    [resolved] = await facts(served, prompt, "decision.resolved", 1)
    assert resolved["answer"]["text"] == "Rust"


async def test_a_refusal_with_its_request_id_counts_after_other_messages(served: Onion) -> None:
    prompt = script("call bash " + json.dumps({"command": "echo hi > refused.txt"}), "say fine")
    async with served.client() as talk:
        talk.input(prompt)
        asked = await talk.next("approval_needed")
        for number in range(3):
            talk.input(f"and {number}")
        talk.say("APPROVAL_RESPONSE", approved=False, request_id=asked["id"])
    [resolved] = await facts(served, prompt, "decision.resolved", 1)
    assert resolved["answer"]["accept"] is False
    assert not (served.work / "refused.txt").exists()
