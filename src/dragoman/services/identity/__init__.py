"""Identities: a key pair whose public half is an address, and signatures over JSON (docs/trust.md)."""

from .canonical import MOST_VALUES, canonical_forms
from .keys import Identity, IdentityProblem, KeyNotKept, load_or_create
from .signatures import address_of, signature_of, verifies

__all__ = [
    "MOST_VALUES",
    "Identity",
    "IdentityProblem",
    "KeyNotKept",
    "address_of",
    "canonical_forms",
    "load_or_create",
    "signature_of",
    "verifies",
]
