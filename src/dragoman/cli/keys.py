"""``dragoman keys``: the address of the host's own key, which is made when there is none. Its secret is never shown."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from dragoman.server.settings import config_places, default_file, load
from dragoman.services.identity import IdentityProblem, load_or_create

from .main import complain


def run(arguments: argparse.Namespace) -> int:
    """Print the address, or the key's file, or both."""
    if arguments.path and arguments.json:
        return complain("keys: --path or --json, not both")
    config, *_ = config_places(os.environ)
    file = Path(arguments.config) if arguments.config else default_file(os.environ)
    key = load(file, os.environ, {}).trust.host_key(config)
    new = not key.exists()
    try:
        address = load_or_create(key).address
    except IdentityProblem as problem:
        return complain(str(problem))
    if arguments.json:
        print(json.dumps({"address": address, "path": str(key)}))
    else:
        print(key if arguments.path else address)
    if new:
        print(f"dragoman: a new key is in {key}; keep a copy: who loses it loses the address", file=sys.stderr)
    return 0
