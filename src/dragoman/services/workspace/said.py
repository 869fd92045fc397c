"""What one layer says, as far as it can be used; and what several say together.

None stands for nothing said. A higher layer's word takes the place of a lower one's, field by field: that is the deep
merge of the files, once each value was looked at where it came from. So a value that cannot be used hides none below.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

StructT = TypeVar("StructT", bound=msgspec.Struct)


class SaidCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command. ``name`` is spelled as the layer spells it; a blank ``template`` takes the command away."""

    name: str
    template: str | None = None
    description: str | None = None
    source: Literal["command", "mcp", "skill"] | None = None


class SaidObservability(msgspec.Struct, frozen=True, kw_only=True):
    """Where telemetry goes and can be asked for. ``default_window`` is in whole seconds, at least 1."""

    enabled: bool | None = None
    otlp_endpoint: str | None = None
    logs: str | None = None
    metrics: str | None = None
    traces: str | None = None
    default_window: int | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One layer's word. Folders are as they were written; the working one is the environment's
    to say. ``commands`` has casefolded names for keys."""

    provider: str | None = None
    model: str | None = None
    sub_agent_model: str | None = None
    working_directory: str | None = None
    output_directory: str | None = None
    uploads_directory: str | None = None
    user_name: str | None = None
    knowledge_cutoff: str | None = None
    enable_mcp: bool | None = None
    report_only: bool | None = None
    strict_mode: bool | None = None
    observability: SaidObservability = SaidObservability()
    commands: dict[str, SaidCommand] = {}


BUILT_IN = Said(
    output_directory="output",
    uploads_directory="uploads",
    enable_mcp=True,
    report_only=True,
    strict_mode=False,
    observability=SaidObservability(
        enabled=False,
        otlp_endpoint="http://127.0.0.1:4318",
        logs="http://127.0.0.1:9428",
        metrics="http://127.0.0.1:8428",
        traces="http://127.0.0.1:10428",
        default_window=300,
    ),
)
"""The lowest layer. It names no provider: the server's own settings do."""


def together(low: Said, high: Said) -> Said:
    """What two layers say, the higher one's word first."""
    commands = dict(low.commands)
    for key, command in high.commands.items():
        commands[key] = _over(commands[key], command) if key in commands else command
    merged = _over(low, high)
    observability = observability_together((low.observability, high.observability))
    return msgspec.structs.replace(merged, commands=commands, observability=observability)


def observability_together(layers: Iterable[SaidObservability]) -> SaidObservability:
    """What layers say, lowest first, of observability alone."""
    merged = SaidObservability()
    for layer in layers:
        merged = _over(merged, layer)
    return merged


def _over(low: StructT, high: StructT) -> StructT:
    said = {name: value for name in high.__struct_fields__ if (value := getattr(high, name)) is not None}
    return msgspec.structs.replace(low, **said)
