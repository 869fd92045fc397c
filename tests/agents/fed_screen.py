"""A screen fed like from a tape, with a clock that passes only when told to."""

from __future__ import annotations

from dragoman.agents.terminal.findings import Finding
from dragoman.agents.terminal.screen import PyavtScreen

BEGIN, END = b"\x1b[?2026h", b"\x1b[?2026l"


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FedScreen:
    """A screen that is fed like from a tape: offsets follow one another."""

    def __init__(self, cols: int = 20, rows: int = 6) -> None:
        self.clock = Clock()
        self.screen = PyavtScreen(cols, rows, clock=self.clock)
        self.end = 0

    def feed(self, *chunks: bytes) -> list[Finding]:
        findings = []
        for chunk in chunks:
            findings += self.screen.feed(chunk, self.end)
            self.end += len(chunk)
        return findings

    def lines(self) -> tuple[str, ...]:
        return self.screen.snapshot().lines

    def first(self) -> str:
        return self.lines()[0]
