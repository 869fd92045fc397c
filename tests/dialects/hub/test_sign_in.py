"""Signing in over the hub dialect: who may, what is said, and that a program's words come to the asking link only."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.settings import NativeSettings
from dragoman.client.errors import Refused
from dragoman.client.hub import HubClient
from dragoman.dialects.hub import bodies
from dragoman.dialects.hub import messages as ask
from dragoman.dialects.hub.link import HubLink
from dragoman.hub.permissions import LOCAL, Principal, Right

from .conftest import MakeRig
from .rig import Rig
from .test_link import Wire, asked

CODE = "one-time-code-4711"


class Told(ProviderDirectory):
    """Says two lines, one of them secret, and keeps the code that it was given."""

    code: str | None = None

    async def finish_sign_in(
        self, provider: str, method: str, code: str | None = None, *, tell: Callable[[str], None]
    ) -> object:
        self.code = code
        tell(f"go to https://auth.test/{CODE}")
        tell("waiting")
        return await super().finish_sign_in(provider, method, code, tell=tell)


def environment(folder: Path) -> Mapping[str, str]:
    (folder / "home" / ".codex").mkdir(parents=True)
    tokens = {"tokens": {"access_token": "a", "refresh_token": "r"}}
    (folder / "home" / ".codex" / "auth.json").write_text(json.dumps(tokens))
    return {"HOME": str(folder / "home"), "PATH": "/nowhere"}


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Told]:
    store = KeyStore(tmp_path / "keys" / "keys.json")
    made = Told(NativeSettings(local_servers=()), store, environment=environment(tmp_path))
    yield made
    await made.close()


@pytest.fixture
async def provided(make_rig: MakeRig, directory: Told) -> Rig:
    return await make_rig(providers=directory)


async def test_the_whole_way_by_the_client_library(provided: Rig, directory: Told) -> None:
    told: list[str] = []
    async with HubClient(f"http://127.0.0.1:{provided.port}/hub") as client:
        ways = (await client.auth_methods())["codex-cli"]
        assert ways[0] == {
            "id": "oauth_cli",
            "type": "oauth",
            "label": "Sign in with Codex CLI",
            "oauth_mode": "auto",
        }
        challenge = await client.begin_sign_in("codex-cli", "oauth_cli")
        assert challenge["command"] == "codex login"
        done = await client.finish_sign_in("codex-cli", "oauth_cli", told.append, code=CODE)
        assert (done["ok"], done["mode"]) == (True, "oauth")
        [status] = [one for one in await client.provider_status() if one["id"] == "codex-cli"]
        assert status["mode"] == "oauth"
        with pytest.raises(Refused) as refused:
            await client.finish_sign_in("codex-cli", "nothing", told.append)
        assert (refused.value.code, refused.value.message) == ("invalid_request", "unknown methodId")
    assert told[:2] == [f"go to https://auth.test/{CODE}", "waiting"]
    assert directory.code is None  # the newest


async def test_what_the_program_says_comes_to_the_asking_link_only(
    provided: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "dragoman"):
        async with provided.link() as asking, provided.link() as other:
            done = await asking.ask("finish_sign_in", provider="codex-cli", method="oauth_cli")
            assert done["message"] == "Existing OAuth credentials detected."
            lines = asking.of("sign_in_line")
            assert [line["line"] for line in lines] == [f"go to https://auth.test/{CODE}", "waiting"]
            assert {(line["provider"], line["request"]) for line in lines} == {("codex-cli", done["id"])}
            await other.ask("ping")
            assert other.of("sign_in_line") == []
    assert CODE not in caplog.text


async def test_the_same_over_http_without_the_lines(provided: Rig) -> None:
    methods = (await provided.http("GET", "/providers/auth")).json["methods"]
    assert [way["id"] for way in methods["claude-code"]] == ["oauth_cli", "api_key"]
    challenge = await provided.http("POST", "/providers/claude-code/sign-in", {"method": "oauth_cli"})
    assert challenge.json["command"] == "claude setup-token"
    done = await provided.http("POST", "/providers/claude-code/sign-in/end", {"method": "oauth_cli"})
    assert (done.json["ok"], done.json["mode"]) == (True, "oauth_pending")
    assert CODE not in done.body.decode()
    refused = await provided.http("POST", "/providers/openai/sign-in", {"method": "api_key"})
    assert refused.code == (422, "unsupported")
    assert (await provided.http("POST", "/providers/x/sign-in", {"method": "api_key"})).code == (400, "invalid_request")


async def test_it_needs_the_admin_right(provided: Rig) -> None:
    writer = Principal("someone", frozenset({Right.READ, Right.WRITE, Right.APPROVE}))
    bound = Principal("bound", LOCAL.rights, frozenset({"s"}))
    for who in (writer, bound):
        link = HubLink(provided.dialect, who, Wire())
        for op in ("begin_sign_in", "finish_sign_in"):
            answer = await asked(link, op, provider="codex-cli", method="oauth_cli")
            assert answer["code"] == "not_permitted"
        assert (await asked(link, "auth_methods"))["type"] == "ok"


async def test_a_link_that_leaves_does_not_break_it_off(provided: Rig, directory: Told) -> None:
    link = HubLink(provided.dialect, LOCAL, Wire())
    link.receive(json.dumps({"op": "finish_sign_in", "id": 1, "provider": "codex-cli", "method": "oauth_cli"}))
    link.lost()
    async with provided.link() as other:
        await other.until(lambda: directory._keys.store.mode("codex-cli") == "oauth" or None, "the sign-in")


def test_a_message_that_holds_a_code_does_not_show_it() -> None:
    given = {"op": "finish_sign_in", "provider": "p", "method": "m", "code": CODE}
    message = ask.decode(json.dumps(given))
    assert isinstance(message, ask.FinishSignIn)
    assert message.code == CODE
    assert CODE not in repr(message) + repr(bodies.SignInEndBody(method="m", code=CODE))
