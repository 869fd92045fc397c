"""ADMIN_* frames: who may, what they do, and every text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.hub.events import Json
from dragoman.services.identity import Identity
from dragoman.services.trust import AdminOutcome, Refused, Signed
from tests.services.trust.kit import ALICE, BOB, CAROL, EVE, HOST, NOW, Door, raw, signed

ID = ALICE.address
ADMIN_ONLY = "forbidden: admin only"
BY_SETTINGS = "The server's settings name this one. Edit them."
BY_PATTERN = "A pattern in a list names this one. Edit the list."


async def ask(door: Door, type_: str, who: Identity = HOST, **payload: Json) -> AdminOutcome:
    door.later(5)  # each is signed at its own time
    now = door.clock.now() // 1000
    return await door.trust.administer(f"ADMIN_{type_}", signed(who, {"timestamp": now, **payload}), loopback=False)


async def refusal(door: Door, type_: str, who: Identity = HOST, **payload: Json) -> str:
    with pytest.raises(Refused) as refused:
        await ask(door, type_, who, **payload)
    return str(refused.value)


def done(action: str, message: str, level: str | None = None) -> AdminOutcome:
    return AdminOutcome(action, success=True, message=message, level=level)


def not_done(action: str, error: str, level: str) -> AdminOutcome:
    return AdminOutcome(action, error=error, level=level)


async def test_up_and_down(tmp_path: Path) -> None:
    door = Door(tmp_path)
    assert await ask(door, "GET_LEVEL", client_id=ID) == AdminOutcome("get_level", client_id=ID, level="stranger")
    assert await ask(door, "DEMOTE", client_id=ID) == not_done("demote", "Already at lowest level", "stranger")
    assert await ask(door, "PROMOTE", client_id=ID) == done("promote", f"{ID} promoted to contact.", "contact")
    assert await ask(door, "PROMOTE", client_id=ID) == done("promote", f"{ID} promoted to whitelist.", "whitelist")
    assert await ask(door, "PROMOTE", client_id=ID) == not_done("promote", "Already at highest level", "whitelist")
    assert await ask(door, "DEMOTE", client_id=ID) == done("demote", f"{ID} demoted to contact.", "contact")
    assert await ask(door, "DEMOTE", client_id=ID) == done("demote", f"{ID} demoted to stranger.", "stranger")
    assert (door.read("whitelist"), door.read("contacts")) == ([], [])


async def test_blocked_and_not(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.write("contacts", ID)
    blocked = done("block", f"{ID} blocked. Reason: spam", "blocked")
    assert await ask(door, "BLOCK", client_id=ID, reason="spam") == blocked
    assert await ask(door, "BLOCK", client_id=ID, reason="spam") == blocked
    for action in ("promote", "demote"):
        told = not_done(action, "Client is blocked. Unblock first.", "blocked")
        assert await ask(door, action.upper(), client_id=ID) == told
    unblocked = done("unblock", f"{ID} unblocked.", "contact")
    assert await ask(door, "UNBLOCK", client_id=ID) == unblocked
    assert await ask(door, "UNBLOCK", client_id=ID) == unblocked


@pytest.mark.parametrize("reason", [None, 5, ["x"], ""], ids=["null", "number", "list", "empty"])
async def test_a_reason_that_is_none(tmp_path: Path, reason: Json) -> None:
    outcome = await ask(Door(tmp_path), "BLOCK", client_id=ID, reason=reason)
    assert outcome.message == f"{ID} blocked. Reason: "


async def test_administrators(tmp_path: Path) -> None:
    door = Door(tmp_path)
    bob = BOB.address
    assert await refusal(door, "GET_LEVEL", BOB, client_id=ID) == ADMIN_ONLY
    assert await ask(door, "ADD", admin_id=bob) == done("add_admin", f"{bob} added as admin.")
    assert await ask(door, "ADD", admin_id=bob) == done("add_admin", f"{bob} is already an admin.")
    assert await ask(door, "ADD", admin_id=HOST.address) == done("add_admin", f"{HOST.address} is already an admin.")
    assert (await ask(door, "PROMOTE", BOB, client_id=ID)).level == "contact"
    assert await ask(door, "REMOVE", admin_id=bob) == done("remove_admin", f"{bob} removed from admins.")
    assert await ask(door, "REMOVE", admin_id=bob) == done("remove_admin", f"{bob} is not an admin.")
    assert await refusal(door, "GET_LEVEL", BOB, client_id=ID) == ADMIN_ONLY


@pytest.mark.parametrize("action", ["ADD", "REMOVE"])
async def test_only_the_host_makes_and_unmakes_them(tmp_path: Path, action: str) -> None:
    door = Door(tmp_path)
    door.write("admins", BOB.address)
    assert await refusal(door, action, BOB, admin_id=CAROL.address) == "forbidden: super admin only"
    assert await refusal(door, action, CAROL, admin_id=CAROL.address) == ADMIN_ONLY
    assert door.read("admins") == [BOB.address]


async def test_no_pattern_makes_one(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.write("admins", "*", "0x*", f"# {BOB.address}")
    assert await refusal(door, "GET_LEVEL", BOB, client_id=ID) == ADMIN_ONLY
    assert not door.trust.is_admin(BOB.address)


CLIENT_ACTIONS = ("PROMOTE", "DEMOTE", "BLOCK", "UNBLOCK", "GET_LEVEL")

NOT_THERE: dict[str, Json] = {"null": None, "empty": "", "zero": 0, "empty list": []}

NO_IDENTITIES: dict[str, Json] = {
    "a second line": f"{ALICE.address}\n*",
    "a pattern": "*",
    "a comment": "# x",
    "a number": 7,
    "a list": [ALICE.address],
    "an object": {"a": 1},
    "spaces": "a b",
    "too long": "x" * 201,
}


@pytest.mark.parametrize("action", CLIENT_ACTIONS)
async def test_whom_it_is_about(tmp_path: Path, action: str) -> None:
    door = Door(tmp_path)
    assert await refusal(door, action) == "client_id required"
    for given in NOT_THERE.values():
        assert await refusal(door, action, client_id=given) == "client_id required"
    for given in NO_IDENTITIES.values():
        assert await refusal(door, action, client_id=given) == "client_id is no identity"
    assert list(tmp_path.glob("*.txt")) == []


@pytest.mark.parametrize("action", ["ADD", "REMOVE"])
async def test_which_administrator(tmp_path: Path, action: str) -> None:
    door = Door(tmp_path)
    assert await refusal(door, action, client_id=ID) == "admin_id required"
    for given in NO_IDENTITIES.values():
        assert await refusal(door, action, admin_id=given) == "admin_id is no identity"
    assert list(tmp_path.glob("*.txt")) == []


async def test_unknown_actions(tmp_path: Path) -> None:
    door = Door(tmp_path)
    assert await refusal(door, "NOPE") == "Unknown admin action: ADMIN_NOPE"
    assert await refusal(door, "NOPE", BOB) == ADMIN_ONLY


@pytest.mark.parametrize("policy", ["open", "careful", "strict"])
async def test_each_is_signed_also_here(tmp_path: Path, policy: str) -> None:
    trust = Door(tmp_path, policy).trust
    payload = raw({"timestamp": NOW, "client_id": ID})
    for frame in (Signed(), Signed(payload=payload), Signed(sender=raw(HOST.address))):
        with pytest.raises(Refused, match=r"^unauthorized: signed request required$"):
            await trust.administer("ADMIN_BLOCK", frame, loopback=True)
    with pytest.raises(Refused, match=r"^unauthorized: invalid signature$"):
        await trust.administer("ADMIN_BLOCK", Signed(payload, raw(HOST.address), raw("0" * 128)), loopback=True)


async def test_an_administrator_who_is_blocked_is_none(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.write("admins", EVE.address)
    door.write("blocklist", EVE.address)
    assert await refusal(door, "UNBLOCK", EVE, client_id=EVE.address) == "forbidden: Denied by fast rules"


async def test_the_owner_cannot_be_blocked(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.write("admins", BOB.address)
    told = not_done("block", "The owner cannot be blocked.", "stranger")
    assert await ask(door, "BLOCK", BOB, client_id=HOST.address.upper()) == told
    door.write("blocklist", "*")
    assert (await ask(door, "GET_LEVEL", client_id=HOST.address)).level == "stranger"


async def test_what_settings_say_is_not_an_administrators_to_change(tmp_path: Path) -> None:
    door = Door(tmp_path, whitelist=(ALICE.address,), blacklist=(EVE.address,))
    for action in ("promote", "demote", "block"):
        assert await ask(door, action.upper(), client_id=ID) == not_done(action, BY_SETTINGS, "whitelist")
    for action in ("promote", "demote", "unblock"):
        told = not_done(action, BY_SETTINGS, "blocked")
        assert await ask(door, action.upper(), client_id=EVE.address) == told


async def test_nor_is_a_pattern(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.write("whitelist", "trusted-*")
    door.write("blocklist", "bad-*")
    assert await ask(door, "DEMOTE", client_id="trusted-x") == not_done("demote", BY_PATTERN, "whitelist")
    assert await ask(door, "UNBLOCK", client_id="bad-x") == not_done("unblock", BY_PATTERN, "blocked")


async def test_a_list_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    door = Door(tmp_path)
    (tmp_path / "blocklist.txt").write_bytes(b"\xff")
    for action in CLIENT_ACTIONS:
        assert await refusal(door, action, client_id=ID) == "misconfigured: blocklist.txt: it is not UTF-8 text"


async def test_whom_the_path_names(tmp_path: Path) -> None:
    trust = Door(tmp_path).trust
    outcome = await trust.administer("ADMIN_GET_LEVEL", signed(HOST), loopback=False, client_id=ID)
    assert outcome == AdminOutcome("get_level", client_id=ID, level="stranger")


async def test_a_signature_for_one_action_is_not_one_for_another(tmp_path: Path) -> None:
    door = Door(tmp_path)
    told = "unauthorized: signed for another action"
    assert await refusal(door, "PROMOTE", client_id=ID, type="ADMIN_GET_LEVEL") == told
    assert (await ask(door, "PROMOTE", client_id=ID, type="ADMIN_PROMOTE")).success


async def test_a_recorded_frame_does_nothing_later(tmp_path: Path) -> None:
    door = Door(tmp_path)
    frame = signed(HOST, client_id=ID)
    assert (await door.trust.administer("ADMIN_PROMOTE", frame, loopback=False)).level == "contact"
    door.later(10)
    with pytest.raises(Refused, match=r"^unauthorized: signature already used$"):
        await door.trust.administer("ADMIN_PROMOTE", frame, loopback=False)
    assert door.trust.level(ID) == "contact"


async def test_many_at_once(tmp_path: Path) -> None:
    door = Door(tmp_path)
    clients = [f"client-{number}" for number in range(30)]
    outcomes = await asyncio.gather(
        *(door.trust.administer("ADMIN_PROMOTE", signed(HOST, client_id=client), loopback=False) for client in clients)
    )
    assert all(outcome.success for outcome in outcomes)
    assert sorted(door.read("contacts")) == sorted(clients)
