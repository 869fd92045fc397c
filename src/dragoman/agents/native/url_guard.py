"""Which URLs webFetch may reach, and how it connects to them.

Three steps, each of which takes only what the one before returns, so that none can be left out:
`WebUrl.parse` (or `redirected`, for a hop) -> `UrlGuard.resolve` -> `UrlGuard.connect`.

There is one resolution per hop. All of its addresses must be public, and the connection goes to one of them by number,
with the name only in TLS and in the Host header: a second answer of the name server changes nothing. Proxies of the
environment are not used: they would resolve the name themselves.

Nothing is mended that others read differently: a URL with a backslash, a control character, a percent sign in its host
or an IPv4 address in any but its usual form is refused, whatever it might mean.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from urllib.parse import quote, urljoin

import idna

from .public_addresses import IPAddress, is_public

MAX_REDIRECTS = 5
MAX_URL = 8192
"""Characters; what browsers and servers agree to take."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
Dial = Callable[[IPAddress, int, ssl.SSLContext | None, str | None], Awaitable[Streams]]

_PORTS = {"http": 80, "https": 443}

_BAD_PORTS = frozenset(
    [
        *(1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102),
        *(103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465),
        *(512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993),
        *(995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668),
        *(6669, 6679, 6697, 10080),
    ]
)
"""Ports of other protocols, which take a crafted request for their own (Fetch standard, "bad port")."""

_INNER_NAMES = frozenset(
    [
        "metadata.goog",
        "metadata.azure.com",
        "metadata.tencentyun.com",
        "metadata.packet.net",
        "metadata.platformequinix.com",
    ]
)
_INNER_ZONES = frozenset(
    [
        *("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan"),
        *("svc", "onion", "test", "invalid", "arpa"),
    ]
)
"""Last labels that no public name has. `arpa` holds `home.arpa` and `ipv4only.arpa`; no page is there."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*)([^#]*))?", re.DOTALL)
_PORT = re.compile(r"(.*?)(?::([0-9]{0,5}))?", re.DOTALL | re.ASCII)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ud800-\udfff]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


class UrlInvalid(ValueError):
    """The text is no URL, or one that programs read differently. Says why, never repeats the URL: it may hold a key."""


class UrlBlocked(PermissionError):
    """A URL that webFetch may not reach; `str()` is the sentence the model and the client see."""

    def __str__(self) -> str:
        return str(self.args[0])


class TooManyRedirects(UrlBlocked):
    """The sixth hop."""


@dataclass(frozen=True)
class WebUrl:
    """An http or https URL in normal form whose host may be asked for. Make it with `parse` or `redirected`.

    `host` is lower-case ASCII without a trailing dot, or an address without brackets; `target` is the request target.
    """

    scheme: str
    host: str
    port: int
    target: str
    hops: int = 0

    @classmethod
    def parse(cls, text: str, *, hops: int = 0) -> WebUrl:
        """Raises UrlInvalid or UrlBlocked."""
        text = text.strip(" \t\r\n")
        if len(text) > MAX_URL:
            raise UrlInvalid(f"invalid URL: longer than {MAX_URL} characters")
        if _FORBIDDEN.search(text):
            raise UrlInvalid("invalid URL: it holds a blank, a control character or a backslash")
        parts = _URL.match(text)
        if parts is None:
            raise UrlInvalid("invalid URL: it has no scheme")
        scheme = parts[1].lower()
        if scheme not in _PORTS:
            raise UrlBlocked(f"Blocked URL protocol: {scheme}:")
        if not parts[2]:
            raise UrlInvalid("invalid URL: it has no host")
        if "@" in parts[2]:
            raise UrlBlocked("Blocked URL credentials are not allowed")
        host, port = _host_and_port(parts[2], _PORTS[scheme])
        return cls(scheme, host, port, _target(parts[3]), hops)

    def redirected(self, location: str) -> WebUrl:
        """Where a `Location` leads from here, checked like any other. Raises TooManyRedirects too."""
        if self.hops >= MAX_REDIRECTS:
            raise TooManyRedirects(f"Blocked: more than {MAX_REDIRECTS} redirects")
        location = location.strip(" \t\r\n")
        if _FORBIDDEN.search(location):  # before joining, which would drop some of them
            raise UrlInvalid("invalid URL: it holds a blank, a control character or a backslash")
        try:
            joined = urljoin(str(self), location)
        except ValueError:
            raise UrlInvalid("invalid URL: the redirect's cannot be read") from None
        return WebUrl.parse(joined, hops=self.hops + 1)

    @property
    def authority(self) -> str:
        """The Host header's value."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


@dataclass(frozen=True)
class Resolved:
    """A URL with the addresses it may be fetched from, all of them public. Made by `UrlGuard.resolve` only."""

    url: WebUrl
    addresses: tuple[IPAddress, ...]


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """The addresses of the system's resolver, its order kept."""
    # The dot at the end keeps the search list of resolv.conf out.
    found = await asyncio.get_running_loop().getaddrinfo(f"{host}.", port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def system_dial(address: IPAddress, port: int, tls: ssl.SSLContext | None, name: str | None) -> Streams:
    """A TCP connection to this very address, with TLS for `name` if `tls` is given."""
    reader, writer = await asyncio.open_connection(str(address), port, ssl=tls, server_hostname=name)
    return reader, writer


class UrlGuard:
    """Resolves and connects. `resolver` and `dial` are the network, and what tests replace.

    resolve_limit: seconds a name may take (a name server may be silent); connect_limit: seconds for TCP and TLS to one
    address. Both lie within the 15 s that webFetch gives a hop.
    """

    def __init__(
        self,
        *,
        resolver: Resolver = system_resolver,
        dial: Dial = system_dial,
        resolve_limit: float = 5.0,
        connect_limit: float = 5.0,
    ) -> None:
        self._resolver = resolver
        self._dial = dial
        self._resolve_limit = resolve_limit
        self._connect_limit = connect_limit

    async def resolve(self, url: WebUrl) -> Resolved:
        """Ask for the host's addresses, once. One that is not public spoils them all: it is a trap or an accident.

        Raises UrlBlocked, OSError (no such name) or TimeoutError.
        """
        literal = _literal(url.host)
        if literal is not None:
            return Resolved(url, _public(url, [literal]))
        async with asyncio.timeout(self._resolve_limit):
            found = await self._resolver(url.host, url.port)
        if not found:
            raise OSError(f"no address for {url.host}")
        try:
            return Resolved(url, _public(url, [ip_address(each) for each in found]))
        except ValueError:
            raise _blocked_host(url.host) from None

    async def connect(self, resolved: Resolved, tls: ssl.SSLContext | None = None) -> Streams:
        """Connect to the first of the addresses that answers; for https with `tls`, else with the system's trust.

        The system's certificates take some 20 ms to load, so callers keep a context. Raises UrlBlocked, else what the
        last address raised: OSError, ssl.SSLError or TimeoutError.
        """
        url = resolved.url
        context = (tls or ssl.create_default_context()) if url.scheme == "https" else None
        name = url.host if context else None
        last = OSError(f"no address for {url.host}")
        for address in _public(url, resolved.addresses):
            try:
                async with asyncio.timeout(self._connect_limit):
                    return await self._dial(address, url.port, context, name)
            except OSError as error:
                last = error
        raise last


def _public(url: WebUrl, addresses: Sequence[IPAddress]) -> tuple[IPAddress, ...]:
    if not all(is_public(address) for address in addresses):
        raise _blocked_host(url.host)
    return tuple(dict.fromkeys(addresses))


def _blocked_host(host: str) -> UrlBlocked:
    return UrlBlocked(f"Blocked private/internal host: {host}")


def _host_and_port(authority: str, default: int) -> tuple[str, int]:
    end = authority.rfind("]") + 1 if authority.startswith("[") else 0
    split = _PORT.fullmatch(authority[end:])
    if split is None or (end and split[1]):
        raise UrlInvalid("invalid URL: its host or port cannot be read")
    port = int(split[2]) if split[2] else default
    if not 0 < port < 65536:
        raise UrlInvalid("invalid URL: there is no such port")
    host = _ipv6(authority[1 : end - 1]) if end else _name(split[1])
    if port in _BAD_PORTS:
        raise UrlBlocked(f"Blocked URL port: {port}")
    return host, port


def _ipv6(text: str) -> str:
    address = None if "%" in text else _literal(text)  # a zone names one of our interfaces
    if not isinstance(address, IPv6Address):
        raise UrlInvalid("invalid URL: its host is no IPv6 address")
    if not is_public(address):
        raise _blocked_host(f"[{address}]")
    return str(address)


def _name(text: str) -> str:
    """The host in the one form that everybody reads alike, or an error."""
    host = (text if text.isascii() else _ascii(text)).lower().removesuffix(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise UrlInvalid("invalid URL: its host is no name")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # what ends in a number is an IPv4 address (URL standard)
        address = _literal(host)
        if address is None or not is_public(address):
            raise _blocked_host(host)
    elif len(labels) == 1 or labels[-1] in _INNER_ZONES or host in _INNER_NAMES:
        raise _blocked_host(host)
    return host


def _ascii(text: str) -> str:
    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise UrlInvalid("invalid URL: its host is no name") from None


def _literal(host: str) -> IPAddress | None:
    """The address that this host is, if it is one in its usual form: `ipaddress` takes neither 010.0.0.1 nor 10.1."""
    try:
        return IPv6Address(host) if ":" in host else IPv4Address(host)
    except AddressValueError:
        return None


def _target(rest: str | None) -> str:
    target = rest or "/"
    if target.startswith("?"):
        target = "/" + target
    return quote(target, safe="!#$%&'()*+,/:;=?@[]~-._|^`{}")
