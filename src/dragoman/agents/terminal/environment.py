"""The environment of a program on a PTY: ours, without what concerns only us, with what tells it where it is."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.agents.common.environment import OF_ANOTHER_TERMINAL


def child_environment(
    ours: Mapping[str, str], *, term: str, url: str, session: str, extra: Mapping[str, str]
) -> dict[str, str]:
    """The program's whole environment. Nothing of ours named ``DRAGOMAN_*`` gets through: the token is there."""
    inherited = {
        name: value
        for name, value in ours.items()
        if name not in OF_ANOTHER_TERMINAL and not name.startswith(("DRAGOMAN_", "COOP"))
    }
    return {
        **inherited,
        "TERM": term,
        "COLORTERM": "truecolor",
        "COOP": "1",
        "COOP_URL": url,
        **extra,
        "DRAGOMAN_SESSION": session,
    }
