"""Trust: who is let in, and what they may do (docs/trust.md)."""

from .callers import AdminOutcome, Caller, Onboarded, Onboarding, PaymentVerifier, Refused, Signed
from .policy import PolicyProblem
from .settings import TrustSettings
from .trust import Trust

__all__ = [
    "AdminOutcome",
    "Caller",
    "Onboarded",
    "Onboarding",
    "PaymentVerifier",
    "PolicyProblem",
    "Refused",
    "Signed",
    "Trust",
    "TrustSettings",
]
