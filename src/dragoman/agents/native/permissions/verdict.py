"""What a command's classification says."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Why a command was judged as it was, spelled as the coworker seed's ``reasonCode``."""

    SAFE = "safe_auto_approved"
    DANGEROUS = "matches_dangerous_pattern"
    OPERATOR = "contains_shell_control_operator"
    OUTSIDE = "outside_allowed_scope"
    READS_FILES = "file_read_command_requires_review"
    REVIEW = "requires_manual_review"


class Verdict(NamedTuple):
    """One of three kinds: approved unasked, asked, asked with the word "dangerous". The reason decides which."""

    reason: Reason

    @property
    def approved(self) -> bool:
        """Whether the command may run without asking anyone."""
        return self.reason is Reason.SAFE

    @property
    def dangerous(self) -> bool:
        """Whether the person who is asked is warned."""
        return self.reason is Reason.DANGEROUS
