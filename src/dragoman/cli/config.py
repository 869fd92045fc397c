"""``dragoman config``: the settings that hold, as JSON, secrets masked."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from dragoman.server.settings import default_file, load, printable


def run(arguments: argparse.Namespace) -> int:
    """Print the tree."""
    file = Path(arguments.config) if arguments.config else default_file(os.environ)
    print(json.dumps(printable(load(file, os.environ, {})), indent=2))
    return 0
