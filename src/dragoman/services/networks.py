"""Whose address an address is, for limits that hold per caller."""

from __future__ import annotations

import ipaddress


def network_of(peer: str) -> str:
    """Whose address this is: with IPv6 whoever has one has all of its first 64 bits. What is none stands for itself."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), 64), strict=False))
