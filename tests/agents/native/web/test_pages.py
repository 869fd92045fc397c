# ruff: noqa: RUF001 - dashes are what is decoded
"""What becomes of a page: Markdown of its article, its text when it is hostile, and letters in any charset."""

import asyncio
import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.native.url_guard import WebUrl
from dragoman.agents.native.web.charset import decode
from dragoman.agents.native.web.content_type import ContentType
from dragoman.agents.native.web.fetch import Fetched
from dragoman.agents.native.web.page import Page
from dragoman.agents.native.web.page import page as page_of
from dragoman.agents.native.web.plain import strip_tags

from .rig import Site, fetch, page

URL = WebUrl.parse("http://site.example/docs/page")
HTML = ContentType("text/html", "utf-8")
PARAGRAPH = "<p>" + "A sentence of the article, with snake_case and *stars* in it, goes on. " * 5 + "</p>\n"

ARTICLE = f"""<!DOCTYPE html><html><head><title> The
 Title &amp; more </title><style>p {{}}</style><script>var hidden = 1;</script></head><body>
<nav><a href="/">Home</a> <a href="/login">Log in</a></nav>
<article><h1>Heading</h1>{PARAGRAPH * 3}
<p>See <a href="../other?x=1" title="to the other">the other</a>, <a href="javascript:steal()">this</a> and
<img src="data:image/png;base64,AAAA" alt="a chart"> and <img src="/i.png" alt="photo">.</p>
<pre>for x in y:
    print(x)
</pre><ul><li>one</li><li>two</li></ul></article><noscript>no script</noscript><!-- secret comment -->
<div style="display:none">unseen</div></body></html>"""


async def read(markup: str, seconds: float = 10.0, limit: int = 100_000) -> Page:
    return await page_of(Fetched(URL, HTML, markup.encode()), limit=limit, seconds=seconds)


async def test_an_article_comes_as_markdown_with_its_title() -> None:
    async with Site({"/docs/page": page(ARTICLE)}) as site:
        told = await fetch(site, str(URL))
    assert told.startswith("Title: The Title & more\nURL: http://site.example/docs/page\n\n")
    assert "# Heading\n\nA sentence of the article, with snake_case and *stars* in it" in told
    assert (
        "See [the other](http://site.example/other?x=1), this and\na chart and ![photo](http://site.example/i.png)."
        in told
    )
    assert "```\nfor x in y:\n    print(x)\n```" in told
    assert "- one\n- two" in told
    for unseen in ("Log in", "hidden", "secret", "no script", "unseen", "javascript", "base64"):
        assert unseen not in told


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<h1>Hi</h1><p>short <b>bold</b></p><script>x</script>", "# Hi\n\nshort **bold**"),
        ("just words", "just words"),
        (
            "<ul><li><a href=/a>a</a><li><a href=//b.example>b</a></ul>",
            "- [a](http://site.example/a)\n- [b](http://b.example)",
        ),
        ("<base href='http://c.example/d/'><p><a href=e>e</a>", "[e](http://c.example/d/e)"),
        ("<a href='http://['>broken</a>", "broken"),
        ("<table><tr><th>a</th></tr><tr><td>1</td></tr></table>", "| a |\n| --- |\n| 1 |"),
        ("<p>1 &lt; 2 &amp;&amp; &#x41; &nope;</p>", "1 < 2 && A &nope;"),
        ("<title>only</title>", ""),
        ("", ""),
        (" \n ", ""),
        ("\0<p>a\0b\x1b[31m</p>", "ab[31m"),
        ("<p>a&#27;[31m&#x7;b&#127;</p>", "a[31mb"),
    ],
)
async def test_a_page_without_an_article_is_shown_whole(markup: str, text: str) -> None:
    read_page = await read(markup)
    assert (read_page.text.strip(), read_page.plain) == (text, False)


async def test_headings_that_link_to_themselves_stay() -> None:
    first = '<h1 id=a><a class="header" href="#a">The handbook</a></h1>'
    second = '<h2 id=b>Part<a class="headerlink" href="#b">¶</a></h2>'
    read_page = await read(f"<main>{first}{PARAGRAPH * 3}{second}{PARAGRAPH * 3}</main>")
    assert read_page.text.startswith("# The handbook\n\nA sentence")
    assert "\n\n## Part\n\n" in read_page.text


async def test_what_readability_would_drop_is_kept_when_it_is_most_of_the_page() -> None:
    links = "".join(f"<li><a href=/{n}>Entry number {n} of the index</a></li>" for n in range(200))
    read_page = await read(f"<div><p>{'Welcome, friend. ' * 20}</p></div><ul>{links}</ul>")
    assert "[Entry number 199 of the index](http://site.example/199)" in read_page.text


async def test_a_page_is_cut_to_the_wanted_length_and_its_title_too() -> None:
    read_page = await read(f"<title>{'t' * 999}</title>{PARAGRAPH * 30}", limit=1000)
    assert (len(read_page.title), len(read_page.text)) == (300, 1000)
    assert read_page.length > 8000


HOSTILE = {
    "deep blocks": "<div>" * 100_000 + "the text",
    "deep phrases": "<b>" * 100_000 + "the text",
    "deep tables": "<table><tr><td>" * 5000 + "the text",
    "many attributes": "<p " + " ".join(f"a{n}=1" for n in range(200_000)) + ">the text",
    "a huge attribute": f"<p title='{'x' * 4_000_000}'>the text",
    "blanks": "<p>" + " " * 4_000_000 + "the text",
    "empty elements": "<div></div>" * 150_000 + "the text",
    "unclosed comments": "the text" + "<!--" * 500_000,
    "unclosed tags": "the text " + "<a " * 500_000,
    "entities": "the text" + "&#0;" * 500_000,
    "a broken doctype": "<!DOCTYPE html [<!ENTITY a 'b'>]><p>the text",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_page_gives_its_text_in_time(name: str) -> None:
    async with asyncio.timeout(8):
        read_page = await read(HOSTILE[name], seconds=1.0)
    assert "the text" in read_page.text


async def test_the_model_is_told_when_a_page_is_plain_text() -> None:
    async with Site({"/": page("<title>T</title>" + "<i>" * 3000 + "deep")}) as site:
        told = await fetch(site)
    assert told == ("Title: T\nURL: http://site.example/\n\ndeep\n\n[plain text: this page could not be made readable]")


WORD = "naïve – ёж 猫"


@pytest.mark.parametrize(
    ("body", "header", "text"),
    [
        (WORD.encode(), "text/plain; charset=UTF-8", WORD),
        (WORD.encode(), 'text/plain; charset="utf8"; x=y', WORD),
        (WORD.encode(), "text/plain", WORD),
        (WORD.encode() + "猫".encode()[:2], "text/plain", WORD),  # cut inside a character
        (codecs.BOM_UTF8 + WORD.encode(), "text/plain; charset=latin1", WORD),
        (codecs.BOM_UTF16_LE + WORD.encode("utf-16-le"), "text/html", WORD),
        (codecs.BOM_UTF16_BE + WORD.encode("utf-16-be"), "text/html; charset=utf-8", WORD),
        ("naïve – €".encode("cp1252"), "text/plain; charset=ISO-8859-1", "naïve – €"),
        ("naïve – €".encode("cp1252"), "text/plain", "naïve – €"),
        ("ёж".encode("koi8-r"), "text/plain; charset=koi8-r", "ёж"),
        ("猫です".encode("cp932"), "text/plain; charset=Shift_JIS", "猫です"),
        ("猫です".encode("euc-jp"), "text/plain; charset=EUC-JP", "猫です"),
        ("猫です".encode("iso2022-jp"), "text/html; charset=iso-2022-jp", "猫です"),
        ("汉字".encode("gbk"), "text/plain; charset=gb2312", "汉字"),
        ("고양이".encode("cp949"), "text/plain; charset=euc-kr", "고양이"),
        ("<meta charset=windows-1251>ёж".encode("cp1251"), "text/html", "<meta charset=windows-1251>ёж"),
        (
            "<META http-equiv=x content='text/html; charset=koi8-r'>ёж".encode("koi8-r"),
            "application/xhtml+xml; charset=nonsense",
            "<META http-equiv=x content='text/html; charset=koi8-r'>ёж",
        ),
        ("<meta charset=utf-16>ёж".encode(), "text/html", "<meta charset=utf-16>ёж"),
        ("<meta charset=koi8-r>ёж".encode(), "text/plain", "<meta charset=koi8-r>ёж"),
        (
            "<?xml version='1.0' encoding='koi8-r'?>ё".encode("koi8-r"),
            "text/xml",
            "<?xml version='1.0' encoding='koi8-r'?>ё",
        ),
        (b"uryyb", "text/plain; charset=rot13", "uryyb"),
        (b"\\x41", "text/plain; charset=unicode_escape", "\\x41"),
        (b"+AGE-", "text/plain; charset=utf-7", "+AGE-"),
        (b"a\xffb", "text/plain; charset=utf-8", "a\ufffdb"),
        (b"a\r\nb\rc\0\x1b[2Jd\xc2\x9be", "text/plain; charset=utf-8", "a\nb\nc[2Jde"),
        (b"", "text/html", ""),
    ],
)
def test_bytes_become_text_by_mark_header_own_word_or_guess(body: bytes, header: str, text: str) -> None:
    assert decode(body, ContentType.parse(header)) == text


@given(st.binary(), st.text(max_size=40))
def test_any_bytes_and_any_header_give_a_text(body: bytes, header: str) -> None:
    for kind in (header, f"text/html; charset={header}", "text/xml"):
        text = decode(body, ContentType.parse(kind))
        text.encode("utf-8", "surrogatepass")
        assert not set(text) & set("\0\r\x1b")


MARKUP = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *("<p>", "</p>", "<script>", "</script>", "<!--", "-->", "<title>", "</title>", "<td>", "<b x='y'>"),
                *("<", ">", "&lt;", "&", "<!x>", "<?y?>", "<a ", " ", "\n", "<svg/>"),
            ]
        ),
        st.text(max_size=5),
    )
).map("".join)


@given(MARKUP)
def test_stripping_any_markup_gives_lines_without_tags(markup: str) -> None:
    title, text = strip_tags(markup)
    assert "\n" not in title
    assert "\n\n\n" not in text
    assert text == text.strip("\n")
    assert "<p>" not in strip_tags(markup.replace("&", ""))[1]


@given(st.text(alphabet=st.characters(exclude_characters="<&", exclude_categories=["Cs"])))
def test_stripping_a_text_without_markup_leaves_its_words(text: str) -> None:
    assert strip_tags(text)[1].split() == text.split()
