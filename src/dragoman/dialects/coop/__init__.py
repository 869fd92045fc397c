"""Coop's wire protocol: one terminal session, watched and driven. Contract: coop's WebSocket page (the seed)."""

from .dialect import CoopDialect

__all__ = ["CoopDialect"]
