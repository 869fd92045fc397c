"""Differences in what requests are answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.dialects.leaves import ANYTHING

from .recording import Ask, Step
from .reduce import HTML
from .rewriting import answer, asks, failed

NOT_FOUND = "Not found"
NO_SESSION = "Session not found"
NO_METHOD = "Method not allowed"


def json_for_all(name: str, steps: list[Step]) -> list[Step]:
    """What is not known, and what the original answers with its page, is said to be so in JSON."""
    known = ("/tiles/", "/sessions", "/prompt", "/info")
    made: list[Step] = []
    for recorded in steps:
        step = recorded
        page = step.answer is not None and step.answer.body in (HTML, NOT_FOUND)
        assert isinstance(step.action, Ask) or not page
        if page and not step.action.path.startswith(known):  # type: ignore[union-attr]
            step = failed(step, 404, NOT_FOUND)
        made.append(step)
    return made


def routes_of_the_dashboard(name: str, steps: list[Step]) -> list[Step]:
    """What the dashboard calls, and the original lacks, is there."""
    made: list[Step] = []
    for recorded in steps:
        step = recorded
        if step.answer is not None and step.answer.body == HTML:
            step = _served(step, _listed_before(made))
        made.append(step)
    return made


def _served(step: Step, sessions: Any) -> Step:
    action = step.action
    assert isinstance(action, Ask)
    if asks(step, "GET", "/info"):
        return answer(step, 200, {"ok": True, "cwd": "/home/user/src"})
    if asks(step, "POST", "/sessions/refresh") or asks(step, "GET", "/sessions?*"):
        return answer(step, 200, {"ok": True, "sessions": sessions})
    if asks(step, "POST", "/prompt"):
        return failed(step, 404, "No session can take a prompt")
    if asks(step, "GET", "/prompt") or asks(step, "DELETE", "/prompt"):
        return answer(step, 200, {"ok": True, "prompt": None} if action.method == "GET" else {"ok": True})
    if asks(step, "PUT", "/tiles/*"):
        return failed(step, 404, "Tile not found")
    if action.method == "GET" and action.path.endswith("/link"):
        return failed(step, 405, NO_METHOD)
    if action.path.startswith("/sessions/"):
        return failed(step, 404, NO_SESSION)
    return failed(step, 405, NO_METHOD)


def _listed_before(steps: list[Step]) -> Any:
    """The sessions of the last list that was asked for."""
    for step in reversed(steps):
        if asks(step, "GET", "/sessions") and step.answer is not None and step.answer.status == 200:
            return step.answer.body["sessions"]
    return []


def other_origins(name: str, steps: list[Step]) -> list[Step]:
    """Nothing is served to a page of another origin; who names none is of this machine."""
    made: list[Step] = []
    for recorded in steps:
        step = recorded
        if isinstance(step.action, Ask) and (step.action.origin or "").startswith("http://evil"):
            step = answer(step, 403, "this origin is not allowed" + ANYTHING, "text/plain")
        elif asks(step, "OPTIONS", "/sessions") and step.answer is not None and step.answer.status == 403:
            step = answer(step, 204, "", None)
        made.append(step)
    return made


def real_statuses(name: str, steps: list[Step]) -> list[Step]:
    """What the client did wrong is no failure of the server."""

    def change(step: Step) -> Step:
        assert step.answer is not None
        assert isinstance(step.action, Ask)
        text = str(step.answer.body.get("error", "")) if isinstance(step.answer.body, dict) else ""
        if step.answer.status == 500 and step.action.path.endswith("/restart"):
            return failed(step, 409, "the program runs already")
        if step.answer.status == 500 and step.action.path == "/sessions":
            told = {"Expected property": "Invalid JSON", "Failed to create session: ": "no program 'gemini' along PATH"}
            wrong = next((mine for theirs, mine in told.items() if text.startswith(theirs)), text)
            return failed(step, 400, wrong + (ANYTHING if wrong.startswith("no program") else ""))
        if text == "Cannot open terminal for external sessions":
            return failed(step, 400, "Cannot open a terminal for external sessions")
        if text.startswith("Invalid mediaType"):
            return failed(
                step, 400, "Invalid mediaType: image/svg+xml; known: image/jpeg, image/png, image/gif, image/webp"
            )
        if asks(step, "GET", "/sessions/*") and "/file?path=/home/user/proj-evil" in step.action.path:
            return failed(step, 403, "Access denied: path outside session directory")
        return step

    return [change(step) if step.answer is not None else step for step in steps]


def figures_of_what_is(name: str, steps: list[Step]) -> list[Step]:
    """Sessions that were deleted are in no figure."""
    gone = False
    made: list[Step] = []
    for recorded in steps:
        step = recorded
        if gone and asks(step, "GET", "/stats") and step.answer is not None:
            step = answer(step, 200, {**step.answer.body, "toolCounts": {}, "avgDurations": {}})
        gone = gone or asks(step, "DELETE", "/sessions/cleanup*")
        made.append(step)
    return made


def own_words(name: str, steps: list[Step]) -> list[Step]:
    """What is said of this machine and of this server is said of ours."""
    words: dict[str, Callable[[Any], Any]] = {
        "/stats": lambda body: {**body, "totalEvents": ANYTHING, "avgDurations": _some(body["avgDurations"])},
        "/health": lambda body: {**body, "version": ANYTHING, "clients": ANYTHING, "events": ANYTHING},
        "/config": lambda _: {"username": ANYTHING, "hostname": ANYTHING, "tmuxSession": "dragoman"},
        "/feedback": lambda body: {**body, "total": 0},
        "/feedback/unprocessed": lambda body: {**body, "total": 0},
        "/feedback/config": lambda body: {"ok": True, "config": {**body["config"], "validationEnabled": False}},
        "/feedback/validation/config": lambda body: {
            "ok": True,
            "config": {**body["config"], "enabled": False, "autoDetect": False},
        },
    }
    made: list[Step] = []
    for recorded in steps:
        step = recorded
        change = words.get(step.action.path) if isinstance(step.action, Ask) and step.action.method == "GET" else None
        if change is not None and step.answer is not None and step.answer.status == 200:
            step = replace(step, answer=replace(step.answer, body=change(step.answer.body)))
        made.append(step)
    return made


def _some(durations: dict[str, int]) -> dict[str, Any]:
    """Those that a clock of the server's own measured may be any."""
    return {tool: ANYTHING if tool == "Bash" else taken for tool, taken in durations.items()}


def known_projects_only(name: str, steps: list[Step]) -> list[Step]:
    """Folders that nobody works in are not shown."""
    made: list[Step] = []
    for recorded in steps:
        step = recorded
        if asks(step, "GET", "/browse?path=/nope") or asks(step, "GET", "/browse?path=/home/user/proj*"):
            step = failed(step, 403, "Access denied: path outside the known projects" + ANYTHING)
        elif asks(step, "GET", "/projects/autocomplete*"):
            step = answer(step, 200, {"ok": True, "suggestions": []})
        elif asks(step, "GET", "/projects/default"):
            step = answer(step, 200, {"ok": True, "path": "/home/user/src"})
        made.append(step)
    return made
