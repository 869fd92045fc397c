"""A user's settings: what holds unasked, what is changed whole or not at all, and that a key is told to nobody."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.native.providers.keys import KeyStore
from dragoman.dialects.windie.callers import Caller
from dragoman.dialects.windie.preferences import DEFAULTS

from .link_rig import Client, Place, definition, tool
from .preferences_rig import answer, config, provided
from .recordings import frames, names, recorded

KEY = "sk-live-0123456789abcdef"
KEYS = (
    *("model_mode", "model_provider", "selected_model_id", "interaction_mode", "speech_mode_enabled"),
    *("wakeword_enabled", "wakeword_stt_enabled", "browser_automation_enabled", "include_query_screenshot"),
    "provider_api_keys",
)
"""In the seed's order."""

EVERYTHING: dict[str, Any] = {
    "model_mode": "local",
    "model_provider": "ollama",
    "selected_model_id": "llama-2-7b@@none",
    "interaction_mode": "chat",
    "speech_mode_enabled": True,
    "wakeword_enabled": True,
    "wakeword_stt_enabled": True,
    "browser_automation_enabled": False,
    "include_query_screenshot": False,
    "provider_api_keys": {"openai": {"enabled": False, "api_key": ""}, "kimi_coding": {"enabled": True}},
}


def error(message: str) -> dict[str, Any]:
    return {"message": message}


async def installed(made: Place) -> Client:
    """A link that showed the token of an install."""
    client = await made.client("user_install")
    client.link.caller = Caller("user_install", "install_1")
    return client


async def test_who_has_set_nothing_is_told_the_defaults_and_who_would_answer(tmp_path: Path) -> None:
    async with provided(tmp_path, {"OPENAI_API_KEY": KEY}) as made:
        found = await config(await made.client())
    assert tuple(found) == KEYS
    assert found == {
        **DEFAULTS,
        "model_provider": "openai",
        "selected_model_id": "gpt-5.2",
        "provider_api_keys": {},
    }


async def test_a_provider_alone_is_told_with_its_usual_model_and_nobody_with_empty_texts(tmp_path: Path) -> None:
    async with provided(tmp_path, {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}) as made:
        client = await made.client()
        await answer(client, "update-settings", {"model_provider": "anthropic"})
        found = await config(client)
        assert (found["model_provider"], found["selected_model_id"]) == ("anthropic", "claude-opus-4-6")
        await answer(client, "update-settings", {"model_provider": "nobody"})
        found = await config(client)
        assert (found["model_provider"], found["selected_model_id"]) == ("nobody", "")


async def test_everything_can_be_set_and_is_told_again_also_on_another_link_and_after_a_restart(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        reply = await answer(await made.client(), "update-settings", EVERYTHING)
        assert reply["type"] == "settings-updated"
        assert reply["payload"] == {"updated_keys": list(EVERYTHING)}
        found = await config(await made.client())
        other = await config(await made.client("somebody-else"))
    wanted = {
        **EVERYTHING,
        "provider_api_keys": {
            "openai": {"enabled": False, "api_key": ""},
            "kimi_coding": {"enabled": True, "api_key": ""},
        },
    }
    assert (tuple(found), found) == (KEYS, wanted)
    assert other["interaction_mode"] == "agent", "settings are a user's"
    (tmp_path / "again").mkdir()
    (tmp_path / "users").rename(tmp_path / "again" / "users")
    async with provided(tmp_path / "again") as made:
        assert await config(await made.client()) == wanted


async def test_only_the_keys_given_are_said_to_be_updated_in_the_contracts_order(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        client = await made.client()
        reply = await answer(client, "update-settings", {"wakeword_enabled": True, "model_mode": "online"})
        assert reply["payload"] == {"updated_keys": ["model_mode", "wakeword_enabled"]}
        reply = await answer(client, "update-settings", {})
        assert reply["payload"] == {"updated_keys": []}


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ({"model_mode": "hybrid"}, "model_mode must be online or local"),
        (
            {"interaction_mode": "x", "model_provider": " "},
            "interaction_mode must be chat or agent; model_provider must",
        ),
        ({"selected_model_id": "x" * 257}, "selected_model_id must have at most 256 characters"),
        (
            {"provider_api_keys": {"openai": {"api_key": "two words"}}},
            "provider_api_keys.openai.api_key cannot be a key",
        ),
        ({"provider_api_keys": {"openai": {"api_key": "a\nb: c"}}}, "provider_api_keys.openai.api_key cannot be a key"),
        ({"provider_api_keys": {"openai": {"api_key": KEY}, "nobody": {"api_key": KEY}}}, "has no such provider"),
        ({"provider_api_keys": {"demonstration": {"api_key": KEY}}}, "has no such provider"),
    ],
)
async def test_an_update_with_one_wrong_value_changes_nothing(
    tmp_path: Path, payload: dict[str, Any], says: str
) -> None:
    async with provided(tmp_path) as made:
        client = await made.client()
        before = await config(client)
        reply = await answer(client, "update-settings", {"speech_mode_enabled": True, **payload})
        assert reply["type"] == "error"
        assert reply["payload"]["message"].startswith("Invalid settings: ")
        assert says in reply["payload"]["message"]
        assert KEY not in str(reply)
        assert await config(client) == before
        assert not (tmp_path / "keys" / "keys.json").exists()


async def test_a_key_goes_to_the_key_store_and_an_empty_one_leaves_it_there(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        client = await made.client()
        for given in ({"api_key": f" {KEY} "}, {"api_key": "", "enabled": True}, {"api_key": None}, {}):
            reply = await answer(client, "update-settings", {"provider_api_keys": {"openai": given}})
            assert reply["payload"] == {"updated_keys": ["provider_api_keys"]}
            assert KeyStore(tmp_path / "keys" / "keys.json").get("openai") == KEY
            assert (await config(client))["provider_api_keys"] == {"openai": {"enabled": True, "api_key": ""}}
        assert (await config(client))["model_provider"] == "openai", "who has a key answers"
        await answer(client, "update-settings", {"provider_api_keys": {"openai": {"enabled": False}}})
        assert (await config(client))["provider_api_keys"] == {"openai": {"enabled": False, "api_key": ""}}


async def test_an_installs_user_sets_no_keys_of_the_server_but_may_send_empty_ones(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        client = await installed(made)
        reply = await answer(client, "update-settings", {"provider_api_keys": {"openai": {"api_key": KEY}}})
        assert reply["type"] == "error"
        assert reply["payload"]["message"].startswith("Invalid settings: provider_api_keys")
        assert not (tmp_path / "keys").exists()
        flags = {"openai": {"enabled": True, "api_key": ""}}
        reply = await answer(client, "update-settings", {"provider_api_keys": flags})
        assert reply["type"] == "settings-updated"
        assert (await config(client))["provider_api_keys"] == flags


async def test_a_key_is_in_no_frame_no_log_and_no_file_but_the_key_stores(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with provided(tmp_path) as made:
        client = await made.client()
        refused = {"provider_api_keys": {"nobody": {"api_key": KEY}}}
        for payload in ({"provider_api_keys": {"openai": {"api_key": KEY}}, "model_provider": "openai"}, refused):
            await answer(client, "update-settings", payload)
        misspelt = {"provider_api_keys": {"openai": {"api_key": [KEY], KEY[:8]: 1}}}
        assert (await answer(client, "update-settings", misspelt))["type"] == "error"
        await config(client)
        await answer(client, "list-models", {})
        assert KEY not in str(client.heard)
    assert KEY not in caplog.text
    having = [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert having == [tmp_path / "keys" / "keys.json"]


async def test_settings_that_cannot_be_read_or_kept_are_an_error_in_words(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        client = await made.client()
        (tmp_path / "users").write_text("a file where a folder should be")
        for kind, payload in (("load-settings", {}), ("update-settings", {"wakeword_enabled": True})):
            reply = await answer(client, kind, payload)
            assert (reply["type"], reply["payload"]["message"].split(" now")[0]) in {
                ("error", "settings cannot be read"),
                ("error", "settings cannot be written"),
            }
        (tmp_path / "users").unlink()
        assert (await answer(client, "update-settings", {"wakeword_enabled": True}))["type"] == "settings-updated"


async def test_two_links_that_change_different_things_at_once_do_not_undo_each_other(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        one, other = await made.client(), await made.client()
        ids = [
            (link, link.send("update-settings", {"provider_api_keys": {f"p{number}": {"enabled": True}}}))
            for number in range(10)
            for link in (one, other)
        ]
        for link, name in ids:
            await link.reply(name, "settings-updated")
        assert len((await config(one))["provider_api_keys"]) == 10


async def test_settings_sent_right_behind_each_other_and_asked_for_at_once_are_in_order(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        client = await made.client()
        first = {"provider_api_keys": {"openai": {"api_key": KEY}}, "model_mode": "local"}
        asked = [client.send("update-settings", first)]
        asked.append(client.send("update-settings", {"model_mode": "online", "interaction_mode": "chat"}))
        at_once = await config(client)
        for name in asked:
            await client.reply(name, "settings-updated")
        assert at_once == await config(client)
    assert (at_once["model_mode"], at_once["interaction_mode"]) == ("online", "chat")


# Tools and definition


async def test_tools_of_new_settings_take_the_place_of_the_handshakes(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        client = await made.client(agent_definition=definition(tool("save_note"), name="Ada"))
        manifest = {"version": 1, "tools": [tool("look"), {"name": "1bad"}]}
        reply = await answer(client, "update-settings", {"tools": {"mode": "client_only", "client_manifest": manifest}})
        assert reply["payload"] == {"updated_keys": ["tools"]}
        assert [each.name for each in client.link.accepted] == ["look"]
        assert client.link.definition is not None
        assert client.link.definition.name == "Ada", "the rest of the definition stays"
        await answer(client, "update-settings", {"tools": {"mode": "default"}})
        assert client.link.definition.tools.mode == "default"
        assert [each.name for each in client.link.accepted] == ["look"], "no manifest leaves it"


async def test_a_new_definition_replaces_the_links_and_keeps_a_manifest_that_it_leaves_out(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        client = await made.client(agent_definition=definition(tool("save_note")))
        reply = await answer(client, "update-settings", {"agent_definition": {"version": 1, "name": "Bob"}})
        assert reply["payload"] == {"updated_keys": ["agent_definition"]}
        assert client.link.definition is not None
        assert client.link.definition.name == "Bob"
        assert [each.name for each in client.link.accepted] == ["save_note"]
        await answer(client, "update-settings", {"agent_definition": definition()})
        assert client.link.accepted == (), "an empty one beside a policy is one"


async def test_a_refused_update_leaves_the_links_tools(tmp_path: Path) -> None:
    async with provided(tmp_path) as made:
        client = await made.client(agent_definition=definition(tool("save_note")))
        wrong = {"agent_definition": definition(), "model_mode": "?"}
        assert (await answer(client, "update-settings", wrong))["type"] == "error"
        assert [each.name for each in client.link.accepted] == ["save_note"]


# Wake word


@pytest.mark.parametrize("wanted", [{}, {"wakeword_enabled": True, "speech_mode_enabled": True}])
async def test_the_wake_word_is_greeted_in_text(tmp_path: Path, wanted: dict[str, bool]) -> None:
    async with provided(tmp_path) as made:
        client = await made.client()
        await answer(client, "update-settings", wanted)
        name = client.send("wakeword-detected", {})
        await client.reply(name, "wakeword-greeting")
        heard = [frame for frame in client.heard if frame.get("id") == name]
    greeting = "Hello! I'm listening."
    activated = {"speech_mode_enabled": False, "greeting": greeting, "status": "listening"}
    assert heard == [
        {"id": name, "type": "wakeword-activated", "payload": activated},
        {"id": name, "type": "wakeword-greeting", "payload": {"text": greeting}},
    ]


# What real clients said


@recorded
@pytest.mark.parametrize("recording", names())
async def test_what_real_clients_asked_is_answered_as_they_were(tmp_path: Path, recording: str) -> None:
    """But for speech, of which this server has none."""
    asked = {"update-settings", "list-models", "wakeword-detected", "load-settings"}
    said = [frame for frame in frames(recording, "c2s") if frame.get("type") in asked]
    told = {(each.get("id"), each["type"]): each["payload"] for each in frames(recording, "s2c")}
    told = {key: payload for key, payload in told.items() if key[1] != "audio-chunk"}
    assert said
    async with provided(tmp_path) as made:
        client = await made.client(said[0].get("user_id", "user"))
        for frame in said:
            client.link.receive(msgspec.json.encode(frame).decode())
            for (name, kind), payload in told.items():
                if name == frame["id"]:
                    reply = await client.reply(name, kind)
                    assert set(reply["payload"]) == set(payload)
                    if kind == "settings-updated":
                        assert reply["payload"] == payload
