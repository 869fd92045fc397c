"""What callers may do once they are in: approve, and see everybody's sessions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dragoman.services.identity import Identity
from tests.services.trust.kit import ALICE, BOB, CAROL, EVE, HOST, Door, caller

ADMIN = Identity.from_seed(bytes([6] * 32))

KINDS: dict[str, Identity | None] = {
    "nobody": None,
    "stranger": CAROL,
    "contact": ALICE,
    "whitelist": BOB,
    "blocked": EVE,
    "admin": ADMIN,
    "owner": HOST,
}


def door_of(folder: Path, **settings: object) -> Door:
    door = Door(folder, "open", **settings)
    door.write("contacts", ALICE.address)
    door.write("whitelist", BOB.address)
    door.write("blocklist", EVE.address)
    door.write("admins", ADMIN.address, EVE.address)
    return door


APPROVE = {
    "nobody": (False, True),
    "stranger": (False, True),
    "contact": (False, True),
    "whitelist": (True, True),
    "blocked": (False, False),
    "admin": (True, True),
    "owner": (True, True),
}
"""Elsewhere, and here."""


@pytest.mark.parametrize("token", [False, True], ids=["no token", "token"])
@pytest.mark.parametrize("kind", KINDS)
def test_who_may_approve(tmp_path: Path, kind: str, token: bool) -> None:
    trust = door_of(tmp_path).trust
    elsewhere, here = APPROVE[kind]
    assert trust.may_approve(caller(KINDS[kind], token=token)) is elsewhere
    assert trust.may_approve(caller(KINDS[kind], token=token, loopback=True)) is here


APPROVERS = {
    "nobody at all": ((), set()),
    "the owner": (("owner",), {"owner"}),
    "administrators": (("admin",), {"admin", "owner"}),
    "contacts": (("contact",), {"contact"}),
    "strangers": (("stranger",), {"stranger", "nobody", "admin", "owner"}),
    "whoever is listed": (("contact", "whitelist"), {"contact", "whitelist"}),
    "whoever has the token": (("token",), set(KINDS) - {"blocked"}),
}
"""Administrators and the owner stand in no other list here: by level they are strangers."""


@pytest.mark.parametrize(("approvers", "kinds"), APPROVERS.values(), ids=APPROVERS.keys())
def test_the_settings_say_who(tmp_path: Path, approvers: tuple[str, ...], kinds: set[str]) -> None:
    trust = door_of(tmp_path, approvers=approvers).trust
    assert {kind for kind, who in KINDS.items() if trust.may_approve(caller(who, token=True))} == kinds


def test_it_is_asked_anew_each_time(tmp_path: Path) -> None:
    door = door_of(tmp_path)
    assert not door.trust.may_approve(caller(CAROL))
    door.write("whitelist", CAROL.address)
    assert door.trust.may_approve(caller(CAROL))
    door.write("blocklist", CAROL.address)
    assert not door.trust.may_approve(caller(CAROL))


def test_the_settings_own_whitelist_counts(tmp_path: Path) -> None:
    door = door_of(tmp_path, whitelist=(CAROL.address,), blacklist=(BOB.address,))
    assert door.trust.may_approve(caller(CAROL))
    assert not door.trust.may_approve(caller(BOB, loopback=True))
    assert (door.trust.level(CAROL.address), door.trust.level(BOB.address)) == ("whitelist", "blocked")


@pytest.mark.parametrize("kind", KINDS)
def test_who_sees_all(tmp_path: Path, kind: str) -> None:
    trust = door_of(tmp_path).trust
    who = KINDS[kind]
    for loopback, token in ((False, False), (True, False), (False, True), (True, True)):
        seen = (loopback or token) if who is None else kind in ("admin", "owner")
        assert trust.sees_all(caller(who, loopback=loopback, token=token)) is seen


LEVELS = {
    "blocked before all": (("blocklist", "whitelist", "contacts"), "blocked"),
    "then the whitelist": (("whitelist", "contacts"), "whitelist"),
    "then contacts": (("contacts",), "contact"),
    "an administrator has none for it": (("admins",), "stranger"),
    "nowhere": ((), "stranger"),
}


@pytest.mark.parametrize(("lists", "level"), LEVELS.values(), ids=LEVELS.keys())
def test_levels(tmp_path: Path, lists: tuple[str, ...], level: str) -> None:
    door = Door(tmp_path, "open")
    for name in lists:
        door.write(name, ALICE.address)
    assert door.trust.level(ALICE.address.upper()) == level


def test_a_question_is_quick_even_while_lists_change(tmp_path: Path) -> None:
    door = door_of(tmp_path)
    door.write("contacts", *(f"client-{number}" for number in range(5000)), ALICE.address)
    # One that changed a moment ago is read anew with each question: there is nothing worse.
    assert min(_timed(door) for _ in range(5)) < 0.05


def _timed(door: Door) -> float:
    start = time.perf_counter()
    assert not door.trust.may_approve(caller(ALICE))
    return time.perf_counter() - start
