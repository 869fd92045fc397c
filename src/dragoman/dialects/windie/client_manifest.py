"""The tools that a client can run itself, as it declares them in its agent definition (spec §3; seed: Handshake).

A manifest never fails a handshake: what is wrong with an entry is its reason in ``client-tool-manifest``, and the
entries beside it hold.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Literal

import msgspec

MOST_TOOLS = 64
MANIFEST_CHARACTERS = 512_000
SCHEMA_CHARACTERS = 64_000
SCHEMA_DEPTH = 12
DESCRIPTION_CHARACTERS = 2000

RESERVED_GROUNDING = ("grounded_mouse_action", "grounded_scroll_action")
RESERVED = frozenset({"web_search", "webSearch", *RESERVED_GROUNDING})
"""The contract's, and the name by which the model knows the first."""

ExecutionTarget = Literal["local_runtime"]
ArgumentResolution = Literal["passthrough", "backend_grounding"]

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,95}")
_LOCAL = ("local_runtime", "sidecar")
"""The seed's word, and the one that older clients have for it."""

_SCHEMA_KEYS = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "default",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "oneOf",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
    }
)
_SCHEMA_FIELDS = ("model_schema", "schema", "parameters")
"""Where a tool's schema is looked for; the first that is there counts."""

_DATA_KEYS = frozenset({"default", "const", "enum"})
"""Their values are data of the tool's, whatever keys those have: no schemas."""

_NAMED_SCHEMAS = frozenset({"properties", "$defs"})
"""Their values name schemas, and any name will do."""


class AcceptedTool(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that holds, as ``client-tool-manifest`` shows it. ``model_schema`` is what the model is shown,
    ``execution_schema`` what the client is called with; both are JSON schemas."""

    name: str
    description: str
    execution_target: ExecutionTarget
    model_schema: dict[str, Any]
    execution_schema: dict[str, Any]
    argument_resolution: ArgumentResolution
    optional: bool


class RejectedTool(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that does not. The name is ``#<index>`` when it has none, and empty for the manifest as a whole."""

    name: str
    reason: str


class _Rejection(Exception):
    """Why an entry does not hold."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.name = name


def validate_manifest(
    manifest: object, *, overridable: Collection[str] = ()
) -> tuple[tuple[AcceptedTool, ...], tuple[RejectedTool, ...]]:
    """The entries that hold, and those that do not with the first reason that they do not, each in their order.

    ``manifest`` is any JSON value. ``overridable`` are reserved names that the server lets a client have.
    Raises nothing.
    """
    try:
        entries = _entries(manifest)
    except _Rejection as whole:
        return (), (RejectedTool(name="", reason=whole.reason),)
    accepted: dict[str, AcceptedTool] = {}
    rejected: list[RejectedTool] = []
    for index, entry in enumerate(entries):
        try:
            tool = _tool(entry, accepted, overridable)
        except _Rejection as why:
            rejected.append(RejectedTool(name=why.name or f"#{index}", reason=why.reason))
        else:
            accepted[tool.name] = tool
    return tuple(accepted.values()), tuple(rejected)


def _entries(manifest: object) -> list[Any]:
    if not isinstance(manifest, dict):
        raise _Rejection("client_tool_manifest must be an object")
    characters = _characters(manifest)
    if characters is None:
        raise _Rejection("client_tool_manifest must be JSON serializable")
    if characters > MANIFEST_CHARACTERS:
        raise _Rejection("client_tool_manifest exceeds size limit")
    entries = manifest.get("tools")
    if not isinstance(entries, list):
        raise _Rejection("client_tool_manifest.tools must be a list")
    if len(entries) > MOST_TOOLS:
        raise _Rejection(f"client_tool_manifest.tools cannot exceed {MOST_TOOLS} tools")
    return entries


def _tool(entry: object, accepted: Collection[str], overridable: Collection[str]) -> AcceptedTool:
    if not isinstance(entry, dict):
        raise _Rejection("tool entry must be an object")
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _Rejection("tool name is required")
    try:
        return _named_tool(name, entry, accepted, overridable)
    except _Rejection as why:
        raise _Rejection(why.reason, name) from None


def _named_tool(
    name: str, entry: dict[str, Any], accepted: Collection[str], overridable: Collection[str]
) -> AcceptedTool:
    if _NAME.fullmatch(name) is None:
        raise _Rejection("tool name does not match allowed pattern")
    if name in accepted:
        raise _Rejection("duplicate tool name")
    if name in RESERVED and name not in overridable:
        raise _Rejection("reserved backend tool names cannot be overridden")
    description = _description(entry)
    target = _execution_target(entry)
    resolution = _argument_resolution(entry)
    schema = _schema(next((entry[key] for key in _SCHEMA_FIELDS if entry.get(key) is not None), None), "schema")
    execution_schema = entry.get("execution_schema")
    return AcceptedTool(
        name=name,
        description=description,
        execution_target=target,
        model_schema=schema,
        execution_schema=schema if execution_schema is None else _schema(execution_schema, "execution_schema"),
        argument_resolution=resolution,
        optional=entry.get("optional") is True,
    )


def _description(entry: dict[str, Any]) -> str:
    description = entry.get("description")
    if not isinstance(description, str) or not description.strip():
        raise _Rejection("description is required")
    if len(description) > DESCRIPTION_CHARACTERS:
        raise _Rejection("description exceeds length limit")
    return description


def _execution_target(entry: dict[str, Any]) -> ExecutionTarget:
    target = entry.get("execution_target")
    if target is None or target in _LOCAL:
        return "local_runtime"
    if target == "backend":
        raise _Rejection("client manifests cannot add backend tools")
    raise _Rejection("invalid execution_target")


def _argument_resolution(entry: dict[str, Any]) -> ArgumentResolution:
    resolution = entry.get("argument_resolution")
    if resolution is None or resolution == "passthrough":
        return "passthrough"
    if resolution == "backend_grounding":
        return "backend_grounding"
    raise _Rejection("invalid argument_resolution")


def _schema(schema: object, field: str) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise _Rejection(f"{field} must be an object")
    why = schema_problem(schema)
    if why is not None:
        raise _Rejection(f"invalid {field}: {why}")
    return schema


def schema_problem(schema: dict[str, Any]) -> str | None:
    """Why this is outside the subset of JSON schema that a client may use; None when it is inside.

    The upstream walks into ``default``, ``const``, ``enum`` and ``$defs`` as if they were schemas, and so refuses
    defaults that are objects and every named definition. Here the first three are data and ``$defs`` is read as
    ``properties`` is. Depth holds for data, too.
    """
    characters = _characters(schema)
    if characters is None or characters > SCHEMA_CHARACTERS:
        return "schema exceeds size limit"
    # A stack, not recursion: it is the client that decides how deep this goes.
    waiting: list[tuple[object, int, bool]] = [(schema, 0, True)]
    while waiting:
        value, depth, is_schema = waiting.pop()
        if depth > SCHEMA_DEPTH:
            return "schema exceeds depth limit"
        why = _keys_problem(value) if is_schema and isinstance(value, dict) else None
        if why is not None:
            return why
        below = ((child, depth + 1, schema_below) for child, schema_below in _children(value, is_schema))
        waiting.extend(reversed(tuple(below)))
    return None


def _keys_problem(schema: dict[str, Any]) -> str | None:
    for key, value in schema.items():
        if key not in _SCHEMA_KEYS:
            return f"unsupported schema key '{key}'"
        if key in _NAMED_SCHEMAS and not isinstance(value, dict):
            return f"{key} must be an object"
    return None


def _children(value: object, is_schema: bool) -> Iterator[tuple[object, bool]]:
    """The objects and lists in this one, and whether each is a schema, or holds some."""
    if isinstance(value, list):
        yield from ((entry, is_schema) for entry in value if isinstance(entry, (dict, list)))
    elif isinstance(value, dict):
        for key, entry in value.items():
            if is_schema and key in _NAMED_SCHEMAS:
                yield from ((named, True) for named in entry.values() if isinstance(named, (dict, list)))
            elif isinstance(entry, (dict, list)):
                yield entry, is_schema and key not in _DATA_KEYS


def _characters(value: object) -> int | None:
    """The length of the value as compact JSON; None when there is no such."""
    try:
        return len(str(msgspec.json.encode(value), "utf-8"))
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
        return None
