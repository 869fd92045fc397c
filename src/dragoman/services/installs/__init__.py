"""Installs: clients that registered without a login, each a user of its own, known again by a token (windie)."""

from .access import Access, AccessProblem, InvalidToken, MissingToken
from .installs import Installs
from .problems import InstallProblem, InstallsUnavailable, InvalidInstall, TooManyInstalls, TooOften
from .records import Install, InstallRecord, Registered
from .settings import InstallSettings

__all__ = [
    "Access",
    "AccessProblem",
    "Install",
    "InstallProblem",
    "InstallRecord",
    "InstallSettings",
    "Installs",
    "InstallsUnavailable",
    "InvalidInstall",
    "InvalidToken",
    "MissingToken",
    "Registered",
    "TooManyInstalls",
    "TooOften",
]
