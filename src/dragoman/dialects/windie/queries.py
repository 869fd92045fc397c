"""Queries: one after the other in each conversation, stopped by name (spec §5 query, stop-query)."""

from __future__ import annotations


class Lanes:
    """The queries of one user that wait or run, by conversation."""
