"""What the native agent may run unasked (coworker spec §6.1)."""

from .classify import classify
from .repository import HARDENED
from .verdict import Reason, Verdict

__all__ = ["HARDENED", "Reason", "Verdict", "classify"]
