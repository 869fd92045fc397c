"""A stand-in for Claude Code: the same lines in and out, but what it does is said by the prompt, a line an action.

Run as a real child (``python fake_claude.py -p …``); knows nothing of the server. It keeps its conversations below
``$HOME/.fake-claude`` and notes there how it was started. The records are as those of version 2.1.332, recorded.

==================  ==================================================================================================
``text WORDS``      says WORDS, in two pieces
``think WORDS``     thinks them
``bash COMMAND``    uses the tool Bash, asks first
``read PATH``       uses the tool Read, asks nobody
``write PATH``      uses the tool Write, asks first
``fetch URL``       uses the tool WebFetch, asks first
``dangerous CMD``   as bash, and warns of it
``ask JSON``        asks the questions with AskUserQuestion
``plan WORDS``      asks whether the plan is accepted
``todos JSON``      writes the list of tasks
``task WORDS``      has a sub-agent read a file
``withdraw CMD``    asks as bash, and no longer wants to know once something else was said
``breaks NAME``     uses a tool that fails
``wait``            says nothing more until it is told to stop
``hear``            goes on once something else was said
``recall``          says all that it was ever told
``mode``            says its permission mode
``retry``           tells that its API failed once
``rubbish``         prints what is no JSON
``odd``             prints records in which everything is of another type
``unstreamed W``    says W as a whole only
``search WORDS``    has its provider search
``long N``          prints a line of N bytes
``fail WORDS``      ends with an error of that text
``die WORDS``       ends at once, with WORDS on its error output
``deaf``            no longer hears that it is to end, and starts another that is as deaf
``leave``           starts another program that outlives it
``begin WORDS``     begins to say them and does not end
``again ID``        uses Read with that id for its call
==================  ==================================================================================================
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

Json = dict[str, Any]

OLD = bool(os.environ.get("CLAUDE_FAKE_OLD"))
"""As a version that does not tell of its state."""

PRICE = 0.001
"""US dollars of a message."""

SLEEPER = ["sleep", "600"]
"""What outlives it, where it is told to leave something behind."""


SINCE = "What follows is what is said to you now.]"
"""What stands behind the earlier conversation, where it is told of one: that is not done again."""


class Interrupted(Exception):
    """It was told to stop."""


class Failed(Exception):
    """The round failed."""


class Fake:
    def __init__(self, arguments: list[str]) -> None:
        self.home = Path(os.environ["HOME"], ".fake-claude")
        self.home.mkdir(exist_ok=True)
        with (self.home / "starts.jsonl").open("a") as starts:
            starts.write(json.dumps({"argv": arguments, "env": dict(os.environ), "cwd": os.fspath(Path.cwd())}) + "\n")
        options = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        self.resumed = options.get("--resume")
        self.session = self.resumed or str(uuid.uuid4())
        self.model = f"claude-{options['--model']}-fake"
        self.mode = options["--permission-mode"]
        self.memory: Json = {"told": [], "paid": 0.0}
        self.inbox: list[str] = []
        self.answers: dict[str, Json] = {}
        self.buffer = b""
        self.closed = False
        self.message: str | None = None
        self.blocks = 0
        self.used = 0
        self.last = ""

    # Its two ends

    def say(self, record: Json) -> None:
        record = {**record, "session_id": self.session, "uuid": str(uuid.uuid4())}
        os.write(1, json.dumps(record).encode() + b"\n")

    def hear(self, seconds: float | None) -> None:
        """Take in what is there, waiting so long for something. Raises ``Interrupted``."""
        if self.closed:
            time.sleep(seconds or 0)
            return
        if not select.select([0], [], [], seconds)[0]:
            return
        data = os.read(0, 65536)
        self.closed = not data
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            self.take(json.loads(line))

    def take(self, record: Json) -> None:
        if record["type"] == "user":
            self.inbox.append(record["message"]["content"][0]["text"])
        elif record["type"] == "control_response":
            response = record["response"]
            self.answers[response["request_id"]] = response
        elif record["type"] == "control_request":
            request = record["request"]
            reply = {"subtype": "success", "request_id": record["request_id"], "response": {}}
            self.say({"type": "control_response", "response": reply})
            if request["subtype"] == "set_permission_mode":
                self.mode = request["mode"]
            if request["subtype"] == "interrupt":
                raise Interrupted

    # One life

    def live(self) -> int:
        file = self.home / f"{self.session}.json"
        if self.resumed is not None and not file.exists():
            self.finish(
                error=f"No conversation found with session ID: {self.resumed}", subtype="error_during_execution"
            )
            return 1
        if file.exists():
            self.memory = json.loads(file.read_text())
        while not self.inbox and not self.closed:
            self.hear(None)
        try:
            self.state("running")
            while self.inbox:
                self.turn(self.inbox.pop(0))
                self.hear(0)
            self.state("idle")
            while not self.closed:
                self.hear(None)
                if self.inbox:
                    self.state("running")
                    self.turn(self.inbox.pop(0))
                    self.state("idle")
        except Interrupted:
            self.end_message(None)
            self.finish(error="interrupted", subtype="error_during_execution")
            return 1
        except Failed as failure:
            self.finish(error=str(failure))
            return 1
        finally:
            new = file.with_suffix(".new")
            new.write_text(json.dumps(self.memory))
            new.replace(file)  # whole or not at all: it may be killed here
        return 0

    def state(self, word: str) -> None:
        if not OLD:
            self.say({"type": "system", "subtype": "session_state_changed", "state": word})

    def turn(self, text: str) -> None:
        self.memory["told"].append(text)
        self.say({"type": "system", "subtype": "init", "model": self.model, "permissionMode": self.mode})
        self.used, self.last = 0, ""
        for line in text.rpartition(SINCE)[2].splitlines():
            verb, _, rest = line.partition(" ")
            action = getattr(self, f"do_{verb}", None)
            if action is not None:
                self.hear(0)
                action(rest)
        self.end_message("end_turn")
        self.finish()

    def finish(self, error: str | None = None, subtype: str = "success") -> None:
        self.say(
            {
                "type": "result",
                "subtype": subtype,
                "is_error": error is not None,
                **({"errors": [error]} if subtype != "success" else {"result": error or self.last}),
                "total_cost_usd": self.memory["paid"],
                "usage": {"input_tokens": 100 * self.used, "output_tokens": 25 * self.used},
            }
        )

    # Messages

    def event(self, kind: str, **more: Any) -> None:
        self.say({"type": "stream_event", "event": {"type": kind, **more}, "parent_tool_use_id": None})

    def whole(self, block: Json, parent: str | None = None, message: str | None = None) -> None:
        said = {"id": message or self.message, "model": self.model, "content": [block], "stop_reason": None}
        said["usage"] = {"input_tokens": 100, "output_tokens": 1}
        self.say({"type": "assistant", "message": said, "parent_tool_use_id": parent})

    def begin_message(self) -> None:
        if self.message is not None:
            return
        self.message, self.blocks = f"msg_{uuid.uuid4().hex[:12]}", 0
        self.used += 1
        self.memory["paid"] += PRICE
        usage = {"input_tokens": 90, "cache_read_input_tokens": 10, "output_tokens": 1}
        self.event("message_start", message={"id": self.message, "model": self.model, "usage": usage})

    def end_message(self, stop: str | None) -> None:
        if self.message is not None:
            self.event("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": 25})
            self.event("message_stop")
            self.message = None

    def block(self, start: Json, pieces: list[Json], whole: Json) -> None:
        """The whole comes before the piece that ends it, as with the real one."""
        self.begin_message()
        index, self.blocks = self.blocks, self.blocks + 1
        self.event("content_block_start", index=index, content_block=start)
        for piece in pieces:
            self.event("content_block_delta", index=index, delta=piece)
        self.whole(whole)
        self.event("content_block_stop", index=index)

    def do_text(self, words: str) -> None:
        half = len(words) // 2
        pieces = [{"type": "text_delta", "text": part} for part in (words[:half], words[half:])]
        self.block({"type": "text", "text": ""}, pieces, {"type": "text", "text": words})
        self.last = words

    def do_think(self, words: str) -> None:
        pieces = [{"type": "thinking_delta", "thinking": words}, {"type": "signature_delta", "signature": "x"}]
        self.block({"type": "thinking", "thinking": ""}, pieces, {"type": "thinking", "thinking": words})

    def do_recall(self, _: str) -> None:
        self.do_text(json.dumps(self.memory["told"]))

    def do_begin(self, words: str) -> None:
        """Begins a text and does not end it."""
        self.begin_message()
        self.event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        self.event("content_block_delta", index=0, delta={"type": "text_delta", "text": words})

    # Tools

    def call(self, tool: str, given: Json, name: str | None = None) -> str:
        name = name or f"toolu_{uuid.uuid4().hex[:12]}"
        pieces = [{"type": "input_json_delta", "partial_json": json.dumps(given)}]
        block = {"type": "tool_use", "id": name, "name": tool}
        self.block({**block, "input": {}}, pieces, {**block, "input": given})
        self.end_message("tool_use")
        return name

    def gave(self, call: str, content: Any, details: Any = None, *, error: bool = False, **meta: Any) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": error}
        record: Json = {"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": None}
        record |= {"tool_use_result": details, "tool_result_meta": [{"id": call, **meta}]}
        self.say(record)

    def asked(self, call: str, tool: str, given: Json, **more: Any) -> str:
        name = str(uuid.uuid4())
        request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": call, **more}
        self.say({"type": "control_request", "request_id": name, "request": request})
        return name

    def permitted(self, call: str, tool: str, given: Json, **more: Any) -> Json | None:
        """The input to go on with; None where it may not, which is told."""
        name = self.asked(call, tool, given, **more)
        while name not in self.answers:
            if self.closed:
                raise Failed("nobody can answer any more")
            self.hear(None)
        response = self.answers[name]["response"]
        if response["behavior"] == "allow":
            return dict(response["updatedInput"])
        refused = {"decision": "reject", "source": "user_reject"}
        self.gave(call, response["message"], f"Error: {response['message']}", error=True, permission_decision=refused)
        return None

    def uses(self, tool: str, given: Json, output: str, **more: Any) -> None:
        call = self.call(tool, given)
        if (taken := self.permitted(call, tool, given, **more)) is not None:
            self.gave(call, output, {"stdout": output, "taken": taken})

    def do_bash(self, command: str) -> None:
        self.uses("Bash", {"command": command}, f"ran {command}")

    def do_dangerous(self, command: str) -> None:
        self.uses("Bash", {"command": command}, "ran", decision_reason_type="safetyCheck")

    def do_write(self, path: str) -> None:
        self.uses("Write", {"file_path": path, "content": "x"}, "written")

    def do_fetch(self, url: str) -> None:
        self.uses("WebFetch", {"url": url}, "a page")

    def do_read(self, path: str) -> None:
        self.gave(self.call("Read", {"file_path": path}), f"content of {path}")

    def do_again(self, name: str) -> None:
        self.gave(self.call("Read", {"file_path": "x"}, name), "again")

    def do_breaks(self, tool: str) -> None:
        self.gave(self.call(tool, {}), "it broke", "Error: it broke", error=True)

    def do_ask(self, questions: str) -> None:
        given = {"questions": json.loads(questions)}
        call = self.call("AskUserQuestion", given)
        if (taken := self.permitted(call, "AskUserQuestion", given)) is not None:
            self.gave(call, json.dumps(taken["answers"]))

    def do_plan(self, words: str) -> None:
        call = self.call("ExitPlanMode", {"plan": words})
        if self.permitted(call, "ExitPlanMode", {"plan": words}) is not None:
            self.gave(call, "User has approved your plan.")

    def do_todos(self, listed: str) -> None:
        self.gave(self.call("TodoWrite", {"todos": json.loads(listed)}), "Todos have been modified")

    def do_task(self, words: str) -> None:
        call = self.call("Task", {"description": words, "prompt": words, "subagent_type": "explore"})
        inner, message = f"toolu_{uuid.uuid4().hex[:12]}", f"msg_{uuid.uuid4().hex[:12]}"
        self.whole({"type": "text", "text": "what nobody need know"}, call, message)
        self.whole({"type": "tool_use", "id": inner, "name": "Read", "input": {"file_path": "a"}}, call, message)
        block = {"type": "tool_result", "tool_use_id": inner, "content": "inner", "is_error": False}
        self.say({"type": "user", "message": {"content": [block]}, "parent_tool_use_id": call})
        told = {"tool_use_id": call, "status": "completed", "summary": f"found {words}"}
        self.say({"type": "system", "subtype": "task_notification", **told})
        self.gave(call, [{"type": "text", "text": f"found {words}"}], {"status": "completed"})

    def do_withdraw(self, command: str) -> None:
        call = self.call("Bash", {"command": command})
        name = self.asked(call, "Bash", {"command": command})
        self.do_hear("")
        self.say({"type": "control_cancel_request", "request_id": name})
        self.gave(call, "ran after all")

    def do_mode(self, _: str) -> None:
        self.do_text(self.mode)

    # Trouble

    def do_wait(self, _: str) -> None:
        while True:
            self.hear(None)

    def do_hear(self, _: str) -> None:
        while not self.inbox:
            self.hear(None)

    def do_retry(self, _: str) -> None:
        told = {"error": "overloaded", "error_status": 529, "retry_delay_ms": 500}
        self.say({"type": "system", "subtype": "api_retry", **told})

    def do_rubbish(self, _: str) -> None:
        os.write(1, b'no json\n{"half": \n[1, 2]\n\n\xff\xfe\n"a text"\n')

    def do_odd(self, _: str) -> None:
        odd: list[Any] = [None, 7, "text", [], {}, [7], {"type": 7}]
        for kind in ("assistant", "user", "stream_event", "system", "control_request", "control_cancel_request", "new"):
            for value in odd:
                os.write(
                    1, json.dumps({"type": kind, "message": value, "event": value, "request": value}).encode() + b"\n"
                )
                inner = {"content": value, "id": value, "usage": value}
                record = {"type": kind, "subtype": value, "request_id": value, "parent_tool_use_id": value}
                os.write(1, json.dumps({**record, "message": inner, "tool_result_meta": value}).encode() + b"\n")
        for value in odd:
            for kind in ("content_block_start", "content_block_delta", "content_block_stop", "message_delta", value):
                self.say({"type": "stream_event", "event": {"type": kind, "index": value, "content_block": value}})
                self.say({"type": "stream_event", "event": {"type": kind, "index": 0, "delta": value, "usage": value}})
            for sort in ("text", "tool_use", "thinking", "tool_result", "web_search_tool_result"):
                block = {"type": sort, sort: value, "id": value, "name": value, "input": value, "tool_use_id": value}
                self.say({"type": "user", "message": {"content": [block]}, "tool_use_result": value})
        self.message = None

    def do_unstreamed(self, words: str) -> None:
        self.used += 1
        self.memory["paid"] += PRICE
        self.whole({"type": "text", "text": words}, message=f"msg_{uuid.uuid4().hex[:12]}")
        self.last = words

    def do_search(self, words: str) -> None:
        name = f"srvtoolu_{uuid.uuid4().hex[:12]}"
        block = {"type": "server_tool_use", "id": name, "name": "web_search"}
        self.block({**block, "input": {}}, [], {**block, "input": {"query": words}})
        found = [{"type": "web_search_result", "url": "http://a.example/", "title": words}]
        self.whole({"type": "web_search_tool_result", "tool_use_id": name, "content": found})

    def do_long(self, count: str) -> None:
        data = b'{"type": "system", "subtype": "' + b"x" * int(count) + b'"}\n'
        while data:
            data = data[os.write(1, data) :]

    def do_fail(self, words: str) -> None:
        self.end_message(None)
        raise Failed(words)

    def do_die(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)
        os._exit(3)

    def do_deaf(self, _: str) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        subprocess.Popen(SLEEPER)  # it inherits what is ignored
        self.do_text("deaf")
        while True:
            time.sleep(60)

    def do_leave(self, _: str) -> None:
        subprocess.Popen(SLEEPER, start_new_session=True)


if __name__ == "__main__":
    sys.exit(Fake(sys.argv[1:]).live())
