"""Facts about the work itself: tasks, notices, artifacts, checkpoints."""

from __future__ import annotations

from typing import Literal

import msgspec

from .base import Fact, Json


class Todo(msgspec.Struct, frozen=True):
    """One task of the agent's list. ``active_form`` is its present-continuous label."""

    content: str
    status: Literal["pending", "in_progress", "completed"]
    active_form: str


class TodosChanged(Fact, frozen=True, tag="todos.changed"):
    """The whole task list, as it is now."""

    todos: tuple[Todo, ...]
    turn: str | None = None


class Notified(Fact, frozen=True, tag="notified"):
    """The agent wants attention."""

    message: str
    level: str | None = None
    kind: str | None = None


class ArtifactStored(Fact, frozen=True, tag="artifact.stored"):
    """A file entered the artifact store for this session."""

    artifact: str
    media_type: str
    size: int
    sha256: str
    name: str | None = None


class CheckpointTaken(Fact, frozen=True, tag="checkpoint.taken"):
    """The workspace was saved (or could not be: ``problem``). Ids never repeat."""

    checkpoint: str
    trigger: Literal["initial", "auto", "manual", "safety"]
    changed: bool = True
    size: int = 0
    problem: str | None = None
    detail: dict[str, Json] = {}


class CheckpointRestored(Fact, frozen=True, tag="checkpoint.restored"):
    """The workspace is again as that checkpoint has it."""

    checkpoint: str
    by: str | None = None


class CheckpointDeleted(Fact, frozen=True, tag="checkpoint.deleted"):
    """That checkpoint is gone."""

    checkpoint: str
    by: str | None = None
