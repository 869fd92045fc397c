"""HTML to the Markdown of what a page is about. Run as a program of its own: ``python -m …readable``.

The parsers work on what strangers wrote: some pages take them minutes, or all memory, and a thread cannot be stopped. A
process can. It has limits of its own too, so that it ends even when nobody is left to end it, and no environment.

In: one line of JSON (`Wish`), then the page, UTF-8. Out: JSON (`Readable`). Any other end but status 0 is a failure.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

import msgspec

from dragoman.agents.native.web.charset import visible
from dragoman.agents.native.web.plain import one_line

MEMORY = 1536 * 1024 * 1024
"""Bytes of address space. A page of 5 MiB that is nothing but tags needs more, and is given as plain text."""
_FRAMES = 10_000
"""Python frames: each level of elements takes several, and libxml2 stops at the 256th."""
_SHORT, _SHARE = 250, 0.2
"""Characters, and share of all that is to be read: an article that is less is taken for readability's mistake."""
_FEW = 5
"""Characters that a list or table needs so as not to be dropped; readability's own 25 lose many that matter."""

_ANCHORS = frozenset(["", "#", "§", "¶", "🔗", "Anchor", "Permalink", "Link to this heading"])
"""What links of a heading to itself say."""
_UNSEEN = ("script", "style", "noscript", "template", "svg", "iframe", "object", "form", "head", "nav")


class Wish(msgspec.Struct, frozen=True):
    """Where the page was, how many characters are wanted, and how many seconds of processor time it may cost."""

    url: str
    limit: int
    seconds: float


class Readable(msgspec.Struct, frozen=True):
    """``text`` is cut to the limit; ``length`` is what there was of it."""

    title: str
    text: str
    length: int


class TooMuch(ValueError):
    """The parser left a part of the page out, the text with it."""


def readable(markup: str, url: str) -> tuple[str, str]:
    """Title and Markdown. Raises TooMuch, and whatever the parsers raise."""
    import lxml.html  # type: ignore[import-untyped]  # noqa: PLC0415  this module is imported for its types too

    root = _parsed(markup)
    title = one_line(root.findtext(".//title") or "")
    _drop_anchors(root)
    _mend_links(root, url)
    article = _article(lxml.html.tostring(root, encoding="unicode"))
    _drop_unseen(root)
    if len(article) >= max(_SHORT, _SHARE * len(one_line(root.text_content()))):
        return title, article
    return title, _markdown(lxml.html.tostring(root, encoding="unicode"))


def _parsed(markup: str) -> Any:
    import lxml.html  # noqa: PLC0415

    parser = lxml.html.HTMLParser(encoding="utf-8")
    root = lxml.html.document_fromstring(markup.encode("utf-8", "replace"), parser=parser)
    if parser.error_log.filter_from_fatals():
        raise TooMuch("the parser stopped early")
    return root


def _drop_anchors(root: Any) -> None:
    """Leave the text of links within the page: for their sake readability drops the headings of many handbooks."""
    for link in list(root.iter("a")):
        if not (link.get("href") or "").strip().startswith("#"):
            continue
        if link.text_content().strip() in _ANCHORS:
            link.drop_tree()
        else:
            link.drop_tag()


def _mend_links(root: Any, url: str) -> None:
    """Make them absolute; only those of the web stay: `data:` and `javascript:` say nothing to a reader."""
    root.make_links_absolute(url, resolve_base_href=True, handle_failures="discard")
    for link in root.iter("a"):
        link.attrib.pop("title", None)  # says again what the link says
        if not _of_the_web(link.get("href")):
            link.attrib.pop("href", None)
    for picture in list(root.iter("img")):
        shown = picture.get("alt") or ""
        if not shown or not _of_the_web(picture.get("src")):
            picture.tail = shown + (picture.tail or "")
            picture.drop_tree()


def _article(markup: str) -> str:
    """What readability takes for the article; empty where it finds none."""
    from readability import Document  # type: ignore[import-untyped]  # noqa: PLC0415
    from readability.readability import Unparseable  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        return _markdown(Document(markup, min_text_length=_FEW).summary(html_partial=True))
    except Unparseable:
        return ""


def _drop_unseen(root: Any) -> None:
    """Leave what a reader would see."""
    for element in list(root.iter(*_UNSEEN)):
        if element.getparent() is not None:
            element.drop_tree()


def _markdown(markup: str) -> str:
    from markdownify import MarkdownConverter  # noqa: PLC0415

    converter = MarkdownConverter(
        heading_style="atx", bullets="-", escape_asterisks=False, escape_underscores=False, bs4_options="lxml"
    )
    return _few_blank_lines(converter.convert(markup))


def _of_the_web(link: str | None) -> bool:
    return (link or "").lower().startswith(("http:", "https:", "mailto:"))


def _few_blank_lines(text: str) -> str:
    lines = [line.rstrip() for line in text.split("\n")]
    return "\n".join(line for at, line in enumerate(lines) if line or (at and lines[at - 1])).strip()


def _bounds(seconds: float) -> None:
    for which, wanted in (
        (resource.RLIMIT_CPU, int(seconds) + 1),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(which)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(which, (most, hard))
    os.nice(5)
    sys.setrecursionlimit(_FRAMES)


def main() -> None:
    """See the module."""
    wish = msgspec.json.decode(sys.stdin.buffer.readline(), type=Wish)
    _bounds(wish.seconds)
    made = readable(sys.stdin.buffer.read().decode("utf-8", "replace"), wish.url)
    title, text = map(visible, made)  # an entity may be a control character
    sys.stdout.buffer.write(msgspec.json.encode(Readable(title, text[: wish.limit], len(text))))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
