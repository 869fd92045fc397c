"""Agents that run elsewhere and tell of themselves by their hooks and session logs only."""
