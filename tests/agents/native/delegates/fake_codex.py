"""A Codex that does what a script says: run as a real child, it speaks the app server's protocol on its pipes.

``python fake_codex.py SCRIPT JOURNAL ARGUMENT…``. The script is JSON: ``at`` says what it does with a request before
the turn (``hang``, ``die``, or an error's text) by method, ``turns`` the acts of each turn, one object each. What it
is sent, and how it was started, is written to the journal, a line each.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

Fields = dict[str, Any]

THREAD = "thread-1"


class Closed(Exception):
    """Nobody talks to it any more."""


class Interrupted(Exception):
    """It was asked to break off."""


class FakeCodex:
    """One run of it."""

    def __init__(self, script: Fields, journal: Path) -> None:
        self.script = script
        self.journal = journal
        self.ids = itertools.count(1)
        self.tokens = 0
        self.turn = ""

    def note(self, **entry: Any) -> None:
        with self.journal.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def say(self, message: Fields) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def tell(self, method: str, **params: Any) -> None:
        self.say({"method": method, "params": {"threadId": THREAD, "turnId": self.turn, **params}})

    def hear(self) -> Fields:
        line = sys.stdin.readline()
        if not line:
            raise Closed
        message: Fields = json.loads(line)
        self.note(heard=message)
        if message.get("method") == "turn/interrupt":
            self.say({"id": message["id"], "result": {}})
            raise Interrupted
        return message

    def run(self) -> None:
        turns = iter(self.script.get("turns", []))
        while True:
            try:
                message = self.hear()
            except Interrupted:
                continue
            method, number = message.get("method"), message.get("id")
            if number is None or method is None:
                continue
            self.misbehave(method, number)
            self.say({"id": number, "result": self.result(method)})
            if method == "thread/resume":
                self.used(old=True)
            if method == "turn/start":
                self.one_turn(next(turns, [{"say": "Hello."}]))

    def misbehave(self, method: str, number: int) -> None:
        what = self.script.get("at", {}).get(method)
        if what is None:
            return
        if what == "hang":
            self.hang()
        if what == "die":
            print("last words", file=sys.stderr, flush=True)
            sys.exit(3)
        self.say({"id": number, "error": {"code": -32600, "message": what}})
        raise Interrupted

    def result(self, method: str) -> Fields:
        if method in ("thread/start", "thread/resume"):
            return {"thread": {"id": THREAD}}
        if method == "turn/start":
            self.turn = f"turn-{next(self.ids)}"
            return {"turn": {"id": self.turn, "status": "inProgress"}}
        results: Fields = self.script.get("results", {})
        return results.get(method, {})

    def one_turn(self, acts: list[Fields]) -> None:
        self.tell("turn/started", turn={"id": self.turn})
        status, error = "completed", None
        try:
            for act in acts:
                for name, value in act.items():
                    getattr(self, f"do_{name}")(value)
        except Interrupted:
            status = "interrupted"
        except Failed as failed:
            status, error = "failed", failed.args[0]
        self.tell("turn/completed", turn={"id": self.turn, "status": status, "error": error})

    def used(self, *, old: bool = False) -> None:
        last = {"inputTokens": 100, "cachedInputTokens": 40, "outputTokens": 25, "reasoningOutputTokens": 5}
        if not old:
            self.tokens += 125
        usage = {"last": {**last, "totalTokens": 125}, "total": {"totalTokens": self.tokens + 125}}
        self.tell("thread/tokenUsage/updated", tokenUsage=usage, **({"turnId": "turn-0"} if old else {}))

    def item(self, phase: str, **item: Any) -> None:
        self.tell(f"item/{phase}", item=item)

    # Acts

    def do_say(self, text: str, kind: str = "agentMessage") -> None:
        item = f"msg_{next(self.ids)}"
        self.item("started", type=kind, id=item, text="")
        for piece in text.split(" ")[:-1]:
            delta = "agentMessage" if kind == "agentMessage" else "plan"
            self.tell(f"item/{delta}/delta", itemId=item, delta=piece + " ")
        self.item("completed", type=kind, id=item, text=text)  # the last word comes with the whole
        self.used()
        self.used_again()

    def used_again(self) -> None:
        self.tokens -= 125
        self.used()

    def do_plan(self, text: str) -> None:
        self.do_say(text, "plan")

    def do_begin(self, text: str) -> None:
        item = f"msg_{next(self.ids)}"
        self.item("started", type="agentMessage", id=item, text="")
        self.tell("item/agentMessage/delta", itemId=item, delta=text)

    def do_think(self, pieces: list[str]) -> None:
        item = f"rs_{next(self.ids)}"
        self.item("started", type="reasoning", id=item, summary=[], content=[])
        for index, piece in enumerate(pieces):
            self.tell("item/reasoning/summaryTextDelta", itemId=item, summaryIndex=index, delta=piece)
            self.tell("item/reasoning/textDelta", itemId=item, contentIndex=index, delta="raw")
        self.item("completed", type="reasoning", id=item, summary=pieces, content=["raw"])

    def do_run(self, given: Fields) -> None:
        """A command: ``command``, ``exit``, ``output``, and ``ask`` where it asks first."""
        call = f"call_{next(self.ids)}"
        shared = {"type": "commandExecution", "id": call, "cwd": str(Path.cwd())}
        shared["command"] = f"/bin/bash -lc {json.dumps(given['command'])}"
        if not given.get("unannounced"):
            self.item("started", **shared, status="inProgress")
        decision = "accept"
        if "ask" in given:
            params = {**shared, "itemId": call, **given["ask"]}
            decision = self.ask("item/commandExecution/requestApproval", **params)
        if decision not in ("accept", "acceptForSession"):
            self.item("completed", **shared, status="declined", exitCode=None, aggregatedOutput=None)
            if decision == "cancel":
                raise Interrupted
            return
        for piece in given.get("pieces", []):
            self.tell("item/commandExecution/outputDelta", itemId=call, delta=piece)
        code = given.get("exit", 0)
        status = "completed" if code == 0 else "failed"
        self.item("completed", **shared, status=status, exitCode=code, aggregatedOutput=given.get("output"))
        self.used()

    def do_patch(self, given: Fields) -> None:
        call = f"call_{next(self.ids)}"
        changes = [{"path": path, "kind": {"type": "add"}, "diff": "hello\n"} for path in given["paths"]]
        self.item("started", type="fileChange", id=call, changes=changes, status="inProgress")
        decision = self.ask("item/fileChange/requestApproval", itemId=call)
        status = "completed" if decision == "accept" else "declined"
        self.item("completed", type="fileChange", id=call, changes=changes, status=status)

    def do_ask(self, given: Fields) -> None:
        """Any request: ``method`` and ``params``."""
        self.ask(given["method"], **given.get("params", {}))

    def ask(self, method: str, **params: Any) -> str:
        number = next(self.ids)
        self.say({"id": number, "method": method, "params": {"threadId": THREAD, "turnId": self.turn, **params}})
        while True:
            message = self.hear()
            if message.get("id") == number and "method" not in message:
                return str(message.get("result", {}).get("decision"))
            if message.get("method") == "turn/steer":
                self.say({"id": message["id"], "result": {"turnId": self.turn}})

    def do_withdraw(self, given: Fields) -> None:
        """Ask, and take it back at once."""
        number = next(self.ids)
        self.say({"id": number, "method": given["method"], "params": {"threadId": THREAD, **given["params"]}})
        while not Path(given["once"]).exists():
            time.sleep(0.005)
        self.tell("serverRequest/resolved", requestId=number)

    def do_wait(self, method: str) -> None:
        """Until it is told this, which it takes; ``refuse`` it instead with ``steer_refused``."""
        while True:
            message = self.hear()
            if message.get("method") == method:
                refused = self.script.get("steer_refused")
                answer = {"error": {"message": "no active turn"}} if refused else {"result": {"turnId": self.turn}}
                self.say({"id": message["id"], **answer})
                return

    def do_todo(self, plan: list[Fields]) -> None:
        self.tell("turn/plan/updated", plan=plan)

    def do_send(self, message: Fields) -> None:
        self.say(message)

    def do_tell(self, given: Fields) -> None:
        self.tell(given["method"], **given["params"])

    def do_garbage(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def do_huge(self, size: int) -> None:
        self.do_garbage("x" * size)

    def do_fail(self, error: Fields) -> None:
        raise Failed(error)

    def do_die(self, code: int) -> None:
        print("\x1b[31mlast words\x1b[0m", file=sys.stderr, flush=True)
        if code < 0:
            os.kill(os.getpid(), -code)
        sys.exit(code)

    def do_wander(self, _: object) -> None:
        """Leave a process behind that has left its session."""
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.note(child=child.pid)

    def do_hang(self, _: object) -> None:
        """Say nothing more; an interrupt still helps."""
        self.note(hangs=True)
        while True:
            self.hear()

    def do_deaf(self, _: object) -> None:
        self.hang()

    def hang(self) -> None:
        """Say and hear nothing more; only a kill helps."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.note(hangs=True)
        while True:
            time.sleep(600)


class Failed(Exception):
    """Its turn fails with this error."""


def main() -> None:
    codex = FakeCodex(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
    keys = sorted(name for name in os.environ if "KEY" in name or "TOKEN" in name)
    codex.note(argv=sys.argv[3:], pid=os.getpid(), keys=keys, cwd=str(Path.cwd()))
    while True:
        try:
            codex.run()
        except Interrupted:
            continue
        except Closed:
            return


if __name__ == "__main__":
    main()
