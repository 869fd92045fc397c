"""``dragoman serve``: every session, every dialect."""

from __future__ import annotations

import argparse

from .serving import flags_of, run_server, settings_of, until_stopped


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped."""
    flags = flags_of(arguments)
    flags["server"]["dialect"] = arguments.dialect
    settings = settings_of(arguments, flags)
    return run_server(settings, announce=arguments.json, work=until_stopped)
