"""What is counted of links and requests, by dialect."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.services.observability.figures import Counted, Family


class Traffic:
    """The counts of one application."""

    def __init__(self) -> None:
        self._open = Counted(name="dragoman_links_open", help="Open links.", labels=("dialect",), grows=False)
        self._opened = Counted(name="dragoman_links", help="Links opened.", labels=("dialect",))
        self._requests = Counted(
            name="dragoman_http_requests", help="HTTP requests answered.", labels=("dialect", "status")
        )

    def opened(self, dialect: str) -> None:
        """A link was opened."""
        self._open.add(1, dialect)
        self._opened.add(1, dialect)

    def closed(self, dialect: str) -> None:
        """A link that was opened is gone."""
        self._open.add(-1, dialect)

    def answered(self, dialect: str, status: int) -> None:
        """A request was answered with this status."""
        self._requests.add(1, dialect, f"{status // 100}xx")

    def families(self) -> Iterable[Family]:
        """All counts."""
        return (self._open, self._opened, self._requests)
