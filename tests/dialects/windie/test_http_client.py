"""Our own client's HTTP side on a whole server: what it knows is served, as it expects it."""

from __future__ import annotations

import pytest

from dragoman.client.windie import AgentSdkClient, Refused

from .http_rig import PNG, WindieServer


async def test_the_client_registers_and_asks_all_that_it_can(closed_server: WindieServer) -> None:
    client = AgentSdkClient(f"http://127.0.0.1:{closed_server.port}/windie")
    with pytest.raises(Refused, match="Missing install bearer token"):
        await client.get_models()
    registered = await client.register("Linux")
    assert client.default_user_id == registered["user_id"]
    kept = await client.upload_artifact(PNG, filename='a "shot".png')
    fetched = await client.fetch_artifact(kept["artifact_id"])
    assert (fetched.content_type, fetched.data) == ("image/png", PNG)
    assert (await client.get_models(interaction_mode="agent"))["config"]["interaction_mode"] == "agent"
    assert (await client.get_system_prompt())["system_prompt"]
    assert "provider_tool_schemas" in await client.get_tool_schemas()
    plan = {"user_query_raw": "open file", "conversation_ref": "conv", "messages": []}
    assert (await client.get_query_plan(plan))["query_message"]["payload"]["text"] == "open file"
    with pytest.raises(Refused, match="Tool not found"):
        await client.get_tool_capability("no such tool")
    with pytest.raises(Refused, match="user_id"):
        await client.get_models(user_id="somebody_else")
