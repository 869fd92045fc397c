"""What was asked for wrongly."""

from __future__ import annotations


class UseError(Exception):
    """The server cannot start as asked: one line that says what to do (exit code 2)."""
