"""Whether an agent may stop, and what it is told when it may not (coop's stop hook)."""

from __future__ import annotations

import msgspec

from dragoman.hub.events import HookAnswered
from dragoman.hub.hook_config import StopConfig, StopSchema
from dragoman.hub.ports import StopVerdict
from dragoman.hub.standing import StopSignal

HOPELESS = frozenset({"unauthorized", "out_of_credits"})
"""Categories of errors that going on cannot mend."""

_DONE = '{"status":"done","message":"<summary>"}'
_CONTINUE = '{"status":"continue","message":"<what is left>"}'


class Stop(msgspec.Struct, frozen=True):
    """The verdict, and the fact that must be durable before it is given. That fact uses the signal up, if one did."""

    verdict: StopVerdict
    fact: HookAnswered


def decide(
    config: StopConfig,
    *,
    stop_hook_active: bool,
    error_category: str | None,
    error_detail: str | None,
    pending: StopSignal | None,
    last_message: str | None,
    send_command: str,
    agent_session: str | None = None,
) -> Stop:
    """The first that holds: always allowed, safety valve, an error without hope, a signal; else blocked.

    ``error_category`` is that of the agent's state now, None when it is not in error. A signal is used up only by the
    stop that it allows. ``send_command`` is what gives one from the agent's own shell.
    """
    signal, detail, reason = None, None, None
    if config.mode == "allow":
        kind = "allowed"
    elif stop_hook_active:
        kind = "safety_valve"
    elif error_category in HOPELESS:
        kind, detail = "error", error_detail
    elif pending is not None:
        kind, signal = "signaled", pending.body
    else:
        kind, reason = "blocked", block_reason(config, send_command)
    return Stop(
        StopVerdict(type=kind, reason=reason, last_message=last_message),
        HookAnswered(
            hook="stop",
            verdict=kind,
            signal=signal,
            error_detail=detail,
            agent_session=agent_session,
            stop_hook_active=stop_hook_active,
        ),
    )


def block_reason(config: StopConfig, send_command: str) -> str:
    """What the agent is told to do instead of stopping: commands that it can run as they stand."""
    lines = [config.prompt] if config.prompt else []
    fields = config.schema.fields if config.schema is not None else {}
    choices = [name for name, field in fields.items() if field.enum]
    if config.mode == "gate":
        lines = lines or ["You may not stop yet: somebody else decides when this work is done. Go on with it."]
    elif config.schema is not None and len(choices) == 1:
        lines += _choice(config.schema, choices[0], send_command)
    elif config.schema is not None and fields:
        lines.append(f"When you are ready to stop, run: {_command(send_command, example(config.schema))}")
    elif config.prompt and "{" in config.prompt and "}" in config.prompt:
        lines.append(f"When you are ready to stop, run: {_command(send_command, '<json>')}")
    else:
        lines += [
            f"1. When the work is done, run: {_command(send_command, _DONE)}",
            f"2. When some of it is left, say so and go on: {_command(send_command, _CONTINUE)}",
            "3. When you need to know more, ask the user.",
        ]
    return "\n".join(lines)


def example(schema: StopSchema, name: str = "", value: str = "") -> str:
    """A body of that form as compact JSON, keys sorted, ``value`` in ``name``.

    Other fields hold the first value that they may have, or a placeholder.
    """
    body = {key: field.enum[0] if field.enum else f"<{key}>" for key, field in sorted(schema.fields.items())}
    if name:
        body[name] = value
    return msgspec.json.encode(body).decode()


def _choice(schema: StopSchema, name: str, send_command: str) -> list[str]:
    field = schema.fields[name]
    lines = ["Before you stop, say which it is by running one of:"]
    for number, value in enumerate(field.enum or (), 1):
        lines.append(f"{number}. {(field.descriptions or {}).get(value, value)}")
        lines.append(f"    {_command(send_command, example(schema, name, value))}")
    return lines


def _command(send_command: str, body: str) -> str:
    """Ready to run, in backticks; a quote in the JSON must not end the shell's."""
    quoted = body.replace("'", "'\\''")
    return f"`{send_command} '{quoted}'`"
