"""From a layer's JSON object to what it says. The environment is such an object, too.

    config.json      provider model subAgentModel outputDirectory uploadsDirectory userName knowledgeCutoff enableMcp
                     observabilityEnabled observability{otlpHttpEndpoint queryApi{logsBaseUrl metricsBaseUrl
                     tracesBaseUrl} defaultWindowSec} harness{reportOnly strictMode}
                     command{NAME{template description source}}

Other keys are others' business: these files are shared with programs that know more of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, get_args

import msgspec

from dragoman.hub.errors import NOT_JSON

from .files import FileProblem
from .said import Said, SaidCommand, SaidObservability
from .settings import WorkspaceSettings
from .values import Values

LONGEST_WINDOW = 366 * 24 * 3600
"""Seconds that a default window may have."""

_NAME_CHARS = 100
_MODEL_CHARS = 200
_PATH_CHARS = 4000
_DESCRIPTION_CHARS = 2000

_Source = Literal["command", "mcp", "skill"]
_SOURCES: tuple[_Source, ...] = get_args(_Source)

_VARIABLES = {
    "provider": "AGENT_PROVIDER",
    "model": "AGENT_MODEL",
    "workingDirectory": "AGENT_WORKING_DIR",
    "outputDirectory": "AGENT_OUTPUT_DIR",
    "uploadsDirectory": "AGENT_UPLOADS_DIR",
    "userName": "AGENT_USER_NAME",
    "enableMcp": "AGENT_ENABLE_MCP",
    "observabilityEnabled": "AGENT_OBSERVABILITY_ENABLED",
    "otlpHttpEndpoint": "AGENT_OBS_OTLP_HTTP",
    "logsBaseUrl": "AGENT_OBS_LOGS_URL",
    "metricsBaseUrl": "AGENT_OBS_METRICS_URL",
    "tracesBaseUrl": "AGENT_OBS_TRACES_URL",
    "defaultWindowSec": "AGENT_OBS_DEFAULT_WINDOW_SEC",
    "reportOnly": "AGENT_HARNESS_REPORT_ONLY",
    "strictMode": "AGENT_HARNESS_STRICT_MODE",
}
"""What each key is called in the environment."""

ENVIRONMENT_VARIABLES = tuple(_VARIABLES.values())
"""What is read of it."""

ENVIRONMENT = "the environment"
"""What lines call that layer."""


def json_object(data: bytes) -> dict[str, object]:
    """A file's JSON object. Raises ``FileProblem``."""
    try:
        given = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except NOT_JSON:
        raise FileProblem("it is no JSON") from None
    if not isinstance(given, dict):
        raise FileProblem("it is no JSON object")
    return given


class LayerReader:
    """Reads what layers say. ``providers`` are those that there are: another one's name counts as nothing said."""

    def __init__(self, providers: Collection[str], settings: WorkspaceSettings) -> None:
        self._providers = providers
        self._settings = settings

    def file(self, given: Mapping[str, object], where: str, problems: list[str], *, project: bool) -> Said:
        """A ``config.json``. A project may name addresses on this machine only."""
        values = Values(given, where, problems)
        observability = _observability(values, values.inside("observability"), only_here=project)
        return self._said(values, values.inside("harness"), observability, self._commands(values.inside("command")))

    def environment(self, environment: Mapping[str, str], problems: list[str]) -> Said:
        """The ``AGENT_*`` variables."""
        given = {key: environment[name] for key, name in _VARIABLES.items() if name in environment}
        values = Values(given, ENVIRONMENT, problems, spelled=_VARIABLES)
        said = self._said(values, values, _observability(values, values, only_here=False, queries=values), {})
        return msgspec.structs.replace(said, working_directory=values.text("workingDirectory", _PATH_CHARS))

    def _said(
        self, values: Values, harness: Values, observability: SaidObservability, commands: dict[str, SaidCommand]
    ) -> Said:
        provider, model, sub_agent_model = self._models(values)
        return Said(
            provider=provider,
            model=model,
            sub_agent_model=sub_agent_model,
            output_directory=values.text("outputDirectory", _PATH_CHARS),
            uploads_directory=values.text("uploadsDirectory", _PATH_CHARS),
            user_name=values.text("userName", _NAME_CHARS),
            knowledge_cutoff=values.text("knowledgeCutoff", _NAME_CHARS),
            enable_mcp=values.flag("enableMcp"),
            report_only=harness.flag("reportOnly"),
            strict_mode=harness.flag("strictMode"),
            observability=observability,
            commands=commands,
        )

    def _models(self, values: Values) -> tuple[str | None, str | None, str | None]:
        provider = values.text("provider", _NAME_CHARS)
        model, sub_agent_model = (values.text(key, _MODEL_CHARS) for key in ("model", "subAgentModel"))
        if provider is None or provider in self._providers:
            return provider, model, sub_agent_model
        values.problem("provider", "no provider has that name; models that are named with it are skipped, too")
        return None, None, None

    def _commands(self, values: Values) -> dict[str, SaidCommand]:
        commands: dict[str, SaidCommand] = {}
        for key in values.keys():  # noqa: SIM118 - Values is no mapping
            name = key.strip()
            if not name or len(name) > _NAME_CHARS or not name.isprintable():
                values.problem(key, "a command's name has 1 to 100 characters that can be shown")
            elif len(commands) >= self._settings.commands:
                values.problem(key, f"there are more than {self._settings.commands} commands")
                break
            elif (command := self._command(name, values.inside(key))) is not None:
                commands[name.casefold()] = command
        return commands

    def _command(self, name: str, values: Values) -> SaidCommand | None:
        command = SaidCommand(
            name=name,
            template=values.text("template", self._settings.config_bytes, lines=True, blank=True),
            description=values.text("description", _DESCRIPTION_CHARS, lines=True),
            source=values.choice("source", _SOURCES),
        )
        nothing = command.template is None and command.description is None and command.source is None
        return None if nothing else command


def _observability(top: Values, values: Values, *, only_here: bool, queries: Values | None = None) -> SaidObservability:
    queries = queries or values.inside("queryApi")
    return SaidObservability(
        enabled=top.flag("observabilityEnabled"),
        otlp_endpoint=values.address("otlpHttpEndpoint", only_here=only_here),
        logs=queries.address("logsBaseUrl", only_here=only_here),
        metrics=queries.address("metricsBaseUrl", only_here=only_here),
        traces=queries.address("tracesBaseUrl", only_here=only_here),
        default_window=values.whole("defaultWindowSec", 1, LONGEST_WINDOW),
    )
