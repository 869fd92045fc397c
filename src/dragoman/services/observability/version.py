"""Which version runs: asked for late and in threads, as looking it up takes a while."""

from __future__ import annotations


def running_version() -> str:
    """Our version as it is installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  slow

    try:
        return version("dragoman")
    except PackageNotFoundError:
        return "unknown"
