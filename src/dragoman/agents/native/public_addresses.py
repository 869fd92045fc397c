"""Which IP addresses are the public internet's.

`ipaddress.is_global` is not enough: it changes with the interpreter, and it calls addresses global that carry a private
IPv4 address inside.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPAddress = IPv4Address | IPv6Address

_NO_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network; Linux takes 0.0.0.0 for loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and Alibaba's metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host, a public address that only guests reach
        "169.254.0.0/16",  # link-local, and most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments, and Oracle's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)

_IPV6 = IPv6Network("2000::/3")
"""All that is assigned for global unicast. Outside lie loopback, unique local, link- and site-local, multicast,
discard, and IPv4 mapped (`::ffff:`), compatible (`::`), translated (`::ffff:0:`) and behind NAT64 (`64:ff9b::`)."""

_NO_IPV6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3ffe::/16",  # the old 6bone
        "3fff::/20",  # documentation
    )
)

_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")
"""The middle of an interface id whose last four bytes are an IPv4 address to tunnel to (RFC 5214)."""


def is_public(address: IPAddress) -> bool:
    """Whether a fetch may connect to this address. What is not known to be public is not."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NO_IPV4)
    if address.scope_id is not None or address not in _IPV6 or address.packed[8:12] in _ISATAP:
        return False
    return not any(address in network for network in _NO_IPV6)
