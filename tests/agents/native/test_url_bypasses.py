# ruff: noqa: RUF001 - look-alikes are what is tested
"""Known ways around URL guards, by family: each is refused as a URL, as a redirect, and before any name is asked for.

What only the name server's answer gives away (`127.0.0.1.nip.io`, rebinding) is in test_url_guard and web/test_fetch.
"""

import pytest

from dragoman.agents.native.url_guard import UrlBlocked, UrlInvalid, WebUrl

INNER = {
    "octal, hexadecimal and mixed IPv4": [
        *("0177.0.0.0x1", "0x7f.1", "0x7f.0x0.0x0.0x1", "0X7F000001", "00000177.0.0.1", "0300.0250.1", "0x7F.0.0.01"),
        *("0xc0a80101", "030052000401", "0x0a000001", "012.0.0.1"),
    ],
    "IPv4 as one number, or beyond it": ["3232235777", "167772161", "99999999999", "0x100000000", "0000002130706433"],
    "a last label that may be a number": ["127.0.0.1.0x", "example.0x7f", "example.1", "a.b.10", "1.2.3.4.5.6"],
    "this network": ["0.1.2.3", "0.0.0.0.", "00", "0x0", "0.0"],
    "private, link-local, shared and reserved IPv4": [
        *("172.17.0.1", "172.31.0.1", "192.168.0.1.", "169.254.170.2", "169.254.170.23", "169.254.0.1"),
        *("100.127.255.254", "100.64.0.0", "192.0.0.1", "192.0.0.170", "198.19.255.255", "239.255.255.250"),
    ],
    "IPv4 mapped into IPv6": [
        *("[::ffff:0:0]", "[::ffff:0a00:0001]", "[0000:0000:0000:0000:0000:ffff:7f00:0001]", "[::FFFF:127.0.0.1]"),
        *("[::ffff:169.254.169.254]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]"),
    ],
    "IPv4 compatible and translated": ["[::a9fe:a9fe]", "[::0.0.0.0]", "[::10.0.0.1]", "[::ffff:0:a00:1]"],
    "6to4, NAT64 and Teredo": [
        *("[2002:a9fe:a9fe::1]", "[2002:c0a8:101::]", "[64:ff9b::169.254.169.254]", "[64:ff9b::10.0.0.1]"),
        *("[64:ff9b:1:fffe::7f00:1]", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "[2001:0000::]"),
    ],
    "IPv6 of the inside": [
        *(
            "[0:0:0:0:0:0:0:0]",
            "[0::0]",
            "[::0001]",
            "[fd00::1]",
            "[fd20:ce::254]",
            "[febf::1]",
            "[fdff::]",
            "[feff::1]",
        ),
        *("[ff05::1:3]", "[fe80::a9fe:a9fe]"),
    ],
    "dots of other scripts": ["127。0.0.1", "127.0.0.1．", "localhost。", "foo。localhost", "a．internal", "127｡0｡0｡1"],
    "full-width and other digits": [
        *("１０.０.０.１", "0ｘ7f.1", "①.1", "१२७.0.0.1", "¹²⁷.0.0.1", "𝟏𝟐𝟕.0.0.1", "𝟙𝟚𝟟.𝟘.𝟘.𝟙"),
    ],
    "letters that become others": [
        "ｌｏｃａｌｈｏｓｔ",
        "ℓocalhost",
        "lоcalhost",
        "ⓜetadata",
        "LOCALHOſT",
        "metadata.googLe.ⅰnternal",
    ],
    "letters that vanish": [
        "loc\u00adalhost",
        "local\u200bhost",
        "127.0.0.1\u00ad",
        "local\u2060host",
        "\ufefflocalhost",
    ],
    "the machine's own names": [
        *("LocalHost", "localhost.localdomain.", "foo.bar.localhost.", "localhost6", "ip6-loopback", "broadcasthost"),
        *("localhost:8080", "LOCALHOST.:80"),
    ],
    "metadata and container names": [
        *("instance-data", "instance-data.ec2.internal", "metadata.google.internal.", "METADATA.GOOGLE.INTERNAL"),
        *("metadata.azure.com", "metadata.azure.internal", "metadata.tencentyun.com.", "rancher-metadata"),
        *("gateway.docker.internal", "host.containers.internal", "kubernetes", "kubernetes.default.svc."),
    ],
    "a port beside it": ["127.0.0.1:080", "127.0.0.1:00080", "127.0.0.1:", "[::1]:", "[::1]:443", "0x7f000001:8080"],
    "what belongs to no host": [
        "127.0.0.1#@example.com",
        "127.0.0.1?@example.com",
        "127.0.0.1/@example.com",
        "http://a.com",
    ],
}

UNREADABLE = {
    "zones": ["[::1%25lo]", "[::1%lo]", "[fe80::1%eth0]", "[fe80::1%251]", "[2606:2800::1%25eth0]"],
    "IPv4 in brackets, or odd inside IPv6": ["[::ffff:127.1]", "[::ffff:0177.0.0.1]", "[v1.x]", "[1::2::3]", "[]"],
    "percent-encoding": [
        *("127.0.0.1%00.example.com", "127.0.0.1%0d%0a", "127.0.0.1%2523", "%6c%6f%63alhost", "127%2e0%2e0%2e1"),
        *("%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1", "example.com%40127.0.0.1", "example.com:%38%30"),
    ],
    "dots too many": ["127.0.0.1..", "127..0.0.1", ".127.0.0.1", ".localhost", "localhost..", "."],
    "marks in a name": [
        *("127.0.0.1,example.com", "example.com,127.0.0.1", "127.0.0.1;example.com", "127.0.0.1^.example.com"),
        *("127.0.0.1|x", "127.0.0.1`x", "127.0.0.1!x", "$(x).example.com", "a'b.com", '"a".com', "*.example.com"),
    ],
    "digits and dots that no standard maps": ["١٢٧.٠.٠.١", "127․0․0․1", "localhost․", "⒈example.com"],
    "marks of other scripts": [
        *("example.com＠127.0.0.1", "example.com：80", "example.com⁄x", "example.com／x", "a℀b.com", "a﹖b.com"),
    ],
    "backslashes": [
        *("127.0.0.1:80\\@example.com", "example.com\\.127.0.0.1", "\\127.0.0.1", "example.com\\", "example.com/..\\x"),
    ],
    "blanks and control characters": [
        *("127.0.0.1\t", "127.\n0.0.1", "local\rhost", "127.0.0.1\x0b", "127.0.0.1\x00.example.com", "example.com: 80"),
        *("example.com/\u2028x", "exam\u00a0ple.com", "example.com/\x7f"),
    ],
    "ports": ["example.com:+80", "example.com:80a", "example.com:65536", "example.com:0x50", "a.com:８０"],
    "two schemes": ["http:127.0.0.1", "https:example.com"],
}

CREDENTIALS = [
    *("example.com@127.0.0.1", "127.0.0.1@example.com", "example.com:80@127.0.0.1", "127.0.0.1:80@example.com"),
    *("example.com&@127.0.0.1#@evil.com", "1.1.1.1&@2.2.2.2", "@example.com", ":@example.com", "a:b@[::1]"),
    *("example.com＃@127.0.0.1", "example.com%2f@127.0.0.1", "@@example.com", "example.com;@127.0.0.1"),
]

SCHEMES = [
    *("url:http://127.0.0.1", "URL:http://a.com", "jar:http://a.com!/", "view-source:http://a.com", "http+unix://x"),
    *("ws://a.com/", "dict://a.com:11211/stat", "ldap://a.com", "sftp://a.com", "tftp://a.com", "netdoc:///etc/passwd"),
    *(
        "blob:http://a.com/x",
        "about:blank",
        "FILE:///etc/passwd",
        "fIlE:/etc/passwd",
        "phar://x",
        "s3://x",
        "javascript:1",
    ),
]

NO_HOST = [
    *("http:/127.0.0.1/", "http:///127.0.0.1/", "http:////127.0.0.1/", "http:\\\\127.0.0.1/", "http:/\\127.0.0.1/"),
    *("///127.0.0.1", "http:／／127.0.0.1", "http：//127.0.0.1", "hıttp://a.com", "httpſ://a.com", "1http://a.com"),
]


def spread(families: dict[str, list[str]]) -> list[object]:
    return [pytest.param(each, id=f"{name}: {each!a}") for name, members in families.items() for each in members]


def refusal(url: str) -> str:
    """Why this URL is refused; at the end of a redirect it is refused too."""
    with pytest.raises((UrlBlocked, UrlInvalid)) as refused:
        WebUrl.parse(url)
    with pytest.raises((UrlBlocked, UrlInvalid)):
        WebUrl.parse("https://example.com/a").redirected(url)
    return str(refused.value)


@pytest.mark.parametrize("host", spread(INNER))
def test_a_disguised_inner_host_is_blocked(host: str) -> None:
    for scheme in ("http", "HTTPS"):
        assert refusal(f"{scheme}://{host}/").startswith("Blocked private/internal host: ")


@pytest.mark.parametrize("host", spread(UNREADABLE))
def test_a_host_that_programs_read_differently_is_refused(host: str) -> None:
    assert refusal(f"http://{host}/").startswith("invalid URL: ")


@pytest.mark.parametrize("rest", CREDENTIALS)
def test_credentials_are_blocked_wherever_they_seem_to_end(rest: str) -> None:
    assert refusal(f"http://{rest}/") == "Blocked URL credentials are not allowed"


@pytest.mark.parametrize("url", SCHEMES)
def test_only_the_web_has_schemes_to_fetch(url: str) -> None:
    assert refusal(url).startswith("Blocked URL protocol: ")


@pytest.mark.parametrize("url", NO_HOST)
def test_slashes_make_no_host(url: str) -> None:
    with pytest.raises(UrlInvalid, match="invalid URL"):
        WebUrl.parse(url)


@pytest.mark.parametrize("host", spread(INNER))
def test_a_redirect_without_a_scheme_leads_no_further(host: str) -> None:
    with pytest.raises((UrlBlocked, UrlInvalid)):
        WebUrl.parse("https://example.com/a").redirected(f"//{host}/")


@pytest.mark.parametrize(
    "location",
    ["/a\tb", "//exam\nple.com/", "htt\rp://example.com/", "/a b", "\\\\example.com", "/\\example.com", "x\0"],
)
def test_a_redirect_is_not_mended_on_its_way(location: str) -> None:
    """Joining it with where it came from would drop some of these characters, as some programs do and others do not."""
    with pytest.raises(UrlInvalid, match="blank, a control character or a backslash"):
        WebUrl.parse("https://example.com/a").redirected(location)
