"""``dragoman checkpoints``: images of a session's folder: which there are, a new one, going back, letting one go."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any
from urllib.parse import quote

from dragoman.client.hub_http import HubHttp

from .main import complain
from .reaching import Reach, reach
from .sessions import duration, printable

LIMIT = 600.0
"""Seconds for saving or restoring a folder; the server's own limits are lower."""

Saved = dict[str, Any]


def run(arguments: argparse.Namespace) -> int:
    """Do one of them. Exit code 1 when the folder could not be saved or restored, 2 when it was asked wrongly."""
    action, checkpoint = arguments.action, arguments.checkpoint
    if action == "delete" and checkpoint is None:
        return complain("checkpoints delete: which one? (dragoman checkpoints list SESSION lists them)")
    if action not in ("restore", "delete") and checkpoint is not None:
        return complain(f"checkpoints {action} takes a session and nothing else")

    async def work(server: Reach) -> int:
        session = (await server.find(arguments.session))["session"]
        shelf = Shelf(HubHttp(server.url, token=server.token, limit=LIMIT), session)
        match action:
            case "list":
                await shelf.show(as_json=arguments.json)
            case "take":
                print(f"the folder is saved as {printable((await shelf.take())['checkpoint'])}")
            case "restore":
                await shelf.restore(checkpoint)
            case "delete":
                await shelf.delete(checkpoint)
                print(f"{printable(checkpoint)} is gone")
            case "on" | "off":
                await shelf.want(on=action == "on")
                print("the folder is saved after each turn" if action == "on" else "it is saved by hand only")
        return 0

    return reach(work, arguments)


class Shelf:
    """The checkpoints of one session. Every call raises ``ClientError``."""

    def __init__(self, http: HubHttp, session: str) -> None:
        self._http = http
        self._session = f"/sessions/{quote(session, safe='')}"

    async def listed(self) -> Saved:
        """What the hub says of them."""
        found: Saved = await self._http.get(f"{self._session}/checkpoints")
        return found

    async def show(self, *, as_json: bool) -> None:
        """Print one line, or one JSON object, for each."""
        found = await self.listed()
        for saved in found["checkpoints"]:
            print(json.dumps(saved) if as_json else line(saved))
        if not found["checkpoints"] and not as_json:
            print("no checkpoints" if found["folder"] is not None else "no checkpoints: this server keeps none")

    async def take(self) -> Saved:
        """Save the folder."""
        saved: Saved = (await self._http.post(f"{self._session}/checkpoints"))["saved"]
        return saved

    async def restore(self, checkpoint: str | None) -> None:
        """Go back, and say how to come back from there."""
        given = {} if checkpoint is None else {"checkpoint": checkpoint}
        await self._http.post(f"{self._session}/restore", **given)
        print(f"the folder is again as {printable(checkpoint or 'the first checkpoint')} has it")
        safety = [saved for saved in (await self.listed())["checkpoints"] if saved["trigger"] == "safety"]
        if safety:
            print(f"what was there before is {printable(safety[-1]['checkpoint'])}")

    async def delete(self, checkpoint: str) -> None:
        """Let one go."""
        await self._http.delete(f"{self._session}/checkpoints/{quote(checkpoint, safe='')}")

    async def want(self, *, on: bool) -> None:
        """Whether the folder is to be saved after each turn."""
        await self._http.patch(self._session, settings={"checkpoints": True if on else None})


def line(saved: Saved) -> str:
    """``cp-0003  auto     2 min ago  changed     1.2 MB``"""
    if saved["problem"] is not None:
        what = f"failed: {saved['problem']}"
    else:
        what = f"{'changed' if saved['changed'] else 'as at first':<11}  {size(saved['size']):>9}"
    age = f"{duration(max(0.0, time.time() - saved['at'] / 1000))} ago"
    return printable("  ".join((f"{saved['checkpoint']:<8}", f"{saved['trigger']:<7}", f"{age:>10}", what)))


def size(count: int) -> str:
    """Bytes in the largest unit that fits."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
