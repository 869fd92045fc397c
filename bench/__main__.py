"""``python -m bench``: one table of what ours does, beside what the bare libraries do in the same run."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import signal
import sys
import time
from importlib.metadata import version
from pathlib import Path

from .plan import full, quick
from .processes import CORES, pin_client, scratch, used_by_others
from .rows import Row, skipped, table

WORKLOADS = ("throughput", "echo", "stuck", "journal", "startup", "memory", "models", "coworker", "onion", "events")
LIBRARIES = ("uvicorn", "websockets", "uvloop", "msgspec", "pyavt")


def main() -> None:
    """Measure, print the table, and leave with 1 if something could not be measured."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything that was started is ended
    pin_client()
    sections: list[tuple[str, str, list[Row]]] = []
    failed = False
    began, others = time.monotonic(), used_by_others()
    for name in arguments.only or WORKLOADS:
        print(f"{name} …", end=" ", file=sys.stderr, flush=True)
        start = time.monotonic()
        workload = importlib.import_module(f"bench.workloads.{name}")
        rows: list[Row] = []
        with scratch() as folder:
            plan = (quick if arguments.quick else full)(folder, arguments.peers)
            try:
                rows.extend(workload.run(plan))
            except Exception as problem:  # noqa: BLE001  the other workloads can still be measured
                rows.append(skipped("the rest", f"{type(problem).__name__}: {problem}"))
                failed = True
        sections.append((name, workload.TITLE, rows))
        print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    taken = time.monotonic() - began
    disturbed = None if others is None else ((used_by_others() or 0.0) - others) / taken
    print(_headline(arguments.quick, taken, disturbed))
    print(table([(title, rows) for _, title, rows in sections]))
    if arguments.json is not None:
        every = [row.as_json(name) for name, _, rows in sections for row in rows]
        arguments.json.write_text(
            json.dumps({"machine": _machine(), "quick": arguments.quick, "others": disturbed, "rows": every}, indent=1)
        )
    raise SystemExit(1 if failed else 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=WORKLOADS,
        metavar="NAME",
        help=f"one of {', '.join(WORKLOADS)}; may be repeated",
    )
    parser.add_argument("--quick", action="store_true", help="less of everything: noisier, in a quarter of the time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements to this file")
    parser.add_argument(
        "--peers", type=Path, metavar="DIR", help="compare with ptymini and terminado, in a virtual environment there"
    )
    return parser


def _machine() -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "pinned": CORES is not None,
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _headline(is_quick: bool, taken: float, disturbed: float | None) -> str:
    """What ran where. ``disturbed`` is how much of a core other programs used meanwhile: it explains odd figures."""
    machine = _machine()
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    pinned = "server on one, clients on another" if CORES is not None else "not pinned"
    others = "" if disturbed is None else f"; other programs used {disturbed:.0%} of a core meanwhile"
    return (
        f"{machine['cores']} cores ({pinned}), Python {machine['python']}, {libraries}\n"
        f"{'quick run, ' if is_quick else ''}{taken:.0f} s{others}\n"
    )


if __name__ == "__main__":
    main()
