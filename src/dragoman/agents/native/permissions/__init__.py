"""What the native agent may run unasked."""

from .classify import classify
from .repository import HARDENED
from .verdict import Reason, Verdict

__all__ = ["HARDENED", "Reason", "Verdict", "classify"]
