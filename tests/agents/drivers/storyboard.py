"""A program that shows recorded screens one after the other and writes down every read of its input, by the clock.

``python storyboard.py FILE`` with ``{"log": path, "steps": [...]}``. A step has ``lines`` and ``cursor``, and what
leads on: ``until`` (input that holds this), ``after`` (seconds). ``deaf``: seconds in which nothing is read.
``ignore``: how often ``until`` has no effect. The last step stays. A line of the log is ``[seconds, step, text]``.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
import tty
from typing import Any

START = "\x1b[?2004h"


def draw(step: dict[str, Any]) -> None:
    """The whole screen of a step."""
    row, col = step["cursor"]
    rows = "".join(f"\x1b[{at};1H{line}" for at, line in enumerate(step["lines"], 1))
    os.write(1, f"\x1b[2J{rows}\x1b[{row + 1};{col + 1}H".encode())


def play(steps: list[dict[str, Any]], log: str) -> None:
    """Until the terminal is gone."""
    for number, step in enumerate(steps):
        draw(step)
        time.sleep(step.get("deaf", 0))
        read, ignored = "", step.get("ignore", 0)
        ends = time.monotonic() + step["after"] if "after" in step else None
        while True:
            wait = None if ends is None else max(0.0, ends - time.monotonic())
            if not select.select([0], [], [], wait)[0]:
                break
            data = os.read(0, 65536)
            if not data:
                return
            with open(log, "a") as file:  # noqa: PTH123 - started without the site module, for speed
                file.write(json.dumps([time.monotonic(), number, data.decode(errors="replace")]) + "\n")
            read += data.decode(errors="replace")
            if "until" in step and step["until"] in read:
                if not ignored:
                    break
                read, ignored = "", ignored - 1


if __name__ == "__main__":
    with open(sys.argv[1]) as given:  # noqa: PTH123
        told = json.load(given)
    tty.setraw(0)
    os.write(1, START.encode())
    play(told["steps"], told["log"])
