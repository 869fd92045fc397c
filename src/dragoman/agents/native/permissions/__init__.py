"""What the native agent may run unasked (coworker spec §6.1)."""

from .classify import classify
from .verdict import Reason, Verdict

__all__ = ["Reason", "Verdict", "classify"]
