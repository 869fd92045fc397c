"""Addresses, signatures, and who signed what."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey

from dragoman.services.identity import Identity, address_of, signature_of, verifies

SEED = bytes([2] * 32)
ALICE = Identity.from_seed(SEED)
HEX = ALICE.address[2:]

PAYLOAD = {
    "to": "0xabc",
    "timestamp": 1_700_000_000,
    "name": "\u00e9",
    "f": 1.0,
    "nest": {"b": 1, "a": [1, {"d": 1, "c": 2}]},
}
RAW = json.dumps(PAYLOAD).encode()

ADDRESSES = {
    "as it is written": (f"0x{HEX}", f"0x{HEX}"),
    "without its mark": (HEX, f"0x{HEX}"),
    "in capitals": (f"0X{HEX.upper()}", f"0x{HEX}"),
    "too short": ("0x1234", None),
    "too long": (f"0x{HEX}00", None),
    "with spaces, which bytes.fromhex skips": (f"0x{HEX[:32]} {HEX[32:]}", None),
    "with a line break behind it": (f"0x{HEX}\n", None),
    "digits of another script": ("0x" + "\u0661" * 64, None),
    "nothing": ("", None),
}


@pytest.mark.parametrize(("given_", "address"), ADDRESSES.values(), ids=ADDRESSES.keys())
def test_addresses(given_: str, address: str | None) -> None:
    assert address_of(given_) == address


def test_signatures_have_a_mark_or_none() -> None:
    signature = ALICE.sign(PAYLOAD)
    assert signature_of(signature) == signature_of(f"0x{signature.upper()}") == bytes.fromhex(signature)
    assert [signature_of(wrong) for wrong in ("", "zz", signature[:-2], f"{signature}00", f" {signature}")] == [
        None
    ] * 5


def test_an_address_is_the_public_key() -> None:
    assert ALICE.address == "0x8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394"


def test_signed_is_the_escaped_form() -> None:
    escaped = json.dumps(PAYLOAD, sort_keys=True, separators=(",", ":")).encode()
    assert ALICE.sign(PAYLOAD) == SigningKey(SEED).sign(escaped).signature.hex()


def by(form: str) -> bytes:
    return SigningKey(SEED).sign(form.encode()).signature


ACCEPTED = {
    "escaped": json.dumps(PAYLOAD, sort_keys=True, separators=(",", ":")),
    "unescaped": json.dumps(PAYLOAD, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
    "only the outermost sorted": json.dumps(
        {key: PAYLOAD[key] for key in sorted(PAYLOAD)}, separators=(",", ":"), ensure_ascii=False
    ),
}

NOT_ACCEPTED = {
    "as it stood in the frame": RAW.decode(),
    "with spaces": json.dumps(PAYLOAD, sort_keys=True),
    "without a field": json.dumps({"timestamp": 1_700_000_000}, separators=(",", ":")),
    "another number": ACCEPTED["escaped"].replace("1.0", "1"),
}


@pytest.mark.parametrize("form", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted_forms(form: str) -> None:
    assert verifies(ALICE.address, by(form), RAW)


@pytest.mark.parametrize("form", NOT_ACCEPTED.values(), ids=NOT_ACCEPTED.keys())
def test_other_forms_are_not(form: str) -> None:
    assert not verifies(ALICE.address, by(form), RAW)


def test_keys_that_are_none_verify_nothing() -> None:
    # Points of small order "verify" signatures of anything in a library that does not look.
    weak = ["0x" + "00" * 32, "0x01" + "00" * 31, "0x" + "ff" * 32, "0xec" + "ff" * 30 + "7f"]
    for address in weak:
        for signature in (bytes(64), bytes([1]) + bytes(63), bytes.fromhex(address[2:]) + bytes(32)):
            assert not verifies(address, signature, RAW)


scalars = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(allow_nan=False, allow_infinity=False)
)
payloads = st.dictionaries(st.text(max_size=8), scalars | st.lists(scalars, max_size=3), min_size=1, max_size=5)


@settings(deadline=None)
@given(payloads, st.sampled_from([True, False]))
def test_whatever_is_signed_verifies(payload: Mapping[str, object], ascii_only: bool) -> None:
    assert verifies(
        ALICE.address,
        bytes.fromhex(ALICE.sign(payload)),
        json.dumps(payload, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace"),
    )


def test_an_identity_shows_no_secret() -> None:
    shown = [repr(ALICE), str(ALICE), f"{ALICE}", ALICE.sign({"a": 1})]
    assert not any(SEED.hex() in text or repr(SEED) in text for text in shown)
    assert repr(ALICE) == f"Identity('{ALICE.address}')"
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not copied"):
            way(ALICE)


def test_what_json_cannot_say_is_not_signed() -> None:
    with pytest.raises(ValueError, match="JSON"):
        ALICE.sign({"a": float("nan")})


def test_a_seed_has_32_bytes() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Identity.from_seed(b"short")
