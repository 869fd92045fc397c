"""How a stranger becomes a contact: codes and payments, for the one who waits and nobody else, and not by guessing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.hub.events import Json
from dragoman.services.identity import Identity
from dragoman.services.trust import Onboarded, Refused, Signed
from tests.services.trust.kit import ALICE, BOB, CAROL, CODES, EVE, HOST, NOW, PRICED, Door, Ledger, caller, raw, signed

PEER = "192.0.2.7"
WRONG = "Invalid invite code"
UNPAID = "Insufficient payment"
NEEDED = "invite_code or payment required"

CODE_TAKEN = Onboarded(ALICE.address, "contact", "Invite code verified. You are now a contact.")
PAID = Onboarded(ALICE.address, "contact", "Payment verified. You are now a contact.")


async def submit(
    door: Door, who: Identity = ALICE, *, expected: Identity | None = ALICE, peer: str = PEER, **given: Json
) -> Onboarded:
    waits = None if expected is None else expected.address
    return await door.trust.onboard(signed(who, given), expected=waits, loopback=False, peer=peer, socket=door)


async def refusal(door: Door, who: Identity = ALICE, *, expected: Identity | None = ALICE, **given: Json) -> str:
    with pytest.raises(Refused) as refused:
        await submit(door, who, expected=expected, **given)
    return str(refused.value)


async def test_the_gate_and_a_code(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES)
    assert await door.trust.admit(caller(ALICE)) is not None
    assert await submit(door, invite_code="CODE1") == CODE_TAKEN
    assert await door.trust.admit(caller(ALICE)) is None
    assert door.read("contacts") == [ALICE.address]


async def test_a_wrong_code_and_then_the_right_one(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES)
    assert await refusal(door, invite_code="WRONG") == WRONG
    assert await submit(door, invite_code="CODE2") == CODE_TAKEN


async def test_without_a_connect_before_it(tmp_path: Path) -> None:
    assert await submit(Door(tmp_path, CODES), expected=None, invite_code="CODE1") == CODE_TAKEN


async def test_again_after_it(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES)
    assert await submit(door, invite_code="CODE1") == await submit(door, invite_code="CODE1") == CODE_TAKEN
    assert door.read("contacts") == [ALICE.address]


async def test_who_is_more_stays_more(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES)
    door.write("whitelist", ALICE.address)
    assert (await submit(door, invite_code="CODE1")).level == "whitelist"
    assert not (tmp_path / "contacts.txt").exists()


async def test_another_key_cannot_let_in_the_one_who_waits(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES)
    message = "forbidden: another identity waits to be let in here"
    assert await refusal(door, BOB, invite_code="CODE1") == message
    assert not (tmp_path / "contacts.txt").exists()
    assert await submit(door, invite_code="CODE1") == CODE_TAKEN


NOTHING_SHOWN: dict[str, dict[str, Json]] = {
    "nothing": {},
    "an empty code": {"invite_code": ""},
    "a code that is null": {"invite_code": None},
    "no payment": {"payment": 0},
    "less than none": {"payment": -1},
    "a payment that is text": {"payment": "10"},
    "a payment that is true": {"payment": True},
    "a payment that is a list": {"payment": [10]},
    "an empty code and no payment": {"invite_code": [], "payment": None},
}


@pytest.mark.parametrize("given", NOTHING_SHOWN.values(), ids=NOTHING_SHOWN.keys())
async def test_nothing_shown(tmp_path: Path, given: dict[str, Json]) -> None:
    ledger = Ledger()
    assert await refusal(Door(tmp_path, PRICED, ledger=ledger), **given) == NEEDED
    assert ledger.asked == []


NO_CODES: dict[str, Json] = {
    "another": "CODE3",
    "half of one": "CODE",
    "in another case": "code1",
    "with a space": "CODE1 ",
    "several": ["CODE1", "CODE2"],
    "in an object": {"CODE1": True},
    "true": True,
    "a number": 1,
    "half of a pair": "\ud83d",
    "very long": "C" * 100_000,
}


@pytest.mark.parametrize("code", NO_CODES.values(), ids=NO_CODES.keys())
async def test_wrong_codes(tmp_path: Path, code: Json) -> None:
    assert await refusal(Door(tmp_path, CODES), invite_code=code) == WRONG


async def test_codes_count_before_payments(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.paid_by[ALICE.address] = 10
    door = Door(tmp_path, PRICED, ledger=ledger)
    assert await refusal(door, invite_code="WRONG", payment=10) == WRONG
    assert ledger.asked == []


async def test_where_there_are_no_codes_none_is_right(tmp_path: Path) -> None:
    for policy in ("open", "careful", "strict"):
        assert await refusal(Door(tmp_path, policy), invite_code="$CO_INVITE_CODE") == WRONG


UNSIGNED = "unauthorized: signed request required"


@pytest.mark.parametrize("policy", ["open", "careful", "strict", CODES], ids=["open", "careful", "strict", "custom"])
async def test_it_is_signed_whatever_the_policy(tmp_path: Path, policy: str) -> None:
    trust = Door(tmp_path, policy).trust
    for frame in (Signed(), Signed(payload=raw({"timestamp": NOW, "invite_code": "CODE1"}))):
        with pytest.raises(Refused, match=f"^{UNSIGNED}$"):
            await trust.onboard(frame, expected=None, loopback=True, peer=PEER)


async def test_its_signature_is_checked_like_any(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES)
    frame = Signed(raw({"timestamp": NOW, "invite_code": "CODE1"}), raw(ALICE.address), raw("0" * 128))
    with pytest.raises(Refused, match=r"^unauthorized: invalid signature$"):
        await door.trust.onboard(frame, expected=None, loopback=False, peer=PEER)
    door.later(301)
    assert await refusal(door, invite_code="CODE1") == "unauthorized: signature expired"


async def test_who_is_blocked_has_no_way_in(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES, blacklist=(BOB.address,))
    door.write("blocklist", EVE.address)
    assert await refusal(door, EVE, expected=EVE, invite_code="CODE1") == "forbidden: Denied by fast rules"
    assert await refusal(door, BOB, expected=BOB, invite_code="CODE1") == "forbidden: blacklisted"
    with pytest.raises(Refused, match=r"^forbidden: Denied by fast rules$"):
        await door.trust.admit(caller(EVE), raw({"invite_code": "CODE1"}))
    assert not (tmp_path / "contacts.txt").exists()


# A code in CONNECT


async def test_a_code_in_connect(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES)
    assert await door.trust.admit(caller(ALICE), raw({"invite_code": "CODE1"}), peer=PEER) is None
    assert door.read("contacts") == [ALICE.address]


@pytest.mark.parametrize("payload", [{"invite_code": "CODE1"}, {"payment": 10}], ids=["code", "payment"])
async def test_nobody_gets_in_by_a_payload(tmp_path: Path, payload: dict[str, Json]) -> None:
    door = Door(tmp_path, PRICED, ledger=Ledger())
    assert await door.trust.admit(caller(None, loopback=True, token=True), raw(payload), peer=PEER) is not None


@pytest.mark.parametrize("claimed", [10, 11, 10.0, 1e300, "10", True, [10]], ids=str)
async def test_a_claim_in_connect_is_no_payment(tmp_path: Path, claimed: Json) -> None:
    ledger = Ledger()
    door = Door(tmp_path, PRICED, ledger=ledger)
    assert await door.trust.admit(caller(ALICE), raw({"payment": claimed}), peer=PEER) is not None
    assert ledger.asked == []


# Payments


async def test_a_payment(tmp_path: Path) -> None:
    ledger = Ledger()
    door = Door(tmp_path, PRICED, ledger=ledger)
    assert await refusal(door, payment=10) == UNPAID
    ledger.paid_by[ALICE.address] = 10
    assert await submit(door, payment=10) == PAID
    assert ledger.asked == [(ALICE.address, 10), (ALICE.address, 10)]


async def test_the_price_is_the_hosts(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.paid_by[ALICE.address] = 3
    door = Door(tmp_path, PRICED, ledger=ledger)
    assert await refusal(door, payment=3) == UNPAID
    assert await refusal(door, payment=1000) == UNPAID
    assert ledger.asked == [(ALICE.address, 10)]


async def test_without_a_price_nothing_can_be_paid(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.paid_by[ALICE.address] = 1000
    assert await refusal(Door(tmp_path, CODES, ledger=ledger), payment=1000) == UNPAID
    assert ledger.asked == []


class Broken:
    """Asked, it fails in its own way."""

    def __init__(self, how: str) -> None:
        self._how = how
        self.asked = asyncio.Event()

    async def paid(self, identity: str, amount: float) -> bool:
        self.asked.set()
        if self._how == "never":
            await asyncio.Event().wait()
        if self._how == "late":
            raise TimeoutError
        if self._how == "vague":
            return 1  # type: ignore[return-value]
        raise ImportError("no HTTP library")


@pytest.mark.parametrize("how", ["never", "late", "vague", "broken"])
async def test_a_verifier_that_fails_says_no(tmp_path: Path, how: str) -> None:
    door = Door(tmp_path, PRICED, ledger=Broken(how), payment_seconds=0.01)
    assert await refusal(door, payment=10) == UNPAID
    assert not (tmp_path / "contacts.txt").exists()


async def test_whoever_stops_waiting_is_not_answered(tmp_path: Path) -> None:
    broken = Broken("never")
    door = Door(tmp_path, PRICED, ledger=broken, payment_seconds=20)
    waiting = asyncio.create_task(submit(door, payment=10))
    async with asyncio.timeout(20):
        await broken.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


# Guessing

LIMITED = "forbidden: too many attempts to get in; wait {} seconds"


async def test_one_identity_may_guess_so_often(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES, code_attempts=3)
    assert [await refusal(door, invite_code="WRONG") for _ in range(3)] == [WRONG] * 3
    assert await refusal(door, invite_code="CODE1") == LIMITED.format(60)
    door.later(45)
    assert await refusal(door, invite_code="CODE1") == LIMITED.format(15)
    door.later(15)
    assert await submit(door, invite_code="CODE1") == CODE_TAKEN


async def test_so_may_one_address_with_many_identities(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES, peer_code_attempts=4)
    many = [Identity.from_seed(bytes([number] * 32)) for number in range(20, 25)]
    assert [await refusal(door, who, expected=who, invite_code="WRONG") for who in many] == [WRONG] * 4 + [
        LIMITED.format(60)
    ]
    assert await submit(door, invite_code="CODE1", peer="192.0.2.8") == CODE_TAKEN


NEIGHBOURS = {
    "with IPv6 all of a network": ("2001:db8::1", "2001:db8::2:3", True),
    "but no other network": ("2001:db8::1", "2001:db8:0:1::1", False),
    "with IPv4 each": ("192.0.2.1", "192.0.2.2", False),
    "written as IPv6 too": ("::ffff:192.0.2.1", "192.0.2.1", True),
    "what is no address": ("unix", "unix", True),
}


@pytest.mark.parametrize(("one", "other", "same"), NEIGHBOURS.values(), ids=NEIGHBOURS.keys())
async def test_whose_address_it_is(tmp_path: Path, one: str, other: str, same: bool) -> None:
    door = Door(tmp_path, CODES, peer_code_attempts=1)
    with pytest.raises(Refused, match=f"^{WRONG}$"):
        await submit(door, invite_code="WRONG", peer=one)
    with pytest.raises(Refused, match="too many" if same else f"^{WRONG}$"):
        await submit(door, BOB, expected=BOB, invite_code="WRONG", peer=other)


async def test_codes_in_connect_are_counted_with_them(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES, code_attempts=2)
    for _ in range(2):
        assert await door.trust.admit(caller(ALICE), raw({"invite_code": "WRONG"}), peer=PEER) is not None
    with pytest.raises(Refused, match=LIMITED.format(60)):
        await door.trust.admit(caller(ALICE), raw({"invite_code": "CODE1"}), peer=PEER)
    assert await refusal(door, invite_code="CODE1") == LIMITED.format(60)
    assert await door.trust.admit(caller(ALICE), raw({}), peer=PEER) is not None


async def test_right_ones_are_not_counted(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES, code_attempts=1, peer_code_attempts=1)
    for who in (ALICE, BOB, ALICE, HOST):
        assert (await submit(door, who, expected=who, invite_code="CODE1")).identity == who.address
    for who in (CAROL, EVE):
        assert await door.trust.admit(caller(who), raw({"invite_code": "CODE1"}), peer=PEER) is None


async def test_attempts_that_wait_are_counted(tmp_path: Path) -> None:
    door = Door(tmp_path, PRICED, ledger=Broken("never"), code_attempts=2, payment_seconds=0.05)
    answers = await asyncio.gather(*(submit(door, payment=10) for _ in range(6)), return_exceptions=True)
    assert sorted(map(str, answers)) == [UNPAID] * 2 + [LIMITED.format(60)] * 4


async def test_one_code_admits_many_at_once(tmp_path: Path) -> None:
    door = Door(tmp_path, CODES)
    many = [Identity.from_seed(bytes([number] * 32)) for number in range(20, 40)]
    done = await asyncio.gather(*(submit(door, who, expected=who, invite_code="CODE1") for who in many))
    assert {one.level for one in done} == {"contact"}
    assert sorted(door.read("contacts")) == sorted(who.address for who in many)
