"""The scripted agent: does exactly what its prompt says. For tests, benchmarks and demonstrations."""

from .agent import ScriptedAgent, ScriptedFactory

__all__ = ["ScriptedAgent", "ScriptedFactory"]
