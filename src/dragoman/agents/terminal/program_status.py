"""The program status protocol (OSC 7501, revision 0.4): reading one report. Pure.

A report is what an untrusted program says about itself: it may be shown, and may move a session's state, but it
authorizes nothing.
"""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Literal, get_args

import msgspec

State = Literal["idle", "working", "done", "blocked", "error", "clear"]
Kind = Literal["permission", "question", "auth"]

MAX_REPORT = 4096 - len(b"\x1b]7501;") - len(b"\x1b\\")
MAX_KEY = 16
MAX_APP = 32
MAX_ID, MAX_ID_DEPTH = 128, 8
MAX_ENCODED = {"msg": 2732, "title": 256}
MAX_DECODED = {"msg": 2048, "title": 192}
"""The protocol's own limits, in bytes; a report beyond any of them is void."""

_STATES = frozenset(get_args(State))
_KINDS = frozenset(get_args(Kind))
_KEY = re.compile(r"[a-z]+")
_VALUE = re.compile(r"[A-Za-z0-9_.,+/=-]*")
_SEGMENT = re.compile(r"[A-Za-z0-9_.+-]{1,32}")
_PERCENT = re.compile(r"[0-9]{1,3}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class StatusReport(msgspec.Struct, frozen=True):
    """What one report says. It replaces everything said before under the same ``id``; "" is the program as a whole.

    ``clear`` removes what was said under ``id`` and below it. ``kind`` comes only with ``blocked``, ``progress`` (0 to
    100) only with ``working`` or ``blocked``.
    """

    state: State
    id: str = ""
    kind: Kind | None = None
    progress: int | None = None
    app: str | None = None
    title: str | None = None
    msg: str | None = None


def parse_report(payload: str) -> StatusReport | None:
    """Read what stands after ``7501;``. None if the protocol says that the report is void.

    Pairs that are malformed or have an unknown key are skipped, the last of equal keys counts.
    """
    if len(payload.encode()) > MAX_REPORT:
        return None
    pairs = _pairs(payload)
    if pairs is None:
        return None
    state, path = pairs.get("state"), pairs.get("id", "")
    if state not in _STATES or not _valid_id(path, given="id" in pairs):
        return None
    return msgspec.convert(
        {
            "state": state,
            "id": path,
            "kind": pairs.get("kind") if state == "blocked" and pairs.get("kind") in _KINDS else None,
            "progress": _percent(pairs.get("progress", "")) if state in {"working", "blocked"} else None,
            "app": pairs["app"] if _SEGMENT.fullmatch(pairs.get("app", "")) else None,
            "title": pairs.get("title"),
            "msg": pairs.get("msg"),
        },
        StatusReport,
    )


def _pairs(payload: str) -> dict[str, str] | None:
    """The pairs, texts decoded; None if one breaks a limit or is not text."""
    pairs: dict[str, str] = {}
    for field in payload.split(":"):
        name, equals, content = field.partition("=")
        key, value = name.strip(), content.strip()
        if len(key) > MAX_KEY:
            return None
        if not equals or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            continue
        if key in MAX_DECODED:
            text = _text(key, value)
            if text is None:
                return None
            value = text
        elif (key == "app" and len(value) > MAX_APP) or (key == "id" and _id_too_long(value)):
            return None
        pairs[key] = value
    return pairs


def _text(key: str, value: str) -> str | None:
    if len(value) > MAX_ENCODED[key]:
        return None
    try:
        data = b64decode(value + "=" * (-len(value) % 4) if "=" not in value else value, validate=True)
        text = data.decode()
    except ValueError:
        return None
    return None if len(data) > MAX_DECODED[key] or _CONTROL.search(text) else text


def _id_too_long(path: str) -> bool:
    return len(path) > MAX_ID or path.count("/") >= MAX_ID_DEPTH


def _valid_id(path: str, *, given: bool) -> bool:
    return not given or all(_SEGMENT.fullmatch(segment) for segment in path.split("/"))


def _percent(text: str) -> int | None:
    return int(text) if _PERCENT.fullmatch(text) and int(text) <= 100 else None
