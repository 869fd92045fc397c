"""Settings of what drives an agent's TUI (``[terminal.driver]``)."""

from __future__ import annotations

import msgspec


class DriverSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times are seconds."""

    input_delay: float = 0.2
    """Between a pasted prompt and its Enter, and between two deliveries."""

    input_delay_per_byte: float = 0.001
    """Added to that for each byte of a prompt beyond 256."""

    input_delay_max: float = 5.0
    """Longest wait between a prompt and its Enter."""

    nudge_timeout: float = 4.0
    """For evidence that a prompt was submitted, after its Enter and those that followed because it was swallowed."""

    options_timeout: float = 2.0
    """For a dialog's options to be found on the screen; then it is answered with Accept and Cancel."""

    answer_timeout: float = 5.0
    """For a dialog to be gone once it was answered."""

    interrupt_gap: float = 0.4
    """Between two keys that break off what the agent does."""

    look_interval: float = 0.05
    """Shortest time between two looks at the screen."""

    log_interval: float = 0.25
    """Between two looks at the agent's session log while it is at work."""

    hook_links: int = 256
    """An agent's hooks that are heard at once; the others wait their turn."""

    groom_delay: float = 0.5
    """Before a set-up dialog is answered by itself (``groom`` auto)."""
