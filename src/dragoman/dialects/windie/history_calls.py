"""The calls of an answer in a history that a client gives, in whichever form it has them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from dragoman.hub.events import HistoryCall, Json

log = logging.getLogger("dragoman.windie")


def calls_of(given: Any) -> Iterator[HistoryCall]:
    """The calls of an answer, as model providers spell them (``function`` with ``arguments`` as JSON text) or flat.
    Those without a name or an id are none."""
    for each in given if isinstance(given, list) else ():
        call = each if isinstance(each, dict) else {}
        function = call.get("function")
        said = function if isinstance(function, dict) else call
        name, tool = call.get("id"), said.get("name")
        if isinstance(name, str) and name and isinstance(tool, str) and tool:
            yield HistoryCall(call=name, tool=tool, input=_arguments(said))
        else:
            log.info("a call of an answer in a history has no name or id")


def _arguments(said: dict[str, Any]) -> Json:
    """What a call was made with; text that is no JSON stays text."""
    given = next((said[key] for key in ("arguments", "args", "input") if said.get(key) is not None), None)
    if not isinstance(given, str):
        return {} if given is None else given
    try:
        return msgspec.json.decode(given)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return given
