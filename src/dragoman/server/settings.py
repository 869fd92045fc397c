"""Settings: one typed tree, filled from a TOML file, then ``DRAGOMAN_*`` environment, then flags."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from dragoman.agents.hooked.settings import HookedSettings
from dragoman.agents.native.settings import NativeSettings
from dragoman.agents.terminal.settings import TerminalSettings
from dragoman.dialects.base import is_loopback
from dragoman.dialects.cin.settings import CinSettings
from dragoman.dialects.coop.settings import CoopSettings
from dragoman.dialects.coworker.settings import CoworkerSettings
from dragoman.dialects.hub.settings import HubDialectSettings
from dragoman.dialects.onion.settings import OnionSettings
from dragoman.dialects.windie import settings as windie_settings
from dragoman.dialects.windie.settings import WindieSettings
from dragoman.hub.limits import HubLimits
from dragoman.services.artifacts import ArtifactSettings, OwnedArtifactSettings
from dragoman.services.checkpoints import CheckpointSettings
from dragoman.services.git import GitSettings
from dragoman.services.installs import InstallSettings
from dragoman.services.observability import ObservabilitySettings
from dragoman.services.observability.endpoints import shown_url
from dragoman.services.runs import RunsSettings, with_environment
from dragoman.services.skills import SkillSettings
from dragoman.services.trust.settings import TrustSettings
from dragoman.services.uploads import UploadSettings
from dragoman.services.workspace import WorkspaceSettings

from .pump import PumpLimits


class SettingsError(Exception):
    """A setting is unknown or cannot be what it says. The message names it and says what may stand there."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server listens and whom it lets in."""

    host: str = "127.0.0.1"
    """Address to bind. Anything but loopback needs a token."""

    port: int = 7337
    """TCP port; 0 takes a free one."""

    socket: str | None = None
    """Path of a unix socket to listen on as well; for this user only, and as good as loopback."""

    health_port: int | None = None
    """TCP port, on the same address, that serves coop's health and ready without a token, and nothing else but its
    agent (off loopback with the token); 0 takes a free one."""

    token: str | None = None
    """When set, every dialect requires it in the form its protocol knows."""

    dialect: str | None = None
    """The dialect mounted at the root as well as under its prefix."""

    allow_host: tuple[str, ...] = ()
    """Host names served besides loopback names and the bound one."""

    allow_origin: tuple[str, ...] = ()
    """Web origins (``https://example.org``; ``file://`` for pages of a desktop program) that may use the server besides
    its own."""

    stop_budget: float = 2.0
    """Seconds from the first stop signal to the end of the process."""

    max_body: int = 8 * 1024 * 1024
    """Bytes of an HTTP request body, whatever the dialect takes over its socket."""

    max_connections: int = 4000
    """Open TCP connections with a request under way; a further request is answered 503."""


_ORIGIN = re.compile(r"file:///?|[A-Za-z][A-Za-z0-9+.-]*://[^/?#@\s*]+/?")
"""An origin as a browser names it; a slash at its end is forgiven."""

_OTHER_LEVELS = {"trace": "debug", "warn": "warning"}


def log_level(word: str) -> str:
    """A level's name as ours: some programs have a finer one, or say it shorter."""
    return _OTHER_LEVELS.get(word.lower(), word.lower())


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When ``dragoman run`` ends by itself, and how gently it stops an agent that it knows. Times are seconds."""

    idle_timeout: float = 0.0
    """Stop once the agent has been idle for so long; 0 never does."""

    drain_timeout: float = 20.0
    """For an agent at work to come to rest, before it is ended; 0 ends it at once."""

    drain_interval: float = 2.0
    """Between two presses of Escape meanwhile."""

    shutdown_timeout: float = 10.0
    """For a program to end once it was hung up, before it is killed; here it takes the place of
    ``terminal.schedule.kill``."""


class DataSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where everything durable lies."""

    folder: str = ""
    """The data folder; empty means ``$XDG_STATE_HOME/dragoman`` (``~/.local/state/dragoman``)."""

    def path(self) -> Path:
        """The data folder, absolute."""
        if self.folder:
            return Path(self.folder).expanduser().absolute()
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        return Path(state).expanduser().absolute() / "dragoman"


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is logged on stderr, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged: ``debug``, ``info``, ``warning`` or ``error``."""

    json: bool = False
    """Whether each line is a JSON object instead of text for people."""


class DialectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One section per wire protocol."""

    coop: CoopSettings = CoopSettings()
    coworker: CoworkerSettings = CoworkerSettings()
    hub: HubDialectSettings = HubDialectSettings()
    onion: OnionSettings = OnionSettings()
    cin: CinSettings = CinSettings()
    windie: WindieSettings = WindieSettings()


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole tree. ``dragoman config`` prints it."""

    server: ServerSettings = ServerSettings()
    run: RunSettings = RunSettings()
    data: DataSettings = DataSettings()
    log: LogSettings = LogSettings()
    hub: HubLimits = HubLimits()
    links: PumpLimits = PumpLimits()
    terminal: TerminalSettings = TerminalSettings()
    native: NativeSettings = NativeSettings()
    hooked: HookedSettings = HookedSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    skills: SkillSettings = SkillSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    git: GitSettings = GitSettings()
    uploads: UploadSettings = UploadSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    owned_artifacts: OwnedArtifactSettings = OwnedArtifactSettings()
    trust: TrustSettings = TrustSettings()
    installs: InstallSettings = InstallSettings()
    runs: RunsSettings = RunsSettings()
    observability: ObservabilitySettings = ObservabilitySettings()
    dialects: DialectSettings = DialectSettings()


ENVIRONMENT_PREFIX = "DRAGOMAN_"

_SHORT = {
    "HOST": ("server", "host"),
    "PORT": ("server", "port"),
    "TOKEN": ("server", "token"),
    "DIALECT": ("server", "dialect"),
    "DATA": ("data", "folder"),
    "LOG_LEVEL": ("log", "level"),
    "LOG_JSON": ("log", "json"),
}
"""Environment names without a section. Others are ``DRAGOMAN_SECTION__KEY``."""

_NOT_SETTINGS = frozenset({"CONFIG", "URL", "SESSION", "HOOKS", "HOOK_SECRET"})
"""``DRAGOMAN_*`` names that mean something else."""


def load(
    file: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, Mapping[str, Any]],
    *,
    usual: Mapping[str, Any] | None = None,
) -> Settings:
    """Build the tree; ``usual`` stands between file and environment. Raises ``SettingsError``."""
    tree: dict[str, Any] = {}
    _merge(tree, _from_file(file))
    _merge(tree, usual or {})
    _merge(tree, _from_environment(environment))
    _merge(tree, flags)
    try:
        settings = _with_windie_names(msgspec.convert(tree, Settings, strict=False), environment)
    except (msgspec.ValidationError, ValueError) as problem:
        raise SettingsError(f"settings: {problem}") from problem
    _check(settings)
    return settings


def _with_windie_names(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """With what WindieOS's own variables say. Raises ``ValueError`` for one that cannot be."""
    dialects = msgspec.structs.replace(
        settings.dialects, windie=windie_settings.with_environment(settings.dialects.windie, environment)
    )
    return msgspec.structs.replace(settings, dialects=dialects, runs=with_environment(settings.runs, environment))


def default_file(environment: Mapping[str, str]) -> Path | None:
    """``$DRAGOMAN_CONFIG``, else ``~/.config/dragoman/config.toml`` when it is there."""
    named = environment.get(ENVIRONMENT_PREFIX + "CONFIG")
    if named:
        return Path(named)
    usual = _usual_folder(environment) / "config.toml"
    return usual if usual.is_file() else None


def config_places(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Where settings come from, whether or not there are any: they may hold a token."""
    named = environment.get(ENVIRONMENT_PREFIX + "CONFIG")
    return (_usual_folder(environment), *([Path(named)] if named else []))


def config_folder(environment: Mapping[str, str]) -> Path:
    """Where a person's configuration lies: ``$XDG_CONFIG_HOME/dragoman``, or ``~/.config/dragoman``."""
    return _usual_folder(environment).absolute()


def _usual_folder(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "dragoman"


def secrets_of(settings: Settings) -> list[str]:
    """What in the tree must be shown to nobody."""
    windie = settings.dialects.windie
    keys = (windie.runs_key, windie.runs_control_key)
    return [text for text in (settings.server.token, *keys, *settings.observability.headers.values()) if text]


_MASK = "***"

_WATCHED_URLS = ("otlp_endpoint", "logs_url", "metrics_url", "traces_url")
"""URLs that a password may stand in."""


def printable(settings: Settings) -> dict[str, Any]:
    """The tree as plain data, its secrets masked."""
    tree: dict[str, Any] = msgspec.to_builtins(settings)
    if tree["server"]["token"] is not None:
        tree["server"]["token"] = _MASK
    if tree["trust"]["policy"].lstrip().startswith("---"):
        tree["trust"]["policy"] = _MASK  # a policy's own text, with its codes
    windie = tree["dialects"]["windie"]
    for name in ("runs_key", "runs_control_key"):
        windie[name] = _MASK if windie[name] else None
    watched = tree["observability"]
    watched["headers"] = dict.fromkeys(watched["headers"], _MASK)
    for name in _WATCHED_URLS:
        watched[name] = shown_url(watched[name])
    return tree


def _from_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        with file.open("rb") as opened:
            return tomllib.load(opened)
    except OSError as problem:
        raise SettingsError(f"cannot read the settings file {file}: {problem.strerror}") from problem
    except tomllib.TOMLDecodeError as problem:
        raise SettingsError(f"the settings file {file} is not TOML: {problem}") from problem


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in environment.items():
        key = name.removeprefix(ENVIRONMENT_PREFIX)
        if key == name or key in _NOT_SETTINGS:
            continue
        path = _SHORT.get(key) or tuple(part.lower() for part in key.split("__"))
        if len(path) < 2:
            raise SettingsError(f"{name}: unknown; write {ENVIRONMENT_PREFIX}SECTION__KEY")
        branch = tree
        for part in path[:-1]:
            branch = branch.setdefault(part, {})
        branch[path[-1]] = value.split(",") if path[-1].startswith("allow_") else value
    return tree


def _merge(tree: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping):
            branch = tree.setdefault(key, {})
            if isinstance(branch, dict):
                _merge(branch, value)
                continue
        if value is not None:
            tree[key] = value


def _check(settings: Settings) -> None:
    server = settings.server
    if not 0 <= server.port <= 65535:
        raise SettingsError(f"server.port: {server.port} is not between 0 and 65535")
    if server.health_port is not None and not 0 <= server.health_port <= 65535:
        raise SettingsError(f"server.health_port: {server.health_port} is not between 0 and 65535")
    for origin in server.allow_origin:
        if origin and _ORIGIN.fullmatch(origin) is None:
            raise SettingsError(
                f"server.allow_origin: {origin!r} is no origin of one place: write SCHEME://HOST or SCHEME://HOST:PORT,"
                " or file:// (null is never let in: any sandboxed page has it)"
            )
    if server.token is not None and not server.token.strip():
        raise SettingsError("server.token is empty: leave it out, or give one")
    if not is_loopback(server.host) and server.token is None:
        raise SettingsError(
            f"refusing to listen on {server.host} without a token: anyone there could run programs here"
            " (give --token or DRAGOMAN_TOKEN, or bind 127.0.0.1)"
        )
