"""What the agent does in a turn: steps, named scenarios, and the directives of a prompt.

A step is a dict with one of these keys, and what it needs:

    say TEXT            think a while (ms), then say it
    think MS            nothing but the spinner
    stream N            N lines, one every ms
    tool COMMAND        a Bash call that needs no permission (ms, out)
    permit COMMAND      a Bash call that does (options, marked, style numbered|unnumbered, on_deny stop|continue, ms)
    write PATH          a Write call that needs permission (content)
    ask [QUESTION…]     AskUserQuestion
    plan TEXT           ExitPlanMode
    error TEXT          the API fails for good (type: the error's name)
    retry N             the API fails N times, once every ms, then goes on
    subagent MS         an Agent call that takes so long
    background MS       an Agent call that goes on for so long after the turn
    garbage N           N bytes of no terminal language
    hang S              neither draw nor answer for S seconds
    exit CODE, kill N   the process ends, by a signal of its own with ``kill``
    dialog_like ""      output that looks like a dialog

In a prompt, ``[[name]]`` or ``[[name:argument]]`` stands for the steps of DIRECTIVES; ``+ms`` after the name sets how
long a step takes, as in ``[[permission+50:touch a]]``. A prompt without any runs ``--scenario``, which is one of these
names, or a JSON file with a list of steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Step = dict[str, Any]

DIRECTIVE = re.compile(r"\[\[(\w+)(?:\+(\d+))?(?::(.*?))?\]\]", re.DOTALL)

DATABASE: Step = {
    "question": "Which database should we use?",
    "header": "Database",
    "options": [
        {"label": "PostgreSQL", "description": "Relational"},
        {"label": "SQLite", "description": "Embedded"},
    ],
    "multiSelect": False,
}
CACHE: Step = {
    "question": "Which cache?",
    "header": "Cache",
    "options": [{"label": "Redis", "description": "Networked"}, {"label": "None", "description": "No cache"}],
    "multiSelect": False,
}
DEPLOY: Step = {
    "question": "Where does it run?",
    "header": "Deploy",
    "options": [{"label": "Here"}, {"label": "There"}, {"label": "Nowhere"}],
    "multiSelect": False,
}
PLAN = "# Plan\n\n1. Write hello.txt\n2. Check it\n"
OVERLOADED = 'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
DONE = "The tool finished. All done."


def _permissions(text: str) -> list[Step]:
    """``N`` or ``N,gap``: so many in a row, each with so many ms of thought before it, going on after a refusal."""
    count, _, gap = text.partition(",")
    steps: list[Step] = []
    for number in range(int(count or 2)):
        steps += [
            {"think": int(gap or 100)},
            {"permit": f"touch race-{number}", "on_deny": "continue", "ms": 0},
        ]
    return steps


def _permission(text: str, **more: Any) -> list[Step]:
    return [{"permit": text or "touch made.txt && echo made", **more}, {"say": DONE}]


def _write(text: str) -> list[Step]:
    path, _, content = (text or "hello.txt|hello world").partition("|")
    return [{"write": path, "content": content}, {"say": DONE}]


DIRECTIVES: dict[str, Callable[[str], list[Step]]] = {
    "hello": lambda _: [{"say": "Hello!"}],
    "say": lambda text: [{"say": text or "Hello!"}],
    "think": lambda text: [{"think": int(text or 1000)}, {"say": "I thought."}],
    "slow": lambda text: [{"stream": int(text or 10)}],
    "tool": lambda text: [{"tool": text or "echo hi"}, {"say": DONE}],
    "tools": lambda text: [*({"tool": f"echo {number}"} for number in range(int(text or 3))), {"say": DONE}],
    "permission": _permission,
    "unnumbered": lambda text: _permission(text, style="unnumbered"),
    "short": lambda text: _permission(text, options=["Yes", "No"]),
    "reversed": lambda text: _permission(text, options=["No, and tell Claude what to do", "Yes", "Yes, always"]),
    "twice": lambda _: [*_permission("touch first.txt"), *_permission("touch second.txt")],
    "permissions": _permissions,
    "write": _write,
    "ask": lambda _: [{"ask": [DATABASE]}, {"say": "So be it."}],
    "ask2": lambda _: [{"ask": [DATABASE, CACHE]}, {"say": "So be it."}],
    "ask3": lambda _: [{"ask": [DATABASE, CACHE, DEPLOY]}, {"say": "So be it."}],
    "plan": lambda text: [{"plan": text or PLAN}, {"say": "Done as planned."}],
    "error": lambda text: [{"think": 300}, {"error": text or OVERLOADED}],
    "retry": lambda text: [{"retry": int(text or 3)}, {"say": "There it is again."}],
    "subagent": lambda text: [{"subagent": int(text or 1000)}, {"say": DONE}],
    "background": lambda text: [{"background": int(text or 2000)}, {"say": "It is on its way."}],
    "garbage": lambda text: [{"think": 300}, {"garbage": int(text or 4096)}, {"think": 300}, {"say": "Excuse me."}],
    "lookalike": lambda _: [{"dialog_like": ""}, {"think": 1500}, {"say": "That was not a dialog."}],
    "hang": lambda text: [{"think": 300}, {"hang": float(text or 3)}, {"think": 300}, {"say": "Back again."}],
    "die": lambda text: [{"think": 300}, {"exit": int(text or 1)}],
    "kill": lambda text: [{"think": 300}, {"kill": int(text or 9)}],
}


def steps(prompt: str, scenario: str) -> list[Step]:
    """The steps of a prompt: those of its directives, else of the scenario."""
    found = [step for name, ms, argument in DIRECTIVE.findall(prompt) for step in _named(name, ms, argument)]
    return found or of_scenario(scenario)


def of_scenario(scenario: str) -> list[Step]:
    """The steps of a scenario by its name, or of a JSON file.

    Raises KeyError for an unknown name.
    """
    if scenario.endswith(".json"):
        loaded: list[Step] = json.loads(Path(scenario).read_text())
        return loaded
    name, _, argument = scenario.partition(":")
    return DIRECTIVES[name](argument)


def _named(name: str, ms: str, argument: str) -> list[Step]:
    if name not in DIRECTIVES:
        return [{"say": f"I do not know [[{name}]]."}]
    made = DIRECTIVES[name](argument)
    return [{**step, "ms": int(ms)} for step in made] if ms else made
