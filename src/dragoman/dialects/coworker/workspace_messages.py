"""What the server says of tools, commands, skills, backups, and what can be watched (seed: Server -> Client Events)."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from dragoman.hub.events import Json
from dragoman.services.observability.queries import QueryResult
from dragoman.services.observability.slo import SloResult

from .messages import ServerMessage, Shape

BackupReason = Literal["requested", "auto_checkpoint", "manual_checkpoint", "restore", "delete"]


# Tools, commands, skills


class Tools(ServerMessage, frozen=True, kw_only=True, tag="tools"):
    """Names of the agent's own tools, sorted."""

    tools: tuple[str, ...]


class CommandInfo(Shape, frozen=True, kw_only=True):
    """Seed: ``CommandInfo``."""

    name: str
    description: str | UnsetType = UNSET
    source: Literal["command", "mcp", "skill"]
    hints: tuple[str, ...]


class Commands(ServerMessage, frozen=True, kw_only=True, tag="commands"):
    """The slash commands of this folder."""

    commands: tuple[CommandInfo, ...]


class SkillInterface(Shape, frozen=True, kw_only=True):
    """How a UI may show a skill."""

    display_name: str | UnsetType = UNSET
    short_description: str | UnsetType = UNSET
    icon_small: str | UnsetType = UNSET
    icon_large: str | UnsetType = UNSET
    default_prompt: str | UnsetType = UNSET
    agents: tuple[str, ...] | UnsetType = UNSET


class SkillEntry(Shape, frozen=True, kw_only=True):
    """One skill."""

    name: str
    path: str
    source: Literal["project", "global", "user", "built-in"]
    enabled: bool
    triggers: tuple[str, ...]
    description: str
    interface: SkillInterface | UnsetType = UNSET


class SkillsList(ServerMessage, frozen=True, kw_only=True, tag="skills_list"):
    """Every skill of this folder, those that are switched off among them."""

    skills: tuple[SkillEntry, ...]


class SkillContent(ServerMessage, frozen=True, kw_only=True, tag="skill_content"):
    """One skill with its text."""

    skill: SkillEntry
    content: str


# Backups


class Checkpoint(Shape, frozen=True, kw_only=True):
    """Seed: ``SessionBackupCheckpoint``. ``patch_bytes`` is what it takes on disk."""

    id: str
    index: int
    created_at: str
    trigger: Literal["auto", "manual"]
    changed: bool
    patch_bytes: int


class OriginalSnapshot(Shape, frozen=True, kw_only=True):
    """What the session began with."""

    kind: Literal["pending", "directory", "tar_gz"]


class Backup(Shape, frozen=True, kw_only=True):
    """Seed: ``SessionBackupState``."""

    status: Literal["initializing", "ready", "failed"]
    session_id: str
    working_directory: str
    backup_directory: str | None
    created_at: str
    original_snapshot: OriginalSnapshot
    checkpoints: tuple[Checkpoint, ...]
    failure_reason: str | UnsetType = UNSET


class SessionBackupState(ServerMessage, frozen=True, kw_only=True, tag="session_backup_state"):
    """The checkpoints of the session's folder, and why they are told."""

    reason: BackupReason
    backup: Backup


# Observability and harness


class QueryApi(Shape, frozen=True, kw_only=True):
    """Where the stores are."""

    logs_base_url: str
    metrics_base_url: str
    traces_base_url: str


class ObservabilityConfig(Shape, frozen=True, kw_only=True):
    """There also where it is switched off."""

    mode: Literal["local_docker"] = "local_docker"
    otlp_http_endpoint: str
    query_api: QueryApi
    default_window_sec: int


class ObservabilityStatus(ServerMessage, frozen=True, kw_only=True, tag="observability_status"):
    """At link start."""

    enabled: bool
    observability: ObservabilityConfig


class HarnessContext(ServerMessage, frozen=True, kw_only=True, tag="harness_context"):
    """What the run is about; null while nobody said so."""

    context: Json


class ObservabilityQueryResult(ServerMessage, frozen=True, kw_only=True, tag="observability_query_result"):
    """What a store answered."""

    result: QueryResult


class HarnessSloResult(ServerMessage, frozen=True, kw_only=True, tag="harness_slo_result"):
    """Whether what was promised holds."""

    result: SloResult
