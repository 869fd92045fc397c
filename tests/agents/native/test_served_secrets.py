"""A real server, its keys, and a model that looks for them with every tool that runs unasked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.process import Message, Served, eventually

from .native_rig import script

SECRETS = {"kept": "kept-key-0123456789", "named": "named-key-0123456789", "token": "token-0123456789-abcdef"}
CONFIG = """
[native.providers.scripted]
api = "scripted"
[native.providers.house]
api = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
key_env = "HOUSE"
"""


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Served]:
    """It keeps all that it has below the person's home, where the session works too."""
    settings = tmp_path / ".config/dragoman/config.toml"
    settings.parent.mkdir(parents=True)
    policy = tmp_path / "mine" / "policy.md"
    policy.parent.mkdir()
    policy.write_text(f"---\nonboard: {{invite_code: {SECRETS['kept']}}}\ndefault: ask\n---\n")
    trust = f'[trust]\npolicy = "{policy}"\nfolder = "{tmp_path}/mine/lists"\nkey_file = "{tmp_path}/mine/keys/host"\n'
    settings.write_text(f'[server]\ntoken = "{SECRETS["token"]}"\n{trust}{CONFIG}')
    keys = tmp_path / "state/data/keys/providers.json"
    keys.parent.mkdir(parents=True)
    keys.write_text(json.dumps({"version": 1, "keys": {"openai": SECRETS["kept"]}}))
    env = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / ".config"),
        "DRAGOMAN_CONFIG": str(settings),
        "HOUSE": SECRETS["named"],
        "HEADERS": f"x: {SECRETS['named']}",
    }
    served = Served(tmp_path / "state", env=env)
    await served.start()
    yield served
    served.kill()


async def turn(served: Served, folder: Path, calls: list[tuple[str, Message]], **settings: Any) -> list[Message]:
    """The facts of a turn that makes these calls."""
    token = SECRETS["token"]
    made = {"kind": "native", "cwd": str(folder), "settings": {"provider": "scripted", **settings}}
    session = (await served.asked("POST", "/sessions", made, token=token))["session"]
    text = script(*(f"call {tool} {json.dumps(given)}" for tool, given in calls))
    await served.asked("POST", f"/sessions/{session}/prompts", {"text": text}, token=token)

    def facts() -> list[Message]:
        page = served.ask("GET", f"/sessions/{session}/events?after=0&limit=500", token=token)[1]
        return [event["fact"] for event in page["events"]]

    found = await eventually(lambda: (told := facts())[-1]["type"] == "turn.ended" and told, "the turn's end")
    assert found, "a turn has facts"
    return [fact for fact in found if fact["type"] == "tool.ended"]


async def test_no_tool_that_runs_unasked_reads_the_servers_own_files(home: Served, tmp_path: Path) -> None:
    files = [
        "state/data/keys/providers.json",
        "state/data/journal.db",
        "state/data/lock",
        ".config/dragoman/config.toml",
    ]
    calls: list[tuple[str, Message]] = [("read", {"filePath": file}) for file in files]
    calls += [("grep", {"pattern": "0123456789", "path": path}) for path in (*files, "state", "state/data", ".config")]
    calls += [("grep", {"pattern": "0123456789"}), ("glob", {"pattern": "*", "cwd": "state/data/keys"})]
    calls += [("write", {"filePath": file, "content": "x"}) for file in files]
    ended = await turn(home, tmp_path, calls, mode="accept_edits")
    assert len(ended) == len(calls)
    assert not [end for end in ended if any(secret in json.dumps(end) for secret in SECRETS.values())]
    assert all((tmp_path / file).read_bytes() != b"x" for file in files)


async def test_no_command_is_given_a_key(home: Served, tmp_path: Path) -> None:
    (end,) = await turn(home, tmp_path, [("bash", {"command": "env; set; export -p"})], mode="all")
    assert end["status"] == "ok"
    assert f"HOME={tmp_path}" in end["output"]["stdout"]
    assert not any(secret in json.dumps(end) for secret in SECRETS.values())


async def test_with_a_token_a_command_cannot_answer_for_the_person(home: Served, tmp_path: Path) -> None:
    """It may reach the server, but has nothing to show there."""
    port = home.ready["port"]
    python = (
        'python3 -c \'import http.client as h; c = h.HTTPConnection("127.0.0.1", '
        f'{port}); c.request("GET", "/hub/sessions"); print(c.getresponse().status)\''
    )
    (end,) = await turn(home, tmp_path, [("bash", {"command": python})], mode="all")
    assert end["output"]["stdout"] == "401\n"


async def test_who_is_trusted_and_what_was_sent_is_read_by_no_tool_but_its_uploads(
    home: Served, tmp_path: Path
) -> None:
    """Lists, the host's key, what came of turns and pictures lie outside; ``.co/uploads`` is the session's own."""
    kept = [
        ".config/dragoman/trust/whitelist.txt",
        ".config/dragoman/trust/admins.txt",
        ".config/dragoman/identity/host.key",
        "mine/lists/admins.txt",
        "mine/keys/host",
        "mine/policy.md",
        "state/data/onion/results",
        "state/data/artifacts/s1/picture",
    ]
    sent = ".co/uploads/1700000000_a.txt"
    for file in (*kept, sent):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(SECRETS["kept"])
    calls: list[tuple[str, Message]] = [("read", {"filePath": file}) for file in kept]
    calls += [("grep", {"pattern": "0123456789", "path": file}) for file in kept]
    calls += [("write", {"filePath": file, "content": "x"}) for file in kept]
    calls += [("edit", {"filePath": file, "oldString": "kept", "newString": "x"}) for file in kept]
    refused = await turn(home, tmp_path, calls, mode="accept_edits")
    assert [end["status"] for end in refused] == ["error"] * len(calls)
    assert not [end for end in refused if SECRETS["kept"] in json.dumps(end)]
    assert [file for file in kept if (tmp_path / file).read_text() != SECRETS["kept"]] == []
    (told,) = await turn(home, tmp_path, [("read", {"filePath": sent})])
    assert (told["status"], SECRETS["kept"] in json.dumps(told)) == ("ok", True)
