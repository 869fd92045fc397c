"""What can go wrong for a Windie client, beside what every client knows."""

from __future__ import annotations

from dragoman.client.errors import ClientError, ConnectionLost


class ReconnectFailed(ConnectionLost):
    """Every attempt to connect again failed. ``attempts`` is how many there were."""

    def __init__(self, attempts: int, problem: str) -> None:
        super().__init__(f"no connection after {attempts} attempts: {problem}")
        self.attempts = attempts


class OutOfSequence(ClientError):
    """Events of a turn were lost, or came without what identifies them: what the turn said is not known for certain.

    ``expected`` is the sequence that was due, ``got`` the one that came; None where the event had none.
    """

    def __init__(self, message: str, *, expected: int, got: int | None) -> None:
        super().__init__(message)
        self.expected = expected
        self.got = got


class TurnStopped(ClientError):
    """The turn was stopped by ``stop``: there is no final response."""


class EventsMissed(ClientError):
    """More events of a turn came than are kept for a reader that is late. ``count`` is how many were let go."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} events were let go, as nobody read them")
        self.count = count


class ToolNotUsable(ClientError):
    """A tool that was given to ``wake_up`` has no function, or not one that can be found."""


class McpUnavailable(ClientError):
    """An MCP server did not start, or the library that speaks with it is not installed. ``str()`` says what to do."""
