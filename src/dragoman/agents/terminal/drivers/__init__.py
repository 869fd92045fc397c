"""Drivers: what knows a coding agent's TUI, watches what it does, and hands it prompts and answers."""
