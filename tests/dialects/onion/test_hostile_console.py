"""Nothing that a client says does anything to the terminal of whoever watches, or puts a secret before their eyes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import MakeServer
from .rig import ALICE, HOST, POLICY, Onion
from .test_hostile_rights import owned_by_host

TOKEN = "t0ken-of-this-server-9f3a"
CODE = "c0de-of-this-server-77b1"
FORGED = "\u2713 CONNECT identity=0x8a88... session=evil... status=new"
EVIL = f"\x1b]0;owned\x07\x1b[2J\x9b31m\r\n{FORGED}\n\u202e\u2066\u200b\ud7ff\ufeff\u0085\u2028\u2029\x00\x7f"

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u0085\u2028\u2029\u202a-\u202e\u2066-\u2069\u200b\ufeff]")


@pytest.fixture
async def watched(make_server: MakeServer, tmp_path: Path) -> Onion:
    policy = tmp_path / "policy.md"
    policy.write_text(POLICY.replace("sesame", CODE))
    return await make_server(
        "--token", TOKEN, config=f'[trust]\npolicy = "{policy}"\nwhitelist = ["{ALICE.address}"]\n'
    )


def _seen(server: Onion) -> str:
    """All that the server has written but what it says of itself."""
    return server.log.read_bytes().decode()


async def test_what_clients_say_moves_no_cursor_and_forges_no_line(make_server: MakeServer) -> None:
    server = await owned_by_host(make_server)
    async with server.client(EVIL, key=ALICE) as talk:
        for kind in ("INPUT", "CONNECT", "ADMIN_" + EVIL, EVIL, "mode_change", "ONBOARD_SUBMIT", "ADMIN_BLOCK"):
            for key in (None, ALICE, HOST):
                signed = key.signed({**key.signed()["payload"], "client_id": EVIL, "reason": EVIL}) if key else {}
                fields = {"prompt": EVIL, "mode": EVIL, "input_id": EVIL, "session_id": EVIL}
                talk.say(kind, **{**fields, **signed})
        talk.say("CONNECT", session_id=EVIL, payload={"timestamp": 1, "x": EVIL}, signature=EVIL, **{"from": EVIL})
        talk.wire.send(EVIL)
        await talk.status()
    for path in ("/onion/sessions/%1b%5b2J%0a%e2%80%ae%c2%85", "/onion/x%0d%0a" + "%e2%80%a8"):
        assert (await server.get(path))[0] == 404
    seen = _seen(server)
    assert not CONTROL.search(seen), CONTROL.search(seen)
    assert not any(line.startswith(FORGED) for line in seen.splitlines())
    assert "session=\\x1b" in seen


async def test_no_secret_of_the_server_is_written_anywhere(watched: Onion) -> None:
    """Invariant 10."""
    for secret in (TOKEN, CODE):
        async with watched.talk(f"{watched.url}?token={TOKEN}") as talk:
            for name in (secret, f"x{secret}", secret[:200]):
                talk.say(
                    "CONNECT", session_id=name, **ALICE.signed({**ALICE.signed()["payload"], "invite_code": secret})
                )
                await talk.next("CONNECTED")
            for kind in ("INPUT", secret, "ADMIN_" + secret, "mode_change", "CONNECT", "prompt_update"):
                talk.say(kind, prompt=f"my code is {secret}", mode=secret, message=secret, input_id=f"{kind}{secret}")
            talk.say("INPUT", prompt="x" * 45 + secret, files=[{"name": secret, "data": "%%"}])
            talk.say("ONBOARD_SUBMIT", **ALICE.signed({**ALICE.signed()["payload"], "invite_code": secret + "x"}))
            talk.wire.send(f'{{"type":"INPUT","prompt":"{secret}')
            await talk.status()
        for path in (f"/onion/admin/logs?token={secret}", f"/onion/sessions/{secret}", f"/{secret}?token={secret}"):
            await watched.get(path)
    seen = _seen(watched)
    assert "CONNECT identity=" in seen
    for secret in (TOKEN, CODE):
        assert secret not in seen
        assert secret[:12] not in seen
    kept = [file for file in watched.home.parent.rglob("*") if file.is_file() and "key" in file.name]
    seeds = [file.read_text().strip() for file in kept if file.name == "host.key"]
    assert len(seeds) == 1
    assert seeds[0] not in seen
    assert seeds[0] not in json.dumps(await watched.get("/onion/info"))
