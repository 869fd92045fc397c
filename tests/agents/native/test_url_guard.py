# ruff: noqa: RUF001 - look-alikes are what is tested
"""Which URLs webFetch may reach, at every hop, and that it connects to the address that was checked."""

import asyncio
import ssl
import time
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.agents.native.public_addresses import is_public
from dragoman.agents.native.url_guard import (
    IPAddress,
    Resolved,
    Streams,
    TooManyRedirects,
    UrlBlocked,
    UrlGuard,
    UrlInvalid,
    WebUrl,
    system_dial,
    system_resolver,
)

PUBLIC4, PUBLIC6 = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"

HOSTS = [
    *("localhost", "LOCALHOST", "localhost.", "foo.localhost", "localhost.localdomain", "ip6-localhost", "router"),
    *("printer.local", "a.internal", "metadata.google.internal", "metadata", "metadata.goog", "host.docker.internal"),
    *("kubernetes.default.svc", "a.svc.cluster.local", "nas.lan", "box.home.arpa", "wiki.corp", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ"),
    *("127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "127.0.0.1.", "2130706433", "0x7f000001", "0x7f.0.0.1"),
    *("017700000001", "0177.0.0.1", "0177.1", "127.0.0.0x1", "0", "0.0.0.0", "0x", "1.0x", "127.0.0.01", "00.0.0.0"),
    *("10.0.0.1", "10.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "192.168.257", "169.254.169.254"),
    *("0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "100.64.0.1", "100.100.100.200", "192.0.0.192"),
    *("168.63.129.16", "198.18.0.1", "192.88.99.1", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("１２７.０.０.１", "127。0。0。1", "①②⑦.⓪.⓪.①", "127.0.0.1｡", "4294967296", "256.1.1.1", "1.2.3.4.5"),
    *("[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:8.8.8.8]"),
    *("[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::a00:1]", "[2002:7f00:1::]"),
    *("[2001:0:7f00:1::]", "[fe80::1]", "[fec0::1]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]", "[2001:db8::1]"),
    *("[100::1]", "[3fff::1]", "[5f00::1]", "[2606:2800::5efe:a00:1]", "[2606:2800::200:5efe:7f00:1]"),
]

MALFORMED = [
    *("", "example.com", "//example.com", "http:", "http:/example.com", "http:example.com", "http://", "http:///x"),
    *(
        "http://exam ple.com",
        "http://example.com\\@127.0.0.1",
        "http:\\\\127.0.0.1",
        "http://127.0.0.1\t/",
        "ht\ntp://a.b",
    ),
    *("http://ex\0ample.com", "http://%31%32%37.0.0.1", "http://127.0.0.1%2f.example.com", "http://example.com%00"),
    *("http://[::1", "http://::1/", "http://[::1]x", "http://[::1].example.com", "http://[fe80::1%25eth0]/"),
    *(
        "http://[example.com]",
        "http://[127.0.0.1]",
        "http://[::1]:x",
        "http://example.com:99999",
        "http://example.com:0",
    ),
    *("http://example.com:-1", "http://example.com:8०", "http://example.com:80:80", "http://example..com"),
    *(
        "http://.example.com",
        "http://example.com..",
        "http://-a.com",
        "http://a,b.com",
        "http://a℀b.com",
        "http://a；b.com",
    ),
    *(
        "http://example.com／x＠y",
        "http://" + "a" * 64 + ".com",
        "http://" + "a." * 130 + "com",
        "http://exa\u00admple\u200b\u2028.com",
    ),
    "http://example.com/" + "a" * 9000,
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("form", ["http://{}/", "https://{}:8443/a?b#c"])
def test_an_inner_host_is_blocked_however_it_is_spelled(host: str, form: str) -> None:
    with pytest.raises((UrlBlocked, UrlInvalid)) as refused:
        WebUrl.parse(form.format(host))
    assert str(refused.value).startswith("Blocked private/internal host: ")


@pytest.mark.parametrize("text", MALFORMED)
def test_what_programs_read_differently_is_no_url(text: str) -> None:
    with pytest.raises(UrlInvalid, match="invalid URL"):
        WebUrl.parse(text)


@pytest.mark.parametrize(
    "text", ["ftp://example.com", "file:///etc/passwd", "gopher://a.com:70/_x", "data:text/html,x"]
)
@pytest.mark.parametrize("change", [str, str.upper])
def test_other_protocols_are_blocked(text: str, change: type[str]) -> None:
    with pytest.raises(UrlBlocked, match=r"Blocked URL protocol: \w+:"):
        WebUrl.parse(change(text))


@pytest.mark.parametrize("user", ["me:secret", "secret", ":secret", "", "example.com", "a@secret", "http%3A"])
def test_credentials_are_blocked_and_not_repeated(user: str) -> None:
    with pytest.raises(UrlBlocked, match="Blocked URL credentials") as blocked:
        WebUrl.parse(f"https://{user}@example.com/")
    assert "secret" not in str(blocked.value)


@pytest.mark.parametrize("port", [7, 22, 25, 6000, 6667])
def test_ports_of_other_protocols_are_blocked(port: int) -> None:
    with pytest.raises(UrlBlocked, match=f"Blocked URL port: {port}"):
        WebUrl.parse(f"http://example.com:{port}/")


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("http://example.com", "http://example.com/"),
        (" HTTPS://Example.COM.:443/A?b=c#d\n", "https://example.com/A?b=c"),
        ("http://example.com:/", "http://example.com/"),
        ("http://example.com?a", "http://example.com/?a"),
        ("http://example.com#a@b", "http://example.com/"),
        ("http://example.com/@me?a=\\u", None),
        ("http://example.com/@me", "http://example.com/@me"),
        ("http://bücher.example/ü?é", "http://xn--bcher-kva.example/%C3%BC?%C3%A9"),
        ("http://my_host.example.com:8080/", "http://my_host.example.com:8080/"),
        (f"http://{PUBLIC4}/", f"http://{PUBLIC4}/"),
        (f"https://[{PUBLIC6.upper()}]:8443/", f"https://[{PUBLIC6}]:8443/"),
    ],
)
def test_a_public_url_is_brought_to_normal_form(text: str, normal: str | None) -> None:
    if normal is None:
        with pytest.raises(UrlInvalid):
            WebUrl.parse(text)
    else:
        assert str(WebUrl.parse(text)) == normal


@pytest.mark.parametrize(
    ("location", "leads"),
    [
        ("/b", "https://example.com/b"),
        ("c?d", "https://example.com/a/c?d"),
        ("//example.org/x", "https://example.org/x"),
        ("http://example.org/", "http://example.org/"),
    ],
)
def test_a_redirect_is_followed(location: str, leads: str) -> None:
    assert str(WebUrl.parse("https://example.com/a/b").redirected(location)) == leads


@pytest.mark.parametrize(
    "location",
    [
        *(
            "http://127.0.0.1/",
            "//localhost/",
            "//169.254.169.254/latest",
            "file:///etc/passwd",
        ),
        *(
            "//a@example.com/",
            "\\\\127.0.0.1\\",
            "/\\127.0.0.1",
            "http://[::1]",
            "http://[",
        ),
        *(
            "javascript:alert(1)",
            "/a\r\nX: y",
            "//2130706433",
        ),
    ],
)
def test_a_redirect_is_checked_like_any_url(location: str) -> None:
    with pytest.raises((UrlBlocked, UrlInvalid)):
        WebUrl.parse("https://example.com/a").redirected(location)


def test_the_sixth_redirect_is_refused() -> None:
    url = WebUrl.parse("https://example.com/0")
    for hop in range(1, 6):
        url = url.redirected(f"/{hop}")
    with pytest.raises(TooManyRedirects):
        url.redirected("/6")


class Network:
    """Name servers that answer from a script, and connections that are only noted, or go to `real`."""

    def __init__(self, *answers: Sequence[str], dead: Sequence[str] = (), real: int | None = None) -> None:
        self.answers = list(answers)
        self.dead = dead
        self.real = real
        self.asked: list[tuple[str, int]] = []
        self.dialled: list[tuple[str, int, str | None]] = []
        self.contexts: list[ssl.SSLContext | None] = []
        self.guard = UrlGuard(resolver=self.resolve, dial=self.dial, resolve_limit=0.05)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        return self.answers.pop(0)

    async def dial(self, address: IPAddress, port: int, tls: ssl.SSLContext | None, name: str | None) -> Streams:
        self.dialled.append((str(address), port, name))
        self.contexts.append(tls)
        if str(address) in self.dead or self.real is None:
            raise ConnectionRefusedError(str(address))
        return await asyncio.open_connection("127.0.0.1", self.real)


@pytest.mark.parametrize(
    "answer",
    [
        *(
            ["127.0.0.1"],
            [PUBLIC4, "10.0.0.1"],
            ["::1"],
            [PUBLIC6, "::ffff:127.0.0.1"],
            ["fe80::1%eth0"],
        ),
        *(
            ["nonsense"],
            ["64:ff9b::a00:1"],
            ["2002:a00:1::1"],
            ["0.0.0.0"],
            [PUBLIC6 + "%1"],
        ),
    ],
)
async def test_a_name_with_one_inner_address_is_blocked(answer: list[str]) -> None:
    network = Network(answer)
    with pytest.raises(UrlBlocked, match=r"Blocked private/internal host: example\.com"):
        await network.guard.resolve(WebUrl.parse("http://example.com/"))
    assert not network.dialled


async def test_a_name_server_that_changes_its_mind_changes_nothing() -> None:
    network = Network([PUBLIC4], ["127.0.0.1"])
    resolved = await network.guard.resolve(WebUrl.parse("http://rebind.example/"))
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            await network.guard.connect(resolved)
    assert network.asked == [("rebind.example", 80)]
    assert network.dialled == [(PUBLIC4, 80, None)] * 2


async def test_tls_is_for_the_name_and_verified() -> None:
    network = Network([PUBLIC4])
    with pytest.raises(ConnectionRefusedError):
        await network.guard.connect(await network.guard.resolve(WebUrl.parse("https://example.com:8443/")))
    assert network.dialled == [(PUBLIC4, 8443, "example.com")]
    context = network.contexts[0]
    assert context is not None
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


async def test_the_next_address_is_tried_and_the_bytes_arrive() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"got " + await reader.readline())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        network = Network([PUBLIC6, PUBLIC4, PUBLIC6], dead=[PUBLIC6], real=server.sockets[0].getsockname()[1])
        resolved = await network.guard.resolve(WebUrl.parse("http://example.com/"))
        reader, writer = await network.guard.connect(resolved)
        writer.write(b"hello\n")
        assert await reader.read() == b"got hello\n"
        writer.close()
        await writer.wait_closed()
    assert [address for address, *_ in network.dialled] == [PUBLIC6, PUBLIC4]


async def test_an_address_is_not_asked_for_and_an_unchecked_one_not_dialled() -> None:
    network = Network()
    url = WebUrl.parse(f"http://{PUBLIC4}/")
    assert await network.guard.resolve(url) == Resolved(url, (IPv4Address(PUBLIC4),))
    with pytest.raises(UrlBlocked):
        await network.guard.connect(Resolved(url, (IPv4Address("127.0.0.1"),)))
    assert not network.asked
    assert not network.dialled


async def test_no_answer_and_a_silent_name_server_end_in_an_error() -> None:
    with pytest.raises(OSError, match="no address"):
        await Network([]).guard.resolve(WebUrl.parse("http://example.com/"))

    async def silent(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(TimeoutError):
        await UrlGuard(resolver=silent, resolve_limit=0.01).resolve(WebUrl.parse("http://example.com/"))


async def test_the_system_is_asked_for_the_whole_name_and_dials_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def getaddrinfo(host: str, port: int, **_options: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(None, None, None, "", (PUBLIC4, port)), (None, None, None, "", (PUBLIC6, port, 0, 0))]

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        assert await system_resolver("example.com", 80) == [PUBLIC4, PUBLIC6]
    assert asked == ["example.com."]  # no search list

    closing = asyncio.Event()
    async with await asyncio.start_server(lambda _r, w: (w.close(), closing.set()), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await system_dial(IPv4Address("127.0.0.1"), port, None, None)
        assert writer.get_extra_info("peername") == ("127.0.0.1", port)
        await closing.wait()
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("host", ["ü" * 8000, "ü." * 4000, "a\u0301" * 4000, "xn--" + "a" * 8000 + "ü"])
def test_a_long_name_costs_little(host: str) -> None:
    begun = time.process_time()
    with pytest.raises(UrlInvalid):
        WebUrl.parse(f"http://{host}/")
    assert time.process_time() - begun < 0.5


INNER4 = st.ip_addresses(v=4).filter(lambda a: not is_public(a))


@given(st.ip_addresses(v=4))
@example(IPv4Address("192.0.0.9"))
def test_public_is_never_more_than_what_the_standard_library_calls_global(address: IPv4Address) -> None:
    assert not is_public(address) or (address.is_global and not address.is_multicast)


@given(st.ip_addresses(v=6))
def test_public_is_never_more_than_global_for_ipv6_either(address: IPv6Address) -> None:
    assert not is_public(address) or (address.is_global and not address.is_multicast and not address.is_reserved)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_inside_an_ipv6_address_is_never_public(inner: IPv4Address) -> None:
    number = int(inner)
    for prefix, shift in [
        *(("::", 0), ("::ffff:0:0", 0), ("::ffff:0:0:0", 0), ("64:ff9b::", 0), ("64:ff9b:1::", 0)),
        *(("2002::", 80), ("2001::", 0), ("2001::", 64), ("2606:2800::5efe:0:0", 0)),
    ]:
        assert not is_public(IPv6Address(int(IPv6Address(prefix)) | number << shift))


@given(INNER4, st.data())
def test_no_spelling_of_an_inner_ipv4_address_passes(address: IPv4Address, data: st.DataObject) -> None:
    digit = st.sampled_from(["{:d}", "{:#x}", "0{:o}", "{:#X}", "00{:d}", "0x000{:x}"])
    parts = list(address.packed)
    count = data.draw(st.integers(1, 4))
    numbers = [*parts[: count - 1], int.from_bytes(parts[count - 1 :], "big")]
    host = ".".join(data.draw(digit).format(n) for n in numbers) + data.draw(st.sampled_from(["", "."]))
    host = "".join(chr(ord(c) + 0xFEE0) if data.draw(st.booleans()) and c != "." else c for c in host)
    with pytest.raises(UrlBlocked):
        WebUrl.parse(f"http://{host}/")


@given(
    st.text(max_size=30), st.sampled_from(["{}", "http://{}", "https://example.com{}", "http://{}.com/", "http://[{}]"])
)
def test_any_text_is_refused_or_becomes_a_url_that_means_itself(text: str, form: str) -> None:
    try:
        url = WebUrl.parse(form.format(text))
    except (UrlBlocked, UrlInvalid):
        return
    assert str(url).isascii()
    assert not set(str(url)) & set(" \r\n\t\\")
    assert WebUrl.parse(str(url)) == url


@given(st.text(max_size=30))
def test_any_redirect_is_refused_or_checked(location: str) -> None:
    try:
        url = WebUrl.parse("https://example.com/a").redirected(location)
    except (UrlBlocked, UrlInvalid):
        return
    assert url == WebUrl.parse(str(url), hops=1)
    if url.host.replace(".", "").isdigit() or ":" in url.host:
        assert is_public(ip_address(url.host))
