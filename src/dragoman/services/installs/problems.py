"""What the install service refuses, as types. None of them says anything of a token."""

from __future__ import annotations


class InstallProblem(Exception):
    """Base of what is refused here. The message is for people, and names the setting that stands in the way."""


class InstallsUnavailable(InstallProblem):
    """The store cannot be read or written now (disk full or read-only, a damaged file): nothing was changed."""


class InvalidInstall(InstallProblem):
    """What a client says of itself cannot be."""


class TooManyInstalls(InstallProblem):
    """As many are kept as may be."""


class TooOften(InstallProblem):
    """This address has registered too often; ``seconds``, whole and at least 1, until it may again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many registrations; wait {seconds} seconds (installs.registrations_per_minute)")
        self.seconds = seconds
