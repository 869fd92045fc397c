"""What one record of a session log says: one function per agent, in a module of its own."""

from .claude_log import read_claude_line
from .codex_log import read_codex_line
from .gemini_log import read_gemini_line
from .qwen_log import read_qwen_line

__all__ = ["read_claude_line", "read_codex_line", "read_gemini_line", "read_qwen_line"]
