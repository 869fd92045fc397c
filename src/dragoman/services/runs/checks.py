"""Whether what was sent can be used: present, of a usable size, JSON that can be kept. Raises ``InvalidRun``."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from .errors import InvalidRun
from .messages import Action, Control, ControlMode, Dispatch, Heartbeat, Relay, RunRequest, StopAll
from .settings import RunsSettings


def check_request(request: RunRequest, settings: RunsSettings) -> None:
    """Raises ``InvalidRun``."""
    _check_name("workspace_id", request.workspace_id, settings)
    _check_optional("agent_id", request.agent_id, settings)
    _check_optional("requested_by", request.requested_by, settings)
    if not request.query:
        raise InvalidRun("query", "it is empty")
    _check_size("query", request.query, settings.query_bytes)
    if len(request.files) > settings.most_files:
        raise InvalidRun("files", f"there are {len(request.files)}, and {settings.most_files} at most")
    _check_size("files", request.files, settings.files_bytes)
    _check_size("metadata", request.metadata, settings.metadata_bytes)


def check_heartbeat(beat: Heartbeat, settings: RunsSettings) -> None:
    """Raises ``InvalidRun``."""
    for field in ("workspace_id", "worker_id", "vm_id", "user_id", "status"):
        _check_name(field, getattr(beat, field), settings)
    _check_optional("session_id", beat.session_id, settings)
    _check_size("metadata", beat.metadata, settings.metadata_bytes)


def check_control(control: Control, settings: RunsSettings) -> None:
    """Raises ``InvalidRun``, also for ``set-control-mode`` without a mode."""
    if control.action not in get_args(Action):
        raise InvalidRun("action", f"there is none of the name {str(control.action)[:100]!r}")
    if control.control_mode is not None and control.control_mode not in get_args(ControlMode):
        raise InvalidRun("control_mode", f"there is none of the name {str(control.control_mode)[:100]!r}")
    if control.action == "set-control-mode" and control.control_mode is None:
        raise InvalidRun("control_mode", "set-control-mode needs one")
    _check_optional("requested_by", control.requested_by, settings)


def check_stop_all(order: StopAll, settings: RunsSettings) -> None:
    """Raises ``InvalidRun``."""
    _check_optional("workspace_id", order.workspace_id, settings)
    _check_optional("requested_by", order.requested_by, settings)


def check_dispatch(dispatch: Dispatch, settings: RunsSettings) -> None:
    """Raises ``InvalidRun``."""
    _check_name("worker_id", dispatch.worker_id, settings)
    _check_name("turn_ref", dispatch.turn_ref, settings)
    _check_optional("user_id", dispatch.user_id, settings)
    _check_optional("conversation_ref", dispatch.conversation_ref, settings)


def check_relay(relay: Relay, settings: RunsSettings) -> None:
    """Raises ``InvalidRun``."""
    _check_name("event_type", relay.event_type, settings)
    _check_name("source", relay.source, settings)
    _check_size("payload", relay.payload, settings.payload_bytes)


def _check_name(field: str, given: str, settings: RunsSettings) -> None:
    if not given:
        raise InvalidRun(field, "it is empty")
    _check_optional(field, given, settings)


def _check_optional(field: str, given: str | None, settings: RunsSettings) -> None:
    if given is None:
        return
    if len(given) > settings.name_characters:
        raise InvalidRun(field, f"it has {len(given)} characters, and {settings.name_characters} at most")
    _check_size(field, given, 4 * settings.name_characters + 2)


def _check_size(field: str, given: Any, most: int) -> None:
    try:
        size = len(msgspec.json.encode(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRun(field, f"it is not JSON: {error}") from error
    if size > most:
        raise InvalidRun(field, f"it has {size} bytes, and {most} at most")
