"""Which models a user may choose among: those of providers that can be used, with what is truly known of each."""

from __future__ import annotations

from pathlib import Path

from .preferences_rig import answer, provided

KEY = "sk-live-0123456789abcdef"
CALLED = {"id", "provider", "display_name"}


async def test_without_any_key_only_the_demonstration_is_listed(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        listed = (await answer(await made.client(), "list-models", {}))["payload"]
    demonstration = {
        "id": "demonstration",
        "provider": "demonstration",
        "display_name": "demonstration/demonstration",
    }
    assert listed == {"local": [demonstration], "online": [], "vision": []}


async def test_providers_with_a_key_are_listed_with_nothing_made_up(tmp_path: Path) -> None:
    async with provided(tmp_path, {"ANTHROPIC_API_KEY": KEY}) as made:
        client = await made.client()
        online = (await answer(client, "list-models", {}))["payload"]["online"]
        assert {each["provider"] for each in online} == {"anthropic"}
        first = {"id": "claude-opus-4-6", "provider": "anthropic", "display_name": "anthropic/claude-opus-4-6"}
        assert online[0] == first
        assert all(set(each) == CALLED for each in online)
        await answer(client, "update-settings", {"provider_api_keys": {"mistral": {"api_key": KEY}}})
        online = (await answer(client, "list-models", {}))["payload"]["online"]
        assert {each["provider"] for each in online} == {"anthropic", "mistral"}, "a key that was just given counts"


async def test_a_model_that_is_listed_can_be_chosen_by_its_id(tmp_path: Path) -> None:
    async with provided(tmp_path, {"OPENAI_API_KEY": KEY}) as made:
        client = await made.client()
        last = (await answer(client, "list-models", {}))["payload"]["online"][-1]
        chosen = {"model_provider": last["provider"], "selected_model_id": last["id"]}
        await answer(client, "update-settings", chosen)
        config = (await answer(client, "load-settings", {}))["payload"]["config"]
    assert {name: config[name] for name in chosen} == chosen
