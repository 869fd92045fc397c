"""The coworker dialect: agent-coworker protocol 3.0."""

from .dialect import CoworkerDialect

__all__ = ["CoworkerDialect"]
