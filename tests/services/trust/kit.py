"""What tests of trust need: keys, signed frames, and a server's trust with a clock that stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from dragoman.hub.events import Json
from dragoman.services.identity import Identity
from dragoman.services.trust import Caller, PaymentVerifier, Signed, Trust, TrustSettings
from tests.hub.rig import FakeClock

HOST, ALICE, BOB, CAROL, EVE = (Identity.from_seed(bytes([number] * 32)) for number in range(1, 6))

NOW = 1_700_000_000
"""Seconds since 1970 at which the clock stands."""

CODES = """---
allow: [whitelisted, contact]
onboard:
  invite_code: [CODE1, CODE2]
default: ask
---
"""

PRICED = CODES.replace("default: ask", "  payment: 10\ndefault: ask")


class Ledger:
    """Knows who has paid what."""

    def __init__(self, **paid: float) -> None:
        self.paid_by: dict[str, float] = {}
        self.asked: list[tuple[str, float]] = []

    async def paid(self, identity: str, amount: float) -> bool:
        self.asked.append((identity, amount))
        return self.paid_by.get(identity, 0) >= amount


def raw(value: Json) -> msgspec.Raw:
    """A value as JSON text."""
    return msgspec.Raw(json.dumps(value).encode())


def signed(identity: Identity, payload: Mapping[str, Json] | None = None, **more: Json) -> Signed:
    """A frame's fields, signed; the payload has the time, if it says none itself."""
    whole = {"timestamp": NOW, **(payload or {}), **more}
    return Signed(raw(whole), raw(identity.address), raw(identity.sign(whole)))


def fields(sent: Mapping[str, Json]) -> Signed:
    """Of a recorded frame."""
    given = {name: raw(sent[key]) for name, key in (("payload", "payload"), ("sender", "from")) if key in sent}
    return Signed(**given, **({"signature": raw(sent["signature"])} if "signature" in sent else {}))


class Door:
    """A server's trust, with its folder."""

    def __init__(
        self,
        folder: Path,
        policy: str = "",
        *,
        listens_here: bool = True,
        has_token: bool = False,
        ledger: PaymentVerifier | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: Json,
    ) -> None:
        self.folder = folder
        self.clock = FakeClock(NOW * 1000)
        self.trust = Trust(
            TrustSettings(policy=policy, **settings),
            folder=folder,
            host=HOST,
            loopback=listens_here,
            clock=self.clock,
            payments=ledger,
            has_token=has_token,
            environment=environment or {},
        )

    def write(self, name: str, *lines: str) -> None:
        """A list, as a person leaves it."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))

    def read(self, name: str) -> list[str]:
        return (self.folder / f"{name}.txt").read_text().splitlines()

    def later(self, seconds: float) -> None:
        self.clock.time += round(seconds * 1000)

    def verify(self, fields: Signed, *, loopback: bool = False, token: bool = False) -> Caller:
        return self.trust.verify(fields, loopback=loopback, token=token)


def caller(identity: Identity | None = None, *, loopback: bool = False, token: bool = False) -> Caller:
    return Caller(None if identity is None else identity.address, loopback=loopback, token=token)
