"""How much a hook, or a line of an agent's log, may bring, measured before it is taken apart."""

from __future__ import annotations

from .errors import LimitReached
from .limits import HubLimits
from .sizes import holds_more


def check_hook_payload(raw: bytes, limits: HubLimits, what: str = "a hook") -> None:
    """Raise ``LimitReached`` for JSON that is too long, or of too many values. ``what`` brings it.

    Text costs next to nothing, be it megabytes of a file; what stalls everybody is to make an object of each of a
    million ``{}``. No thread would help: the interpreter is held until the last of them is made.
    """
    if len(raw) > limits.hook_bytes:
        raise LimitReached(f"{what} brings more than {limits.hook_bytes} bytes (hub.hook_bytes)")
    if holds_more(raw, limits.hook_values):
        raise LimitReached(f"{what} brings more than {limits.hook_values} values (hub.hook_values)")
