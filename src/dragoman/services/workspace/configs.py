"""What holds in a folder: the layers' files and the environment, merged into one ``WorkspaceConfig``.

Layers, the lowest first: built in, the person's (``~/.agent``), the project's (``.agent``), the environment. Opening a
folder must not give it power, so a project's word has less weight than its place says; docs/configuration.md has it key
by key.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import msgspec

from dragoman.hub.real_path import real_path
from dragoman.hub.workspace_config import (
    CommandTemplate,
    Layer,
    McpServer,
    Observability,
    QueryEndpoints,
    WorkspaceConfig,
)

from .files import FileCache, FileProblem, Once, same_folder
from .folders import Named, folder_of, working_folder
from .kept import Kept, marks_of, values_of
from .memory import NAME as AGENT
from .memory import MemoryFiles
from .reading import ENVIRONMENT, ENVIRONMENT_VARIABLES, LayerReader, json_object
from .said import BUILT_IN, Said, observability_together, together
from .servers import servers_of
from .settings import WorkspaceSettings

log = logging.getLogger("dragoman.workspace")

_CONFIG = ".agent/config.json"
_PERSON = f"~/{_CONFIG}"

BUILT_IN_DIRECTORY = "COWORK_BUILTIN_DIR"
"""Environment variable that may name a folder with ``config/defaults.json``, ``config/mcp-servers.json`` and
``skills``; what it says lies above what is built in."""

SERVERS = "mcp-servers.json"

VARIABLES = (BUILT_IN_DIRECTORY, *ENVIRONMENT_VARIABLES)
"""All that is looked at in the environment."""

MOST_PROBLEMS = 50
"""Lines of ``problems``; one more says how many are left out."""


class _Source(NamedTuple):
    """The files of one layer. ``inside``: what they must lie in."""

    layer: Layer
    folder: Path
    shown: str
    config: str = "config.json"
    inside: tuple[Path, ...] = ()


class _Layers(NamedTuple):
    """What each says, the lowest first."""

    built_in: Said
    person: Said
    project: Said
    environment: Said


class _Made(NamedTuple):
    """A configuration, and where its folders led."""

    config: WorkspaceConfig
    leads: tuple[str | None, ...]


class LayeredConfigs:
    """The ``WorkspaceConfigs`` port on files. They are looked at with each read, and read again once they changed.

    ``home`` is the person's home folder, ``environment`` the server's, both looked at anew each time. ``providers`` are
    the ids that a layer may name. ``now`` is in nanoseconds since 1970.
    """

    def __init__(
        self,
        home: Path,
        environment: Mapping[str, str],
        providers: Collection[str],
        *,
        settings: WorkspaceSettings | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._home = home
        self._environment = environment
        self._settings = settings or WorkspaceSettings()
        self._reader = LayerReader(providers, self._settings)
        self._files: FileCache[dict[str, object]] = FileCache(now=now)
        self._memory = MemoryFiles(self._settings.memory_bytes)
        self._said = Once()
        self._kept: Kept[_Made] = Kept(now=now)

    async def read(self, cwd: Path) -> WorkspaceConfig:
        """What holds in this folder now. Never fails for what a layer says: that layer's part is skipped."""
        return await asyncio.to_thread(self.read_blocking, cwd)

    def read_blocking(self, cwd: Path) -> WorkspaceConfig:
        """As ``read``, for who is in a thread already."""
        config = self._read(cwd)
        for problem in config.problems:
            if self._said.first(problem):
                log.warning("%s", problem)
        return config

    def _read(self, cwd: Path) -> WorkspaceConfig:
        sources = self._sources(cwd)
        marks = (*marks_of(_files(sources)), *values_of(self._environment, VARIABLES))
        kept = self._kept.get(cwd, marks)
        if kept is not None and kept.leads == _leads(cwd, kept.config):
            return kept.config
        config = self._made(cwd, sources)
        if not (config.problems or config.mcp_servers):  # what these lead to may change without a mark
            self._kept.keep(cwd, marks, _Made(config, _leads(cwd, config)))
        return config

    def _made(self, cwd: Path, sources: list[_Source]) -> WorkspaceConfig:
        problems: list[str] = []
        layers = self._layers(sources, problems)
        said = _merged(layers, cwd, problems)
        provider, model, sub_agent_model = _models(layers)
        working = working_folder(said.working_directory, cwd, self._home)
        output = self._folder("outputDirectory", [layer.output_directory for layer in layers], cwd, problems)
        uploads = self._folder("uploadsDirectory", [layer.uploads_directory for layer in layers], cwd, problems)
        project = next((source.folder for source in sources if source.layer == "project"), None)
        return WorkspaceConfig(
            provider=provider,
            model=model,
            sub_agent_model=sub_agent_model,
            working_directory=working,
            output_directory=output,
            uploads_directory=uploads,
            user_name=said.user_name,
            knowledge_cutoff=said.knowledge_cutoff,
            enable_mcp=bool(said.enable_mcp),
            observability=_observability(layers),
            report_only=bool(said.report_only),
            strict_mode=bool(said.strict_mode),
            commands=_commands(said),
            mcp_servers=self._servers(sources, cwd, problems),
            memory=self._memory.read(self._home / ".agent", project, problems, inside=(cwd,)),
            problems=_most_of(problems),
        )

    def _sources(self, cwd: Path) -> list[_Source]:
        """The folders of layers, the lowest first. A session in the person's home has no project layer of its own."""
        sources = []
        extra = self._environment.get(BUILT_IN_DIRECTORY, "")
        if Path(extra).is_absolute():
            folder = Path(extra) / "config"
            sources.append(_Source("built-in", folder, f"{BUILT_IN_DIRECTORY}: config", config="defaults.json"))
        person, project = self._home / ".agent", cwd / ".agent"
        sources.append(_Source("user", person, "~/.agent"))
        if not same_folder(person, project):
            sources.append(_Source("project", project, str(project), inside=(cwd,)))
        return sources

    def _layers(self, sources: list[_Source], problems: list[str]) -> _Layers:
        said = {"built-in": BUILT_IN, "user": Said(), "project": Said()}
        for source in sources:
            where = f"{source.shown}/{source.config}"
            given = self._object(source, source.config, where, problems)
            layer = self._reader.file(given, where, problems, project=source.layer == "project")
            said[source.layer] = together(said[source.layer], layer)
        environment = self._reader.environment(self._environment, problems)
        return _Layers(said["built-in"], said["user"], said["project"], environment)

    def _servers(self, sources: list[_Source], cwd: Path, problems: list[str]) -> tuple[McpServer, ...]:
        servers: dict[str, McpServer] = {}
        for source in sources:
            where = f"{source.shown}/{SERVERS}"
            given = self._object(source, SERVERS, where, problems)
            most = self._settings.servers
            servers |= servers_of(given, source.layer, where, problems, cwd=cwd, home=self._home, most=most)
        return tuple(servers.values())

    def _object(self, source: _Source, name: str, where: str, problems: list[str]) -> dict[str, object]:
        try:
            path, most = source.folder / name, self._settings.config_bytes
            return self._files.get(path, most, json_object, inside=source.inside) or {}
        except FileProblem as problem:
            problems.append(f"{where} is skipped: {problem}")
            return {}

    def _folder(self, key: str, said: list[str | None], cwd: Path, problems: list[str]) -> Path:
        places = ("built in", _PERSON, str(cwd / _CONFIG), ENVIRONMENT)
        named = [
            Named(text, where, project=where == places[2])
            for text, where in zip(said, places, strict=True)
            if text is not None
        ]
        return folder_of(key, reversed(named), cwd, self._home, problems)


def _leads(cwd: Path, config: WorkspaceConfig) -> tuple[str | None, ...]:
    """Where its folders really are: a link in the project may have come or gone."""
    return tuple(_real(path) for path in (cwd, config.output_directory, config.uploads_directory))


def _real(path: Path) -> str | None:
    try:
        return str(real_path(path))
    except (OSError, ValueError):
        return None


def _files(sources: list[_Source]) -> Iterator[Path]:
    """All that is read of them."""
    for source in sources:
        yield from (source.folder / name for name in (source.config, SERVERS, AGENT))


def _most_of(problems: list[str]) -> tuple[str, ...]:
    """They go into logs: a file full of nonsense has them say so, not all of it."""
    if len(problems) <= MOST_PROBLEMS:
        return tuple(problems)
    return (*problems[:MOST_PROBLEMS], f"{len(problems) - MOST_PROBLEMS} more things are skipped")


def _merged(layers: _Layers, cwd: Path, problems: list[str]) -> Said:
    project = layers.project
    # It may do without MCP. It may not turn on what the person turned off.
    if project.enable_mcp and layers.person.enable_mcp is False:
        problems.append(f"{cwd / _CONFIG}: 'enableMcp' is skipped: {_PERSON} says no")
        project = msgspec.structs.replace(project, enable_mcp=None)
    return reduce(together, (layers.built_in, layers.person, project, layers.environment))


def _models(layers: _Layers) -> tuple[str | None, str | None, str | None]:
    """The provider, its model and that of sub-agents.

    A layer that names a provider names models of that provider: they mean nothing to another one that a higher layer
    chose, or that took its place because there is none of that name.
    """
    order = layers[::-1]
    provider = next((said.provider for said in order if said.provider is not None), None)
    fitting = [said for said in order if said.provider in (None, provider)]
    model = next((said.model for said in fitting if said.model is not None), None)
    sub_agent_model = next((said.sub_agent_model for said in fitting if said.sub_agent_model is not None), None)
    return provider, model, sub_agent_model


def _observability(layers: _Layers) -> Observability:
    """What a project says fills what the person leaves open: where telemetry goes is the person's to say."""
    order = layers.built_in, layers.project, layers.person, layers.environment
    said = observability_together(layer.observability for layer in order)
    assert said.otlp_endpoint is not None
    assert said.logs is not None
    assert said.metrics is not None
    assert said.traces is not None
    assert said.default_window is not None
    return Observability(
        enabled=bool(said.enabled),
        otlp_endpoint=said.otlp_endpoint,
        queries=QueryEndpoints(logs=said.logs, metrics=said.metrics, traces=said.traces),
        default_window=said.default_window,
    )


def _commands(said: Said) -> dict[str, CommandTemplate]:
    return {
        command.name: CommandTemplate(
            template=command.template, description=command.description or None, source=command.source or "command"
        )
        for command in said.commands.values()
        if command.template
    }
