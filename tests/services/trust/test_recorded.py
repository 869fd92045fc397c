"""What the original answered to signed frames, and what we answer: the differences are named, and most are its defects.

The frames are recordings of ConnectOnion 1.2.1 with throw-away keys (32 equal bytes; the host's are 01).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from dragoman.hub.events import Json
from dragoman.services.trust import Refused, Trust
from tests.services.trust.kit import ALICE, BOB, CAROL, EVE, PRICED, Door, Ledger, fields

RECORDED = Path(__file__).parents[2] / "data" / "onion" / "trust.jsonl"
ROWS = [json.loads(line) for line in RECORDED.read_text().splitlines()]
SCENARIOS = sorted({row["scenario"] for row in ROWS})

DENYING = PRICED.replace("ask", "deny")

SETTINGS: Mapping[str, Mapping[str, Json]] = {
    "auth": {"policy": "open", "blacklist": (EVE.address,)},
    "careful": {"policy": DENYING},
    "strict": {"policy": "strict", "whitelist": (BOB.address,)},
}

LISTS = {
    "careful_code_contact_returns": ("contacts", ALICE.address),
    "strict": ("whitelist", CAROL.address),
}

CONNECTED = {"type": "CONNECTED"}


def gate(identity: str | None) -> dict[str, Json]:
    asks = {"methods": ["invite_code", "payment"], "payment_amount": 10}
    host = "0x8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
    return {"type": "ONBOARD_REQUIRED", "identity": identity, **asks, "payment_address": host}


def error(message: str) -> dict[str, Json]:
    return {"type": "ERROR", "message": message}


NEEDED = "invite_code or payment required"
CLAIMED = next(row["sent"]["from"] for row in ROWS if row["scenario"] == "careful_code_payment_in_connect")

DIFFERENCES = {
    ("auth_canonical_json", 1): ("unescaped UTF-8 is a canonical form, too (row 15)", CONNECTED),
    ("auth_malformed_auth", 2): ("open accepts without signature (seed)", CONNECTED),
    ("auth_malformed_auth", 3): ("it closed the socket (row 17)", error("unauthorized: payload must be an object")),
    ("auth_malformed_auth", 4): ("it closed the socket (row 17)", error("unauthorized: invalid signature")),
    ("auth_recipient", 0): ("signed for another host", error("unauthorized: wrong recipient")),
    ("auth_unsigned_open", 0): ("open accepts without signature (seed)", CONNECTED),
    ("auth_unsigned_open", 1): ("open accepts without signature (seed)", CONNECTED),
    ("auth_unsigned_open", 2): ("open accepts without signature (seed)", CONNECTED),
    ("careful_code_onboard", 0): ("nobody is a stranger like any other (seed)", gate(None)),
    ("careful_code_payment", 1): ("it closed the socket; nothing was paid (row 8)", error("Insufficient payment")),
    ("careful_code_payment", 3): ("it closed the socket; nothing was paid (row 8)", error("Insufficient payment")),
    ("careful_code_payment", 9): ("it closed the socket: no number (row 8)", error(NEEDED)),
    ("careful_code_payment", 11): ("it closed the socket: no number (row 8)", error(NEEDED)),
    ("careful_code_payment_in_connect", 0): ("a claim is no payment (row 8)", gate(CLAIMED)),
    ("careful_code_submit_other_identity", 1): (
        "it let the first in as the second (row 36)",
        error("forbidden: another identity waits to be let in here"),
    ),
    ("careful_code_admin", 15): ("who is blocked has no gate (row 10)", error("forbidden: Denied by fast rules")),
}
"""By scenario and place in it: why, and what we answer."""


class Socket:
    """What a link does with trust: one for each connection of a recording."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._waits: str | None = None

    async def answer(self, sent: Mapping[str, Json]) -> dict[str, Json]:
        try:
            if sent["type"] == "CONNECT":
                return await self._connect(sent)
            if sent["type"] == "ONBOARD_SUBMIT":
                done = await self._trust.onboard(fields(sent), expected=self._waits, loopback=True, peer="here")
                return {"type": "ONBOARD_SUCCESS", **msgspec.to_builtins(done)}
            outcome = await self._trust.administer(sent["type"], fields(sent), loopback=True)
        except Refused as why:
            return error(str(why))
        return {"type": "ADMIN_RESULT", **_given(outcome)}

    async def _connect(self, sent: Mapping[str, Json]) -> dict[str, Json]:
        caller = self._trust.verify(fields(sent), loopback=True, token=False)
        self._trust.check_replay(caller, sent.get("signature", ""), self)
        doors = await self._trust.admit(caller, fields(sent).payload)
        if doors is None:
            return CONNECTED
        self._waits = caller.identity
        given = {name: value for name, value in _given(doors).items() if name != "reason"}
        return {"type": "ONBOARD_REQUIRED", "identity": caller.identity, **given}


def _given(said: msgspec.Struct) -> dict[str, Json]:
    fields_said = msgspec.json.decode(msgspec.json.encode(said))
    return {name: value for name, value in fields_said.items() if value is not None}


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_recorded(tmp_path: Path, scenario: str) -> None:
    rows = [row for row in ROWS if row["scenario"] == scenario]
    door = Door(tmp_path, ledger=Ledger(), **SETTINGS[scenario.split("_", maxsplit=1)[0]])
    door.clock.time = 1000 * _first_time(rows)
    if scenario in LISTS:
        door.write(*LISTS[scenario])
    sockets: dict[str, Socket] = {}
    for place, row in enumerate(rows):
        socket = sockets.setdefault(row["conn"], Socket(door.trust))
        _, ours = DIFFERENCES.get((scenario, place), ("", row["said"]))
        assert await socket.answer(row["sent"]) == ours, (scenario, place)


def _first_time(rows: list[dict[str, Json]]) -> int:
    """The clock of a recording, which the times in its frames are about; the first of ``auth_timestamp`` is early."""
    if rows[0]["scenario"] == "auth_timestamp":
        return 1_795_817_533
    return next(time for row in rows if (time := row["sent"].get("payload", {}).get("timestamp")))


def test_every_difference_is_one() -> None:
    told = {(scenario, place): (row["said"]) for scenario in SCENARIOS for place, row in enumerate(_of(scenario))}
    assert [where for where, (_, ours) in DIFFERENCES.items() if told[where] == ours] == []


def _of(scenario: str) -> list[dict[str, Json]]:
    return [row for row in ROWS if row["scenario"] == scenario]
