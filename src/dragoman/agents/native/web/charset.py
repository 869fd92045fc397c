"""Bytes of the web to text (Encoding standard): byte order mark, header, the document's own word, a guess, in turn.

Only encodings that browsers know. Python has codecs that are none (``rot13``, ``unicode_escape``) or that are slow on
purpose-made input (``punycode``), and a server chooses the name.
"""

from __future__ import annotations

import codecs
import re

from .content_type import ContentType

_LOOK = 2048
"""Bytes in which a document may name its charset; browsers look at 1024."""

_META = re.compile(rb"<meta\s[^<>]*?charset\s*=\s*[\"']?\s*([a-z0-9_.:+-]+)", re.IGNORECASE)
_XML = re.compile(rb"\s*<\?xml\s[^<>]*?encoding\s*=\s*[\"']([a-z0-9_.:+-]+)", re.IGNORECASE)
_UNSEEN = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160), 0xFEFF])
"""Control characters, which a terminal might obey; tab and the ends of lines stay."""

_CODECS: dict[str, str] = {
    **dict.fromkeys(["utf-8", "utf8", "unicode-1-1-utf-8", "x-unicode20utf8"], "utf-8"),
    **dict.fromkeys(["utf-16", "utf-16le", "unicode", "ucs-2", "csunicode"], "utf-16-le"),
    "utf-16be": "utf-16-be",
    **dict.fromkeys(["iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "l1", "ascii", "us-ascii"], "cp1252"),
    **dict.fromkeys(["cp1252", "x-cp1252"], "cp1252"),
    **{f"windows-{page}": f"cp{page}" for page in range(1250, 1259)},
    **{f"iso-8859-{part}": f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **dict.fromkeys(["latin2", "l2"], "iso8859-2"),
    **dict.fromkeys(["iso-8859-9", "latin5", "l5"], "cp1254"),
    **dict.fromkeys(["iso-8859-11", "tis-620", "windows-874"], "cp874"),
    **dict.fromkeys(["macintosh", "mac", "x-mac-roman"], "mac-roman"),
    **dict.fromkeys(["koi8-r", "koi8", "koi"], "koi8-r"),
    **dict.fromkeys(["koi8-u", "koi8-ru"], "koi8-u"),
    **dict.fromkeys(["ibm866", "cp866", "866"], "cp866"),
    **dict.fromkeys(["gb2312", "gbk", "x-gbk", "gb18030", "gb_2312-80", "chinese", "iso-ir-58"], "gb18030"),
    **dict.fromkeys(["big5", "big5-hkscs", "cn-big5", "x-x-big5"], "big5hkscs"),
    **dict.fromkeys(["euc-jp", "x-euc-jp"], "euc-jp"),
    **dict.fromkeys(["shift_jis", "shift-jis", "sjis", "x-sjis", "ms_kanji", "windows-31j", "ms932"], "cp932"),
    "iso-2022-jp": "iso2022-jp",
    **dict.fromkeys(["euc-kr", "ks_c_5601-1987", "ksc5601", "ks_c_5601-1989", "korean", "windows-949"], "cp949"),
}
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def decode(body: bytes, kind: ContentType) -> str:
    """The text, with what cannot be read as U+FFFD, ends of lines as ``\\n``, and no control characters."""
    text = _decode(body, kind).replace("\r\n", "\n").replace("\r", "\n")
    return visible(text)


def visible(text: str) -> str:
    """Without control characters."""
    return text.translate(_UNSEEN)


def _decode(body: bytes, kind: ContentType) -> str:
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body.removeprefix(mark).decode(codec, "replace")
    codec = _CODECS.get(kind.charset) or _own_word(body, kind) or ""
    if codec:
        return body.decode(codec, "replace")
    try:
        # Not final: a body that was cut may end inside a character.
        return codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


def _own_word(body: bytes, kind: ContentType) -> str | None:
    found = _XML.match(body[:_LOOK]) if kind.is_xml else None
    if found is None and kind.is_page:
        found = _META.search(body[:_LOOK])
    if found is None:
        return None
    codec = _CODECS.get(found[1].decode("ascii").lower())
    return "utf-8" if codec in ("utf-16-le", "utf-16-be") else codec  # it could be read, so it is not UTF-16
