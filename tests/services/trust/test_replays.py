"""A CONNECT that was recorded opens no second socket; two honest ones within a second do."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path

import msgspec
import pytest

from dragoman.hub.events import Json
from dragoman.services.trust import Refused, Signed
from tests.services.trust.kit import ALICE, BOB, HOST, NOW, Door, caller, raw, signed

USED = r"^unauthorized: this CONNECT was already used$"
FRAME = signed(ALICE, to=HOST.address)


class Socket:
    """Stands for a connection."""


def connect(door: Door, socket: object, frame: Signed = FRAME) -> None:
    door.trust.check_replay(door.verify(frame), frame.signature, socket)


def test_two_honest_reconnects_within_a_second(tmp_path: Path) -> None:
    door = Door(tmp_path)
    connect(door, Socket())
    door.later(0.9)
    connect(door, Socket())
    connect(door, Socket())


def test_one_that_was_recorded(tmp_path: Path) -> None:
    door = Door(tmp_path)
    connect(door, Socket())
    for seconds in (5, 60, 230):
        door.later(seconds)
        with pytest.raises(Refused, match=USED):
            connect(door, Socket())


def test_the_window_is_not_moved_by_using_it(tmp_path: Path) -> None:
    door = Door(tmp_path)
    for _ in range(5):
        connect(door, Socket())
        door.later(1)
    with pytest.raises(Refused, match=USED):
        connect(door, Socket())


def test_its_own_socket_may_send_it_again(tmp_path: Path) -> None:
    door = Door(tmp_path)
    socket = Socket()
    connect(door, socket)
    door.later(100)
    connect(door, socket)


SIGNATURE = ALICE.sign({"timestamp": NOW, "to": HOST.address})

SPELLINGS = {
    "as it was": f'"{SIGNATURE}"',
    "in capitals": f'"{SIGNATURE.upper()}"',
    "with a mark": f'"0x{SIGNATURE}"',
    "with an escape": f'"\\u003{SIGNATURE[0]}{SIGNATURE[1:]}"' if SIGNATURE[0].isdigit() else f'"0\\u0078{SIGNATURE}"',
}


@pytest.mark.parametrize("signature", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_another_spelling_is_the_same(tmp_path: Path, signature: str) -> None:
    door = Door(tmp_path)
    connect(door, Socket())
    door.later(5)
    with pytest.raises(Refused, match=USED):
        connect(door, Socket(), Signed(FRAME.payload, FRAME.sender, msgspec.Raw(signature.encode())))
    with pytest.raises(Refused, match=USED):
        door.trust.check_replay(caller(ALICE), json.loads(signature), Socket())


def test_what_is_no_signature_does_not_pass(tmp_path: Path) -> None:
    for signature in ("", "zz", raw(None), raw([SIGNATURE]), msgspec.Raw()):
        with pytest.raises(Refused, match="invalid signature"):
            Door(tmp_path).trust.check_replay(caller(ALICE), signature, Socket())


def test_strict_lets_none_pass(tmp_path: Path) -> None:
    door = Door(tmp_path, replay="strict")
    socket = Socket()
    connect(door, socket)
    connect(door, socket)
    with pytest.raises(Refused, match=USED):
        connect(door, Socket())


def test_off_lets_all_pass(tmp_path: Path) -> None:
    door = Door(tmp_path, replay="off")
    for _ in range(3):
        connect(door, Socket())
        door.later(60)


def test_the_next_second_is_another_signature(tmp_path: Path) -> None:
    door = Door(tmp_path, replay="strict")
    for second in range(5):
        connect(door, Socket(), signed(ALICE, timestamp=NOW + second))


def test_nobody_replays_nothing(tmp_path: Path) -> None:
    door = Door(tmp_path, replay="strict")
    for _ in range(3):
        door.trust.check_replay(caller(None), "", Socket())


def test_one_dated_ahead_is_remembered_for_as_long_as_it_is_valid(tmp_path: Path) -> None:
    door = Door(tmp_path)
    ahead = signed(ALICE, timestamp=NOW + 300)
    connect(door, Socket(), ahead)
    door.later(600)
    with pytest.raises(Refused, match=USED):
        connect(door, Socket(), ahead)
    door.later(1)
    with pytest.raises(Refused, match="expired"):
        connect(door, Socket(), ahead)


def test_they_are_forgotten_when_they_are_valid_no_more_and_never_too_many(tmp_path: Path) -> None:
    door = Door(tmp_path, kept_signatures=100)
    kept = door.trust._replays._uses
    for second in range(300):
        connect(door, Socket(), signed(ALICE, timestamp=NOW + second - 150))
    assert len(kept) == 100
    door.later(601)
    door.trust.check_replay(caller(ALICE), "1" * 128, Socket())
    assert len(kept) == 1


def test_a_socket_is_not_kept(tmp_path: Path) -> None:
    door = Door(tmp_path)
    socket = Socket()
    gone = weakref.ref(socket)
    connect(door, socket)
    del socket
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("seconds", [0, 1, 100])
def test_what_signed_something_else_signs_no_connect(tmp_path: Path, seconds: float) -> None:
    door, socket = Door(tmp_path), Socket()
    kinds = {"INPUT": ALICE, "ASK_USER_RESPONSE": BOB}
    for kind, who in kinds.items():
        frame = signed(who, to=HOST.address)
        for _ in range(2):  # that is not refused when it comes again
            door.trust.note_use(door.verify(frame), frame.signature, socket, kind)
        door.later(seconds)
        for other in (socket, Socket()):
            with pytest.raises(Refused, match=USED):
                connect(door, other, frame)


@pytest.mark.parametrize(
    "payload", [{"type": "INPUT"}, {"type": None}, {"method": "GET", "path": "/sessions"}], ids=range(3)
)
def test_what_says_that_it_is_something_else_is_refused_the_first_time(
    tmp_path: Path, payload: dict[str, Json]
) -> None:
    door = Door(tmp_path)
    frame = signed(ALICE, timestamp=NOW, **payload)
    with pytest.raises(Refused, match=r"^unauthorized: signed for another action$"):
        door.trust.verify(frame, loopback=True, token=False, kind="CONNECT")
    assert door.verify(frame).identity == ALICE.address  # over HTTP that is checked with the request
