"""Settings of the ``[trust]`` section: who is let in, and what they may do."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

Approver = Literal["loopback", "token", "owner", "admin", "whitelist", "contact", "stranger"]
"""A kind of caller: on this machine; with the server's token; the host's own key; listed as such; nobody known."""

LEVEL_NAMES = ("open", "careful", "strict")
"""The policies that come with the server."""


class TrustSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is let in, and what they may do. Times are seconds."""

    policy: str = ""
    """``open``, ``careful`` or ``strict``, a policy's file, or its text (which begins with ``---``); empty means open
    where the server listens on loopback only, and careful elsewhere."""

    folder: str = ""
    """Where the lists lie; empty means ``trust`` in the configuration's folder (``~/.config/dragoman``)."""

    key_file: str = ""
    """The host's own key; empty means ``identity/host.key`` in the configuration's folder."""

    whitelist: tuple[str, ...] = ()
    """Addresses that are let in whatever the policy and the lists say."""

    blacklist: tuple[str, ...] = ()
    """Addresses that are not, whatever else holds."""

    require_signature: bool = False
    """Refuse unsigned callers under every policy, as ConnectOnion does."""

    replay: Literal["window", "strict", "off"] = "window"
    """What becomes of a CONNECT that another socket has sent before: ``window`` lets it pass for ``replay_seconds``
    (clients that reconnect within a second sign the same bytes), ``strict`` never does, ``off`` always does."""

    replay_seconds: float = 5.0
    """How long after its first use the same CONNECT passes."""

    kept_signatures: int = 50_000
    """Signatures that are remembered against replays; beyond, the oldest are forgotten early."""

    clock_skew: float = 300.0
    """How far a signature's time may be from ours, in both directions."""

    approvers: tuple[Approver, ...] = ("loopback", "owner", "admin", "whitelist")
    """Who may approve what an agent asks, and loosen its mode: ``loopback``, ``token`` (callers with the server's),
    ``owner`` (the host's own key), ``admin``, ``whitelist``, ``contact``, ``stranger``."""

    code_attempts: int = 5
    """Invite codes and payments that one identity may try in vain within ``code_seconds``."""

    peer_code_attempts: int = 20
    """The same for one network address; with IPv6 for one network of 64 bits."""

    code_seconds: float = 60.0
    """After so long an attempt is forgotten."""

    payment_seconds: float = 10.0
    """Wait for whoever verifies a payment; then it counts as not made."""

    payload_bytes: int = 1024 * 1024
    """Bytes of what a signature covers."""

    list_bytes: int = 4 * 1024 * 1024
    """Bytes of one list; a larger one cannot be used, and nobody is let in that it might name."""

    policy_bytes: int = 256 * 1024
    """Bytes of a policy's file."""

    def lists_folder(self, config: Path) -> Path:
        """Where the lists lie; ``config`` is the configuration's folder."""
        return Path(self.folder).expanduser().absolute() if self.folder else config / "trust"

    def host_key(self, config: Path) -> Path:
        """The file of the host's own key."""
        return Path(self.key_file).expanduser().absolute() if self.key_file else config / "identity" / "host.key"

    def places(self, config: Path) -> tuple[Path, ...]:
        """What no tool of an agent may touch, whether or not it is there: lists, key, and a policy with its codes."""
        policy = self.policy.strip()
        own = () if policy.lower() in ("", *LEVEL_NAMES) or policy.startswith("---") else (policy,)
        return self.lists_folder(config), self.host_key(config), *(Path(file).expanduser().absolute() for file in own)
