"""Secrets that pass through the server stay out of its log, its errors and its files.

Invariant 10.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from .harness import Server, Servers
from .programs import READY, command, order

TOKEN = "planted-server-token/+a"
PLANTED = {
    "server token": TOKEN,
    "wrong query token": "planted-wrong-query-a1",
    "wrong bearer": "planted-wrong-bearer-b2",
    "wrong bearer on the upgrade": "planted-wrong-upgrade-c3",
    "wrong auth message": "planted-wrong-message-d4",
    "text": "planted-typed-text-e5",
    "raw": "planted-typed-raw-f6",
    "http text": "planted-http-text-g7",
    "http raw": "planted-http-raw-h8",
    "bad json": "planted-bad-json-i9",
    "unknown field": "planted-unknown-field-j0",
    "wrong type": "planted-wrong-type-k1",
    "wrong shape over http": "planted-wrong-shape-l2",
    "malformed body": "planted-malformed-body-m3",
    "unknown event": "planted-unknown-event-n4",
    "binary": "planted-binary-o5",
    "unknown path": "planted-unknown-path-p6",
    "nudge": "planted-nudge-q7",
    "respond": "planted-respond-r8",
    "oversize": "planted-oversize-s9",
    "foreign origin": "planted-origin-query-t0",
    "bad base64": "planted*bad*base64*u1",
    "cookie": "planted-cookie-v2",
}


def spellings(secret: str) -> set[bytes]:
    """The ways in which a secret may lie in a file."""
    plain = secret.encode()
    encoded = {base64.b64encode(b"x" * pad + plain)[4 if pad else 0 : -4].rstrip(b"=") for pad in (0, 1, 2)}
    return {plain, quote(secret, safe="").encode(), json.dumps(secret)[1:-1].encode(), plain.hex().encode(), *encoded}


def found(where: dict[str, bytes], secrets: dict[str, str]) -> list[str]:
    return [
        f"{name} in {place}"
        for name, secret in secrets.items()
        for place, content in where.items()
        for spelling in spellings(secret)
        if spelling in content
    ]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_search_finds_what_is_planted(tmp_path: Path):
    secret = "planted-control-value"
    for pad in range(3):
        text = base64.b64encode(b"." * pad + secret.encode() + b"....")
        (tmp_path / f"{pad}").write_bytes(b"before " + text)
    (tmp_path / "plain").write_bytes(b"\x00" + secret.encode() + b"\x00")
    places = {hit.split(" in ")[1] for hit in found(files(tmp_path), {"control": secret})}
    assert places == {"0", "1", "2", "plain"}
    assert found(files(tmp_path), {"other": "planted-something-else"}) == []


@pytest.fixture
def server(servers: Servers) -> Server:
    """Its program swallows what is typed."""
    server = servers.start("sh", "-c", "stty -echo; echo ready; exec cat >/dev/null", token=TOKEN)
    server.wait_for_output(b"ready")
    return server


async def test_planted_secrets_are_found_nowhere(server: Server):
    said: dict[str, bytes] = {}

    def note(name: str, content: object) -> None:
        said[f"answer {len(said)} ({name})"] = content if isinstance(content, bytes) else repr(content).encode()

    note("query", await server.refusal(token=PLANTED["wrong query token"]))
    note("upgrade", await server.refusal(headers={"Authorization": f"Bearer {PLANTED['wrong bearer on the upgrade']}"}))
    note(
        "origin",
        await server.refusal(token=PLANTED["foreign origin"], headers={"Origin": "http://evil.example"}),
    )
    async with server.link(token=TOKEN) as by_query, server.link("state") as link:
        wrong = {"event": "auth", "token": PLANTED["wrong auth message"]}
        note("auth", await link.answers(wrong))
        note("auth", await link.answers({"event": "auth", "token": TOKEN}))
        for name, message in {
            "text": {"event": "input", "text": PLANTED["text"], "enter": True},
            "raw": {"event": "input:raw", "data": base64.b64encode(PLANTED["raw"].encode()).decode()},
            "unknown field": {"event": "ping!", "password": PLANTED["unknown field"]},
            "wrong type": {"event": "input", "text": [PLANTED["wrong type"]]},
            "unknown event": {"event": PLANTED["unknown event"]},
            "nudge": {"event": "nudge", "message": PLANTED["nudge"]},
            "respond": {"event": "respond", "text": PLANTED["respond"], "answers": [{"text": PLANTED["respond"]}]},
            "bad base64": {"event": "input:raw", "data": PLANTED["bad base64"]},
        }.items():
            note(name, await link.answers(message))
        note("bad json", await link.answers(f'{{"event":"input","text":"{PLANTED["bad json"]}"'))
        note("binary", await link.answers(PLANTED["binary"].encode()))
        note("pushes", by_query.received + await by_query.until_pong())
    async with server.link("state") as link:
        await link.send(PLANTED["oversize"] * (1 << 16))
        assert await link.closed() == 1009
        note("close", link.wire.close_reason)

    bearer = {"Authorization": f"Bearer {PLANTED['wrong bearer']}"}
    raw = {"data": base64.b64encode(PLANTED["http raw"].encode()).decode()}
    for name, reply in {
        "bearer": server.get("status", headers=bearer, anonymous=True),
        "text": server.post("input", {"text": PLANTED["http text"], "enter": True}),
        "raw": server.post("input/raw", raw),
        "bad base64": server.post("input/raw", {"data": PLANTED["bad base64"]}),
        "shape": server.post("input", {"text": {"key": PLANTED["wrong shape over http"]}}),
        "body": server.post("input", b'{"text":"' + PLANTED["malformed body"].encode()),
        "path": server.get(f"nope?token={PLANTED['unknown path']}"),
        "query": server.get(f"status?token={quote(TOKEN, safe='')}"),
        "cookie": server.get("status", headers={"Cookie": f"session={PLANTED['cookie']}"}),
        "nudge": server.post("agent/nudge", {"message": PLANTED["nudge"]}),
        "respond": server.post("agent/respond", {"text": PLANTED["respond"]}),
        "screen": server.get("screen"),
        "output": server.get("output"),
        "agent": server.get("agent"),
    }.items():
        note(name, repr(reply).encode() + reply.body)

    assert found(said, PLANTED) == []
    assert found({"log": server.log().encode()}, PLANTED) == []
    assert found(files(server.data), PLANTED) == []
    async with server.link("state", token=TOKEN) as link:
        await link.send({"event": "signal", "signal": "KILL"})
        await link.expect("exit")
        await link.send({"event": "shutdown"})
        await link.closed()
    server.wait()
    assert found({"log": server.log().encode()}, PLANTED) == []
    assert found(files(server.data), PLANTED) == []


async def test_a_token_of_the_environment_is_not_handed_to_the_program(servers: Servers):
    secret = "planted-environment-token"
    server = servers.start("sh", "-c", "env; echo ended; exec cat", token=secret, env={"DRAGOMAN_TOKEN": secret})
    server.token = None
    server.wait_for_output(b"ended")
    async with server.link("state") as link:
        frame = await link.ask({"event": "replay", "offset": 0}, "replay_result")
    assert found({"output": base64.b64decode(frame["data"]), "log": server.log().encode()}, {"token": secret}) == []
    assert found(files(server.data), {"token": secret}) == []


async def test_a_password_typed_without_echo_is_not_kept(servers: Servers):
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    secrets = {"keys": "planted-line-of-keys", "typed": "planted-password-line"}
    async with server.link("raw") as link:
        for character in secrets["keys"]:
            await link.type(character, enter=False)
        await link.type("")
        await link.type(secrets["typed"])
        await link.type(order("write", b"[heard]"))
        await link.output_until(b"[heard]")
        await link.type("exit 0")
        await link.send({"event": "shutdown"})
        await link.closed()
    server.wait()
    assert found(files(server.data) | {"log": server.log().encode()}, secrets) == []
