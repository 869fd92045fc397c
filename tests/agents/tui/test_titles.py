"""Window titles of the real agents."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.tui.titles import read_title


@pytest.mark.parametrize(
    ("agent", "title", "state"),
    [
        ("claude", "✳ Scripted session", "idle"),
        ("claude", "◐ Scripted session", "working"),
        ("claude", "⠂ Scripted session", "working"),
        ("claude", "Claude Code", None),  # its marks are gone once it reports its status
        ("claude", "", None),
        ("codex", "⠼ Scripted session | project", "working"),
        ("codex", "[ ! ] Action Required | Scripted session | project", "prompt"),
        ("codex", "[ . ] Action Required | project", "prompt"),
        ("codex", "project", "idle"),
        ("codex", "", None),
        ("gemini", "◇  Ready (project)   ", "idle"),
        ("gemini", "✦  Working… (project)", "working"),
        ("gemini", "✋  Action Required (project)", "prompt"),
        ("gemini", "", None),
        ("qwen", "Qwen - project", None),
        ("opencode", "OC | Scripted session", None),
        ("unknown", "✳ whatever", None),
    ],
)
def test_a_title_tells_the_state(agent: str, title: str, state: str | None) -> None:
    assert read_title(agent, title) == state
