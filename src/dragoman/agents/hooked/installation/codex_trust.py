"""What Codex must find in its ``config.toml`` so that it runs a hook unasked: a hash of each, as it writes them itself.

A hash is the SHA-256 of the hook in canonical JSON (names sorted, no blanks) with its defaults written out; it stands
under the path of ``hooks.json``, the event, and the hook's place among the event's. Seen with Codex 0.171. For one that
hashes otherwise, nothing is lost: Codex asks the person to review the hooks.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from .edits import Text
from .problems import CannotInstall

_NO_MATCHER = frozenset({"UserPromptSubmit", "Stop", "Interrupt"})
"""Events of which Codex drops the matcher."""

_SECONDS = {"SessionEnd": 1, "Interrupt": 1}
_BY_HAND = "let Codex trust the hooks instead: start it and choose 'Trust all', or type /hooks"


def event_key(event: str) -> str:
    """An event's name in the names of trusted hooks: ``pre_tool_use``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def hash_of(event: str, matcher: str | None, hook: Mapping[str, Any]) -> str:
    """What Codex must have noted of a hook to trust it."""
    entry = {"async": False, **hook}
    entry["timeout"] = max(1, int(hook.get("timeout", _SECONDS.get(event, 600))))
    value: dict[str, Any] = {"event_name": event_key(event), "hooks": [entry]}
    if matcher is not None and event not in _NO_MATCHER:
        value["matcher"] = matcher
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def trusted(text: str) -> dict[str, str]:
    """The hash that each hook is trusted with, by its key. Raises ``CannotInstall``."""
    state = _read(text).get("hooks")
    state = state.get("state") if isinstance(state, dict) else None
    entries = state.items() if isinstance(state, dict) else ()
    found = {key: entry.get("trusted_hash") for key, entry in entries if isinstance(entry, dict)}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def distrust(text: Text, keys: Collection[str]) -> None:
    """Take these entries out, where they are tables of their own, as Codex writes them; others do no harm."""
    for key in keys:
        spot = next(_tables(text.text, key), None)
        if spot is not None:
            text.cut(*spot)


def trust(text: Text, wanted: Mapping[str, str]) -> None:
    """Have each of these hooks trusted with this hash. Raises ``CannotInstall`` where that takes more than a table."""
    before = _read(text.text)
    there = trusted(text.text)
    for key, value in wanted.items():
        if there.get(key) == value:
            continue
        distrust(text, [key])
        newline = "\r\n" if "\r\n" in text.text else "\n"
        gap = "" if not text.text else newline if text.text.endswith("\n") else newline * 2
        name = json.dumps(key, ensure_ascii=False)
        text.insert(len(text.text), f'{gap}[hooks.state.{name}]{newline}trusted_hash = "{value}"{newline}')
    _check(before, text.text, wanted)


def _check(before: dict[str, Any], text: str, wanted: Mapping[str, str]) -> None:
    """Nothing else may have become of it: it was edited by its lines."""
    try:
        after = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise CannotInstall(f"its table of hooks is written in a way that is not edited; {_BY_HAND}") from None
    if trusted(text) | dict(wanted) != trusted(text) or _without(after, wanted) != _without(before, wanted):
        raise CannotInstall(f"its table of hooks is written in a way that is not edited; {_BY_HAND}")


def _without(config: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    hooks = dict(config.get("hooks") or {})
    state = {key: value for key, value in dict(hooks.pop("state", {})).items() if key not in keys}
    return {**{name: value for name, value in config.items() if name != "hooks"}, "hooks": hooks, "state": state}


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise CannotInstall(f"it is no TOML, and is left alone: {problem}") from None


def _tables(text: str, key: str) -> Iterator[tuple[int, int]]:
    """Where the table of this entry lies: an empty line before it, its head, and the lines that follow it at once."""
    at = 0
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    for number, line in enumerate(lines):
        if line.lstrip().startswith("[") and _names(line) == key:
            start, end = at, at + len(line)
            for following in lines[number + 1 :]:
                if not re.match(r"[ \t]*[\w\"'-]+[ \t]*=", following):
                    break
                end += len(following)
            if number and not lines[number - 1].strip():
                start -= len(lines[number - 1])
            yield start, end
        at += len(line)


def _names(line: str) -> str | None:
    """The hook whose table begins with this line."""
    try:
        state = tomllib.loads(line)["hooks"]["state"]
        (key,) = state
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError):
        return None
    return str(key) if state[key] == {} else None


def keys_of(hooks_json: Path, hooks: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None, dict[str, Any]]]:
    """Each hook of the file's ``hooks``: its key, its event, its matcher, and itself."""
    for event, groups in hooks.items():
        for place, group in enumerate(groups if isinstance(groups, list) else ()):
            inner = group.get("hooks") if isinstance(group, dict) else None
            for number, hook in enumerate(inner if isinstance(inner, list) else ()):
                if isinstance(hook, dict):
                    key = f"{hooks_json}:{event_key(event)}:{place}:{number}"
                    yield key, event, group.get("matcher"), hook
