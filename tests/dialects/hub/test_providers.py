"""Model providers over the hub dialect: what there is, how it stands, and keys that go in and never come out."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.settings import NativeSettings
from dragoman.client.errors import Refused
from dragoman.client.hub import HubClient
from dragoman.client.hub_http import HubHttp
from dragoman.dialects.hub import bodies
from dragoman.dialects.hub import messages as ask
from dragoman.dialects.hub.link import HubLink
from dragoman.hub.permissions import LOCAL, Principal, Right

from .conftest import MakeRig
from .rig import Rig
from .test_link import Wire, asked

SECRET = "sk-very-secret-0123456789"


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[ProviderDirectory]:
    """Nothing but the file of the keys: no environment, and no look at what runs on this machine."""
    store = KeyStore(tmp_path / "keys" / "keys.json")
    made = ProviderDirectory(NativeSettings(local_servers=(), verify_seconds=0.5), store, environment={})
    yield made
    await made.close()


@pytest.fixture
async def provided(make_rig: MakeRig, directory: ProviderDirectory) -> Rig:
    return await make_rig(providers=directory)


def key_of(statuses: list[dict[str, Any]], name: str) -> tuple[str, bool]:
    return next((one["key"], one["ready"]) for one in statuses if one["id"] == name)


async def test_a_key_is_set_seen_as_stored_and_forgotten_over_http(provided: Rig) -> None:
    listed = await provided.http("GET", "/providers")
    first = listed.json["providers"][1]
    assert (first["id"], first["default_model"], first["models"][0]) == ("openai", "gpt-5.2", "gpt-5.2")
    assert listed.json["providers"][-1]["demonstration"] is True
    before = await provided.http("POST", "/providers/status")
    assert key_of(before.json["statuses"], "openai") == ("missing", False)
    kept = await provided.http("PUT", "/providers/openai/key", {"key": f" {SECRET} "})
    assert (kept.status, kept.json) == (200, {})
    after = await provided.http("POST", "/providers/status", {"verify": False})
    assert key_of(after.json["statuses"], "openai") == ("stored", True)
    assert SECRET.encode() not in after.body + (await provided.http("GET", "/providers")).body
    assert [one["id"] for one in after.json["statuses"]] == [one["id"] for one in listed.json["providers"]]
    assert (await provided.http("DELETE", "/providers/openai/key")).json == {"removed": True}
    assert (await provided.http("DELETE", "/providers/openai/key")).json == {"removed": False}


async def test_the_same_over_the_socket_by_the_client_library(provided: Rig) -> None:
    async with HubClient(f"http://127.0.0.1:{provided.port}/hub") as client:
        assert [one["id"] for one in await client.providers()][:3] == ["google", "openai", "anthropic"]
        await client.set_key("groq", SECRET)
        assert key_of(await client.provider_status(), "groq") == ("stored", True)
        assert await client.forget_key("groq") is True
        assert await client.forget_key("groq") is False
        with pytest.raises(Refused) as refused:
            await client.set_key("nobody", SECRET)
        assert refused.value.code == "invalid_request"
        assert SECRET not in str(refused.value)


async def test_verifying_is_asked_for_and_said(make_rig: MakeRig, tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.json")
    store.set("openai", SECRET)
    directory = ProviderDirectory(
        NativeSettings(local_servers=()), store, environment={"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    )
    rig = await make_rig(providers=directory)
    said = (await rig.http("POST", "/providers/status", {"verify": True})).json["statuses"][1]
    assert (said["id"], said["verified"], said["ready"]) == ("openai", False, True)
    assert "not verified" in said["message"]


async def test_without_providers_everything_is_unsupported(rig: Rig) -> None:
    assert (await rig.http("GET", "/providers")).code == (422, "unsupported")
    assert (await rig.http("POST", "/providers/status")).code == (422, "unsupported")
    assert (await rig.http("PUT", "/providers/openai/key", {"key": "k"})).code == (422, "unsupported")
    assert (await rig.http("DELETE", "/providers/openai/key")).code == (422, "unsupported")
    async with rig.link() as link:
        assert await link.refused("providers") == "unsupported"


@pytest.mark.parametrize("body", [{}, {"key": 5}, {"key": " "}, {"key": "k", "more": 1}, b"{", {"key": "a\nb"}])
async def test_what_is_no_key_is_refused_and_nothing_kept(provided: Rig, body: Any) -> None:
    assert (await provided.http("PUT", "/providers/openai/key", body)).code == (400, "invalid_request")
    assert key_of((await provided.http("POST", "/providers/status")).json["statuses"], "openai") == ("missing", False)


async def test_keys_need_the_admin_right_and_verifying_the_write_right(provided: Rig) -> None:
    def link(*rights: Right) -> HubLink:
        return HubLink(provided.dialect, Principal("someone", frozenset(rights)), Wire())

    reader = link(Right.READ)
    writer = link(Right.READ, Right.WRITE, Right.APPROVE)
    bound = HubLink(provided.dialect, Principal("bound", LOCAL.rights, frozenset({"s"})), Wire())
    for who in (reader, writer, bound):
        assert (await asked(who, "set_key", provider="openai", key="k"))["code"] == "not_permitted"
        assert (await asked(who, "forget_key", provider="openai"))["code"] == "not_permitted"
        assert (await asked(who, "providers"))["type"] == "ok"
        assert (await asked(who, "provider_status"))["type"] == "ok"
    assert (await asked(reader, "provider_status", verify=True))["code"] == "not_permitted"
    assert (await asked(writer, "provider_status", verify=True))["type"] == "ok"
    nobody = link()
    assert (await asked(nobody, "providers"))["code"] == "not_permitted"


async def test_a_key_is_in_no_log_whatever_goes_wrong(
    make_rig: MakeRig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ProviderDirectory):
        async def set_key(self, provider: str, key: str) -> None:
            raise RuntimeError("a defect")

    store = KeyStore(tmp_path / "keys.json")
    rig = await make_rig(providers=Broken(NativeSettings(local_servers=()), store, environment={}))
    with caplog.at_level(logging.DEBUG, "dragoman"):
        assert (await rig.http("PUT", "/providers/openai/key", {"key": SECRET})).code == (500, "internal")
        async with rig.link() as link:
            assert await link.refused("set_key", provider="openai", key=SECRET) == "internal"
    told = [record for record in caplog.records if record.name.startswith("dragoman")]
    assert told
    assert not [record for record in told if SECRET in caplog.handler.format(record)]


def test_the_message_that_holds_a_key_does_not_show_it() -> None:
    message = ask.decode(json.dumps({"op": "set_key", "provider": "openai", "key": SECRET}))
    assert isinstance(message, ask.SetKey)
    assert message.key == SECRET
    assert SECRET not in repr(message) + repr(bodies.KeyBody(key=SECRET))


async def test_http_client_puts(provided: Rig) -> None:
    client = HubHttp(f"http://127.0.0.1:{provided.port}/hub")
    assert await client.put("/providers/exa/key", key=SECRET) == {}
    assert await client.delete("/providers/exa/key") == {"removed": True}
