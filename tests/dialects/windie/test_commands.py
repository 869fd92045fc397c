"""Which message does what: every one that a client may send is somebody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.dialects.windie.client_messages import PAYLOADS, Payload
from dragoman.dialects.windie.commands import _HANDLERS
from tests.agents.native.native_rig import script

from .link_rig import place


@pytest.mark.parametrize("payload", PAYLOADS.values())
def test_every_message_does_something(payload: type[Payload]) -> None:
    assert payload in _HANDLERS


async def test_messages_beside_a_conversation_are_answered_while_a_query_runs(tmp_path: Path) -> None:
    """Also those that come right behind the handshake (defects 49bc03f1 and 9a0d82ac of the original)."""
    async with place(tmp_path) as here:
        client = await here.client()
        query = client.ask(script("wait"))
        update = client.send("update-settings", {"interaction_mode": "chat"})
        load = client.send("load-settings", {})
        woken = client.send("wakeword-detected", {})
        assert (await client.reply(update, "settings-updated"))["payload"] == {"updated_keys": ["interaction_mode"]}
        assert (await client.reply(load, "settings-loaded"))["payload"]["config"]["interaction_mode"] == "chat"
        assert (await client.reply(woken, "wakeword-greeting"))["payload"]["text"]
        assert (await client.reply(client.send("stop-query", {}), "stop-query-ack"))["payload"]["turn_ref"] == query


async def test_a_history_is_what_the_next_query_goes_on_from(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        client = await here.client()
        history = [{"role": "user", "content": "Earlier prompt"}, {"role": "assistant", "content": "Earlier reply"}]
        client.send(
            "rehydrate-conversation", {"conversation_ref": "conv", "messages": history, "rehydrate_mode": "replace"}
        )
        await client.ended(client.ask("now"))
        assert [type(message).__name__ for message in here.model.last] == [
            "UserMessage",
            "AssistantMessage",
            "UserMessage",
        ]
