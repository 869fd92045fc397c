"""``/feedback`` (spec §3.6). Nothing here turns feedback into issues or fixes: agents that do so use these routes."""

from __future__ import annotations

import base64
import binascii

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from dragoman.hub.clock import random_id
from dragoman.hub.permissions import Right

from .calls import UNCACHED, Call, Problem, checked_lines, checked_text, ok, resource
from .feedback import Feedback, FeedbackType
from .host import Host

MISSING = "Missing type or description"
NOT_FOUND = "Feedback not found"
NO_SCREENSHOT = "Screenshot not found"
NOT_HERE = "Nothing here acts on feedback: this cannot be set"

DEFAULT_LIMIT = 100
DESCRIPTION_CHARS = 10_000
LINES = 100
LINE_CHARS = 2000
NAME_CHARS = 500
OUTPUT_CHARS = 20_000
WIDEST = 100_000
"""Pixels of a viewport."""

_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_DATA_URL = "data:image/png;base64,"

_PICTURE = {
    **UNCACHED,
    "content-security-policy": "sandbox; default-src 'none'",
    "cross-origin-resource-policy": "same-site",
}
"""A page of somebody else may not so much as show it."""

_CONFIG = {"enabled": True, "githubRepo": "", "autoFixEnabled": False, "validationEnabled": False}
_VALIDATION = {
    "enabled": False,
    "commands": [],
    "autoDetect": False,
    "skip": {"build": False, "test": False, "lint": False, "typecheck": False},
}


class FeedbackBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What POST takes. ``screenshot`` is a PNG in base64, as a data URL or without."""

    type: FeedbackType | None = None
    description: str | None = None
    session_id: str | None = None
    session_name: str | None = None
    session_status: str | None = None
    recent_events: tuple[str, ...] | None = None
    console_errors: tuple[str, ...] | None = None
    viewport_width: int | float | None = None
    viewport_height: int | float | None = None
    user_agent: str | None = None
    screenshot: str | None = None


class FeedbackChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What PATCH takes."""

    processed: bool | None = None
    github_issue_number: int | None = None
    github_issue_url: str | None = None
    grouped_with: str | None = None
    fixer_status: str | None = None
    fixer_message: str | None = None
    validation_output: str | None = None


def feedback_routes(host: Host) -> list[Route]:
    """See the module."""
    return [
        resource(host, "/feedback", GET=listed, POST=created),
        resource(host, "/feedback/unprocessed", GET=unprocessed),
        resource(host, "/feedback/config", GET=config, PATCH=configured),
        resource(host, "/feedback/validation/config", GET=validation, PATCH=validation_configured),
        resource(host, "/feedback/{id}", GET=one, PATCH=changed, DELETE=deleted),
        resource(host, "/feedback/{id}/status", GET=status),
        resource(host, "/feedback/{id}/screenshot", GET=screenshot),
    ]


async def listed(call: Call) -> Response:
    """The newest first. ``type``, ``processed``, ``sessionId`` narrow it down."""
    kind, processed, session = call.query("type"), call.query("processed"), call.query("sessionId")
    if processed is not None:
        call.switch("processed")
    found = [
        entry
        for entry in await call.host.feedback.all()
        if kind in (None, entry.type)
        and processed in (None, "true" if entry.processed else "false")
        and session in (None, entry.session_id)
    ]
    return _page(call, found)


async def unprocessed(call: Call) -> Response:
    """What nobody has worked through yet."""
    return _page(call, [entry for entry in await call.host.feedback.all() if not entry.processed])


async def created(call: Call) -> Response:
    """One more."""
    call.check(Right.WRITE)
    body = await call.read(FeedbackBody)
    if body.type is None or not (body.description or "").strip():
        raise Problem(400, MISSING)
    picture = None
    if body.screenshot:
        given, most = body.screenshot, call.host.settings.screenshot_bytes
        picture = await call.host.disk.run(lambda: _picture(given, most))
    now = call.host.registry.clock.now()
    entry = Feedback(
        id=random_id(),
        type=body.type,
        description=checked_lines(body.description or "", "description", DESCRIPTION_CHARS),
        timestamp=now,
        created_at=now,
        updated_at=now,
        session_id=_short(body.session_id, "sessionId"),
        session_name=_short(body.session_name, "sessionName"),
        session_status=_short(body.session_status, "sessionStatus"),
        recent_events=_lines(body.recent_events),
        console_errors=_lines(body.console_errors),
        viewport_width=_pixels(body.viewport_width),
        viewport_height=_pixels(body.viewport_height),
        user_agent=_short(body.user_agent, "userAgent") or "",
        has_screenshot=picture is not None,
    )
    await call.host.feedback.add(entry, picture)
    return ok(201, feedback=_shown(entry))


async def one(call: Call) -> Response:
    return ok(feedback=_shown(await _entry(call)))


async def status(call: Call) -> Response:
    """How far it was worked through."""
    entry = await _entry(call)
    names = ("processed", "fixerStatus", "fixerMessage", "githubIssueNumber", "githubIssueUrl", "validationOutput")
    shown = _shown(entry)
    return ok(id=entry.id, **{name: shown[name] for name in names if name in shown})


async def changed(call: Call) -> Response:
    """By those that work through it."""
    call.check(Right.WRITE)
    body = await call.read(FeedbackChange)
    given = {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not None}
    for name, value in given.items():
        if isinstance(value, str):
            checked_lines(value, name, OUTPUT_CHARS if name == "validation_output" else LINE_CHARS)
    given["updated_at"] = call.host.registry.clock.now()
    entry = await call.host.feedback.change(call.request.path_params["id"], given)
    if entry is None:
        raise Problem(404, NOT_FOUND)
    return ok(feedback=_shown(entry))


async def deleted(call: Call) -> Response:
    """With its picture."""
    call.check(Right.WRITE)
    if not await call.host.feedback.remove(call.request.path_params["id"]):
        raise Problem(404, NOT_FOUND)
    return ok()


async def screenshot(call: Call) -> Response:
    """Its picture; what it holds came from a client, so a page shows it as nothing but a picture."""
    entry = await _entry(call)
    picture = await call.host.feedback.picture(entry.id)
    if picture is None:
        raise Problem(404, NO_SCREENSHOT)
    return Response(picture, 200, _PICTURE, "image/png")


async def config(_: Call) -> Response:
    return ok(config=_CONFIG)


async def configured(call: Call) -> Response:
    return await _refuse_changes(call, _CONFIG)


async def validation(_: Call) -> Response:
    return ok(config=_VALIDATION)


async def validation_configured(call: Call) -> Response:
    return await _refuse_changes(call, _VALIDATION)


async def _refuse_changes(call: Call, is_: dict[str, object]) -> Response:
    """What says what is the case anyway is taken."""
    call.check(Right.WRITE)
    given = await call.read(dict[str, object])
    if any(name in is_ and value != is_[name] for name, value in given.items()):
        raise Problem(409, NOT_HERE)
    return ok(config=is_)


def _page(call: Call, found: list[Feedback]) -> Response:
    """``limit`` of them from ``offset`` on, and how many there are."""
    limit, offset = call.number("limit", DEFAULT_LIMIT), call.number("offset", 0)
    return ok(feedback=[_shown(entry) for entry in found[offset : offset + limit]], total=len(found))


async def _entry(call: Call) -> Feedback:
    entry = await call.host.feedback.get(call.request.path_params["id"])
    if entry is None:
        raise Problem(404, NOT_FOUND)
    return entry


def _shown(entry: Feedback) -> dict[str, object]:
    """As clients see it: without what is not known."""
    shown = {name: value for name, value in msgspec.to_builtins(entry).items() if value is not None}
    if shown.pop("hasScreenshot"):
        shown["screenshotPath"] = f"feedback/{entry.id}/screenshot"
    return shown


def _picture(given: str, most: int) -> bytes:
    encoded = given.removeprefix(_DATA_URL)
    if len(encoded) > 4 * (most // 3 + 1):
        raise Problem(413, f"The screenshot is larger than {most} bytes")
    try:
        picture = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(400, "The screenshot must be a PNG in base64") from None
    if len(picture) > most:
        raise Problem(413, f"The screenshot is larger than {most} bytes")
    if not picture.startswith(_PNG):
        raise Problem(400, "The screenshot must be a PNG in base64")
    return picture


def _short(text: str | None, what: str) -> str | None:
    return checked_text(text, what, NAME_CHARS) if text else None


def _lines(lines: tuple[str, ...] | None) -> tuple[str, ...]:
    """The newest, each cut."""
    return tuple(line[:LINE_CHARS] for line in (lines or ())[-LINES:])


def _pixels(given: float | None) -> int:
    if given is None:
        return 0
    if not 0 <= given <= WIDEST:
        raise Problem(400, f"A viewport has 0 to {WIDEST} pixels")
    return round(given)
