"""How the hooks of an agent stand: there, older than this version, not there, or kept from running by the person."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from .agents import Agent
from .codex_config import hashes
from .codex_trust import trusted
from .hook_entries import entries, is_as_wanted
from .place import Place
from .problems import CannotInstall
from .program import is_whole
from .record import read_record
from .settings_file import SettingsFile

State = Literal["installed", "outdated", "not installed", "other's", "unreadable"]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """``problems`` are in the person's words, each with what to do. ``present``: whether the agent seems to be here.

    ``others`` are programs of other installations of dragoman whose hooks stand there, too.
    """

    agent: str
    state: State
    settings: str
    present: bool
    problems: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def standing(place: Place, agent: Agent) -> Standing:
    """See the module. Blocks on the disk."""
    about: dict[str, Any] = {
        "agent": agent.name,
        "settings": str(place.path(agent)),
        "present": place.present(agent),
    }
    try:
        settings = place.settings(agent)
    except CannotInstall as problem:
        return Standing(state="unreadable", problems=(str(problem),), **about)
    programs = {entry.program for entry in entries(settings)}
    others = tuple(sorted(str(program) for program in programs - {place.program}))
    if place.program not in programs:
        return Standing(state="other's" if others else "not installed", others=others, **about)
    outdated = tuple(_outdated(place, agent, settings))
    off = tuple(_switched_off(place, agent, settings))
    state: State = "outdated" if outdated else "installed"
    return Standing(state=state, problems=outdated + off, others=others, **about)


def _outdated(place: Place, agent: Agent, settings: Mapping[str, Any]) -> Iterator[str]:
    again = f"run: dragoman hooks install {agent.name}"
    change = read_record(place.folder).files.get(str(place.path(agent)))
    wanted = place.wanted(agent, () if change is None else change.left_out)
    if not is_as_wanted(settings, place.program, wanted):
        yield f"its hooks are not those of this version and these settings ({again})"
    if not is_whole(place.folder):
        yield f"{place.program} is not that of this version ({again})"
    if agent.name == "codex":
        try:
            there = trusted(SettingsFile(place.config(agent)).text or "")
        except CannotInstall as problem:
            yield f"{place.config(agent)}: {problem}"
            return
        if any(there.get(key) != value for key, value in hashes(place, agent).items()):
            yield f"Codex does not trust them ({again}; or start Codex and type /hooks)"


def _switched_off(place: Place, agent: Agent, settings: Mapping[str, Any]) -> Iterator[str]:
    """What keeps any hook from running. It is the person's to change."""
    path = place.path(agent)
    if agent.name == "claude" and settings.get("disableAllHooks") is True:
        yield f"disableAllHooks is set in {path}: no hook runs"
    elif agent.name == "gemini":
        about = settings.get("hooksConfig")
        about = about if isinstance(about, dict) else {}
        named = about.get("disabled")
        if about.get("enabled") is False or (isinstance(named, list) and "dragoman" in named):
            yield f"hooksConfig in {path} switches them off"
    elif agent.name == "codex":
        with contextlib.suppress(CannotInstall, tomllib.TOMLDecodeError):
            features = tomllib.loads(SettingsFile(place.config(agent)).text or "").get("features")
            if isinstance(features, dict) and features.get("hooks") is False:
                yield f"features.hooks is false in {place.config(agent)}: no hook runs"
