"""Whom each policy lets in: every level, every kind of caller, here and elsewhere, with and without onboarding."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from dragoman.services.identity import Identity
from dragoman.services.trust import Caller, Onboarding, Refused
from tests.services.trust.kit import ALICE, BOB, CAROL, EVE, HOST, NOW, Door, Ledger, caller, raw

DENIED = "forbidden: Denied by fast rules"
UNKNOWN = "forbidden: only callers that the owner of this server has added are let in"
SHOW_OR_SIGN = "forbidden: this server wants its token, or a signature"
IN = "let in"
GATE = "gate"

ADMIN, NAMED, STRANGER = (Identity.from_seed(bytes([number] * 32)) for number in range(6, 9))

KINDS: dict[str, Identity | None] = {
    "nobody": None,
    "stranger": STRANGER,
    "contact": ALICE,
    "whitelisted": BOB,
    "blocked": EVE,
    "admin": ADMIN,
    "host": HOST,
    "named by the settings": NAMED,
}

POLICIES = {
    "open": "open",
    "careful": "careful",
    "careful with codes": "---\nallow: [whitelisted, contact]\nonboard: {invite_code: C}\ndefault: ask\n---",
    "denying with codes": "---\nallow: [whitelisted, contact]\nonboard: {invite_code: C}\ndefault: deny\n---",
    "strict": "strict",
    "only codes": "---\nonboard: {invite_code: C}\ndefault: ask\n---",
    "nothing": "---\n---",
    "asking nobody known": "---\ndefault: ask\n---",
    "forgiving": "---\ndeny: []\ndefault: allow\n---",
}

ALWAYS = {"admin": IN, "host": IN, "named by the settings": IN}

TABLE: dict[str, dict[str, str]] = {
    "open": {"nobody": IN, "stranger": IN, "contact": IN, "whitelisted": IN, "blocked": DENIED},
    "careful": {"nobody": UNKNOWN, "stranger": UNKNOWN, "contact": IN, "whitelisted": IN, "blocked": DENIED},
    "careful with codes": {"nobody": GATE, "stranger": GATE, "contact": IN, "whitelisted": IN, "blocked": DENIED},
    "denying with codes": {"nobody": GATE, "stranger": GATE, "contact": IN, "whitelisted": IN, "blocked": DENIED},
    "strict": {"stranger": DENIED, "contact": DENIED, "whitelisted": IN, "blocked": DENIED},
    "only codes": {"nobody": GATE, "stranger": GATE, "contact": IN, "whitelisted": GATE, "blocked": DENIED},
    "nothing": {"nobody": DENIED, "stranger": DENIED, "contact": DENIED, "whitelisted": DENIED, "blocked": DENIED},
    "asking nobody known": dict.fromkeys(("nobody", "stranger", "contact", "whitelisted"), UNKNOWN)
    | {"blocked": DENIED},
    "forgiving": {"nobody": IN, "stranger": IN, "contact": IN, "whitelisted": IN, "blocked": IN},
}
"""What becomes of callers from elsewhere without the token. Nobody cannot get as far as this under strict."""

ROWS = [
    (policy, kind, loopback, token)
    for policy, kind, loopback, token in itertools.product(POLICIES, KINDS, (False, True), (False, True))
    if kind in TABLE[policy] | ALWAYS
]


def _door(folder: Path, policy: str, *, has_token: bool = False) -> Door:
    door = Door(folder, POLICIES[policy], has_token=has_token, whitelist=(NAMED.address,))
    door.write("contacts", ALICE.address)
    door.write("whitelist", BOB.address)
    door.write("blocklist", EVE.address, NAMED.address)
    door.write("admins", ADMIN.address)
    return door


def _expected(policy: str, kind: str, *, near: bool) -> str:
    """Being here, or having the server's token, helps where a policy asks and has nothing to ask for."""
    usual = (TABLE[policy] | ALWAYS)[kind]
    return IN if usual == UNKNOWN and near else usual


async def _outcome(door: Door, who: Caller) -> str:
    try:
        doors = await door.trust.admit(who, raw({"timestamp": NOW}))
    except Refused as why:
        return str(why)
    return IN if doors is None else GATE


@pytest.mark.parametrize(("policy", "kind", "loopback", "token"), ROWS, ids=str)
async def test_admission(tmp_path: Path, policy: str, kind: str, loopback: bool, token: bool) -> None:
    door = _door(tmp_path, policy)
    who = caller(KINDS[kind], loopback=loopback, token=token)
    expected = _expected(policy, kind, near=loopback or token)
    assert await _outcome(door, who) == expected


@pytest.mark.parametrize(("policy", "kind", "loopback", "token"), ROWS, ids=str)
async def test_admission_to_a_server_with_a_token(
    tmp_path: Path, policy: str, kind: str, loopback: bool, token: bool
) -> None:
    """Nobody shows it, wherever they are; for whoever signs all is as before."""
    door = _door(tmp_path, policy, has_token=True)
    shows = token or kind != "nobody"
    expected = _expected(policy, kind, near=loopback or token) if shows else SHOW_OR_SIGN
    assert await _outcome(door, caller(KINDS[kind], loopback=loopback, token=token)) == expected


@pytest.mark.parametrize(("policy", "kind", "loopback", "token"), ROWS, ids=str)
def test_who_was_let_in_may_go_on_just_as_long(
    tmp_path: Path, policy: str, kind: str, loopback: bool, token: bool
) -> None:
    door = _door(tmp_path, policy)
    who = caller(KINDS[kind], loopback=loopback, token=token)
    expected = _expected(policy, kind, near=loopback or token)
    if expected == IN:
        door.trust.recheck(who)
        return
    with pytest.raises(Refused) as refused:
        door.trust.recheck(who)
    gate = DENIED if policy == "denying with codes" else "forbidden: Onboard required"
    assert str(refused.value) == (gate if expected == GATE else expected)


async def test_who_was_blocked_since_may_not_go_on(tmp_path: Path) -> None:
    door = _door(tmp_path, "open")
    who = caller(CAROL)
    assert await door.trust.admit(who) is None
    door.trust.recheck(who)
    door.write("blocklist", CAROL.address)
    with pytest.raises(Refused, match=f"^{DENIED}$"):
        door.trust.recheck(who)


DEFAULTS = {"here": (True, "open"), "elsewhere": (False, "careful")}


@pytest.mark.parametrize(("listens_here", "name"), DEFAULTS.values(), ids=DEFAULTS.keys())
def test_the_default_policy(tmp_path: Path, listens_here: bool, name: str) -> None:
    trust = Door(tmp_path, listens_here=listens_here).trust
    assert trust.name == name
    assert trust.onboarding() is None
    assert trust.recommends_signature is (name == "careful")


def test_where_a_signature_is_required_none_is_recommended(tmp_path: Path) -> None:
    assert not Door(tmp_path, "careful", require_signature=True).trust.recommends_signature


@pytest.mark.parametrize("level", ["open", "careful", "strict"])
async def test_what_comes_with_the_server_has_no_code_and_no_price(tmp_path: Path, level: str) -> None:
    environment = {"CO_INVITE_CODE": "X", "CO_PAYMENT": "1"}
    door = Door(tmp_path, level, ledger=Ledger(), environment=environment)
    assert door.trust.onboarding() is None
    assert door.trust.secrets == ()


# Doors

ASKING = "---\nonboard:\n  {}\ndefault: ask\n---"

DOORS = {
    "a code": ("invite_code: C", True, {}, Onboarding(("invite_code",))),
    "a price": ("payment: 10", True, {}, Onboarding(("payment",), 10, HOST.address)),
    "a price that nobody verifies": ("payment: 10", False, {}, None),
    "both": ("{invite_code: C, payment: 2.5}", True, {}, Onboarding(("invite_code", "payment"), 2.5, HOST.address)),
    "both, and nobody verifies": ("{invite_code: C, payment: 2.5}", False, {}, Onboarding(("invite_code",))),
    "a code of the environment": ("invite_code: [$CODE]", True, {"CODE": "C"}, Onboarding(("invite_code",))),
    "none of the environment": ("invite_code: [$CODE]", True, {}, None),
    "a blank one of the environment": ("invite_code: $CODE", True, {"CODE": " "}, None),
    "a price of the environment": ("payment: $P", True, {"P": "7"}, Onboarding(("payment",), 7, HOST.address)),
    "no price of the environment": ("payment: $P", True, {}, None),
    "nonsense of the environment": ("payment: $P", True, {"P": "ten"}, None),
    "less than nothing of the environment": ("payment: $P", True, {"P": "-1"}, None),
    "nothing to pay": ("payment: 0", True, {}, None),
    "no codes": ("invite_code: []", True, {}, None),
}


@pytest.mark.parametrize(("said", "verified", "environment", "doors"), DOORS.values(), ids=DOORS.keys())
async def test_only_doors_that_can_open_are_shown(
    tmp_path: Path, said: str, verified: bool, environment: dict[str, str], doors: Onboarding | None
) -> None:
    door = Door(tmp_path, ASKING.format(said), ledger=Ledger() if verified else None, environment=environment)
    assert door.trust.onboarding() == doors
    if doors is not None:
        assert await door.trust.admit(caller(STRANGER)) == doors
        return
    with pytest.raises(Refused, match=f"^{UNKNOWN}$"):
        await door.trust.admit(caller(STRANGER))


async def test_an_unset_code_is_no_code(tmp_path: Path) -> None:
    door = Door(tmp_path, ASKING.format("invite_code: [$CODE, OTHER]"))
    assert await door.trust.admit(caller(STRANGER), raw({"invite_code": "$CODE"})) is not None
    assert await door.trust.admit(caller(STRANGER), raw({"invite_code": ""})) is not None
    assert await door.trust.admit(caller(STRANGER), raw({"invite_code": "OTHER"})) is None
