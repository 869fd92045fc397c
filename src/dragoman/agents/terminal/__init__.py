"""Programs on a PTY: spawned, watched, recorded, resized, and ended with everything they started."""

from .agent import TerminalAgent, TerminalFactory

__all__ = ["TerminalAgent", "TerminalFactory"]
