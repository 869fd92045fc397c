"""Record what the real agents show: ``python -m tests.e2e.record claude [scenario…]`` renews ``tests/data/agents``.

Each moment is one file: the screen as our own terminal model sees it, the title, and the program's status reports so
far. Each scenario leaves the agent's own session log too, as ``log-<scenario>.jsonl``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from . import clis
from .driven import COLS, ROWS, Driven, ModelServer, driven
from .homes import make_home

DATA = Path(__file__).parents[1] / "data" / "agents"
PROJECT = Path("/tmp/project")
"""Where every recording works, so that nothing of this machine is in it."""

LOGS = {
    "claude": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/*/*/*/rollout-*.jsonl",
    "gemini": ".gemini/tmp/*/chats/session-*.json*",
    "qwen": ".qwen/projects/*/chats/*.jsonl",
}
MAX_TEXT, MAX_ASIDE = 400, 60
"""Characters kept of one string in a log, and in a record that no reader of logs needs: vendors' prompts are long."""

ASIDE = ("attachment", "api-request", "file-history", "world_state", "turn_context", "session_meta")
"""How the types of such records begin."""


@dataclass(frozen=True)
class Scenario:
    """One run of an agent: how it is started, and what is done with it."""

    play: Callable[[Stage], Awaitable[None]]
    answered: bool = True
    args: tuple[str, ...] = ()


class Stage:
    """An agent under way, and the fixtures that are taken of it."""

    def __init__(self, agent: Driven, styled: bool) -> None:
        self.agent = agent
        self.styled = styled
        self.taken: list[str] = []

    async def take(self, moment: str, *patterns: str, quiet: bool = True) -> None:
        """Write the fixture of this moment, once the screen shows all the patterns (and is quiet)."""
        for pattern in patterns:
            await self.agent.shows(pattern)
        if quiet:
            await self.agent.quiet()
        cli = clis.CLIS[self.agent.home.agent]
        snapshot = self.agent.screen.snapshot()
        fixture: dict[str, Any] = {
            "cli": cli.name,
            "version": cli.version,
            "cols": COLS,
            "rows": ROWS,
            "lines": list(snapshot.lines),
            "cursor": [snapshot.cursor.row, snapshot.cursor.col],
            "title": self.agent.title,
            "status": self.agent.status,
        }
        if self.styled:
            fixture["styled"] = msgspec.to_builtins(self.agent.screen.styled())
        text = self.scrub(json.dumps(fixture, ensure_ascii=False, indent=1))
        path = DATA / cli.name / f"{moment}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
        self.taken.append(moment)
        print(f"  {cli.name}/{moment}")

    def scrub(self, text: str) -> str:
        """Nothing of this machine: no folder but the project's."""
        return text.replace(str(self.agent.home.path), "/home/user").replace(str(clis.cache()), "/opt/agents")

    def log(self, scenario: str) -> None:
        """Keep the agent's own log of this run."""
        name = self.agent.home.agent
        for path in sorted(self.agent.home.path.glob(LOGS.get(name, "nothing"))):
            lines = [line for line in path.read_text().splitlines() if line.strip()]
            kept = [json.dumps(_trimmed(json.loads(line)), ensure_ascii=False) for line in lines]
            target = DATA / name / f"log-{scenario}.jsonl"
            target.write_text(self.scrub("\n".join(kept)) + "\n")

    async def ask(self, text: str) -> None:
        await self.agent.submit(text)

    async def key(self, *names: str) -> None:
        await self.agent.key(*names)

    async def shows(self, pattern: str) -> None:
        await self.agent.shows(pattern)
        await self.agent.quiet()


def _trimmed(record: Any) -> Any:
    """A record of a log with its long texts cut."""
    aside = isinstance(record, dict) and str(record.get("type", "")).startswith(ASIDE)
    return _cut(record, MAX_ASIDE if aside else MAX_TEXT)


def _cut(value: Any, limit: int) -> Any:
    if isinstance(value, dict):
        return {name: _cut(entry, limit) for name, entry in value.items()}
    if isinstance(value, list):
        return [_cut(entry, limit) for entry in value[: max(limit // 10, 10)]]
    return value[:limit] + "…" if isinstance(value, str) and len(value) > limit else value


# Claude

CLAUDE_IDLE = "\n\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
CODEX_IDLE = "\n\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "


async def claude_start(stage: Stage) -> None:
    await stage.take("start-trust", "trust this folder")
    await stage.key("down", "enter")
    await stage.take("start-api-key", "custom API key")
    await stage.key("up", "enter")
    await stage.take("start-after", CLAUDE_IDLE)


async def claude_text(stage: Stage) -> None:
    await stage.take("idle", CLAUDE_IDLE)
    await stage.ask("[[say:The quick answer.]]")
    await stage.shows(r"● The quick answer\.")
    await stage.take("idle-after-turn")
    await stage.ask("[[slow]]")
    await stage.take("working", r"esc to interrupt|word", quiet=False)
    await stage.agent.shows("word9")
    await stage.take("working-text", quiet=False)
    await stage.key("esc")
    await stage.take("after-esc", "Interrupted")
    await stage.ask("[[say:After the interruption.]]")
    await stage.shows(r"● After the interruption\.")
    await stage.key("/exit", "enter")
    await stage.agent.until(lambda: stage.agent.exit, "the end")
    await stage.take("exited", quiet=False)


async def claude_permission(stage: Stage) -> None:
    await stage.shows(CLAUDE_IDLE)
    await stage.ask("[[bash:touch made.txt]]")
    await stage.take("permission-bash", "Do you want to proceed")
    await stage.key("enter")
    await stage.shows("All done")
    await stage.take("idle-after-tool")
    await stage.ask("[[bash:touch denied.txt]]")
    await stage.shows("Do you want to proceed")
    await stage.key("down")
    await stage.take("permission-bash-second-row")
    await stage.key("esc")
    await stage.take("after-denied", "Interrupted|rejected")
    await stage.ask("[[write:hello.txt]]")
    await stage.take("permission-write", "Do you want to create")
    await stage.key("enter")
    await stage.shows(r"All done[\s\S]*All done")


async def claude_deny_by_row(stage: Stage) -> None:
    await stage.shows(CLAUDE_IDLE)
    await stage.ask("[[bash:touch denied.txt]]")
    await stage.shows("Do you want to proceed")
    await stage.key("up")
    await stage.take("permission-bash-last-row")
    await stage.key("enter")
    await stage.take("after-denied-by-row", "Interrupted|rejected")


async def claude_question(stage: Stage) -> None:
    await stage.shows(CLAUDE_IDLE)
    await stage.ask("[[ask1]]")
    await stage.take("question-single", "Proceed how")
    await stage.key("1")
    await stage.shows("All done")
    await stage.take("after-question")
    await stage.ask("[[ask2]]")
    await stage.take("question-page-1", "Which database")
    await stage.key("1")
    await stage.take("question-page-2", "Which cache")
    await stage.key("2")
    await stage.take("question-review", "Review your answers")
    await stage.key("enter")
    await stage.shows(r"All done[\s\S]*All done")


async def claude_question_other(stage: Stage) -> None:
    await stage.shows(CLAUDE_IDLE)
    await stage.ask("[[ask1]]")
    await stage.shows("Proceed how")
    await stage.key("3")
    await stage.take("question-typing")
    await stage.key("My own way")
    await stage.take("question-typed")
    await stage.key("enter")
    await stage.shows("All done")
    await stage.ask("[[ask1]]")
    await stage.shows(r"Proceed how.*[\s\S]*Proceed how")
    await stage.key("esc")
    await stage.take("after-question-esc", "Declined")


async def claude_plan(stage: Stage) -> None:
    await stage.take("idle-plan-mode", CLAUDE_IDLE)
    await stage.ask("[[plan]]")
    await stage.take("plan", "Would you like to proceed")
    await stage.key("2")
    await stage.shows("All done")
    await stage.take("after-plan-approved")


async def claude_plan_rejected(stage: Stage) -> None:
    await stage.shows(CLAUDE_IDLE)
    await stage.ask("[[plan]]")
    await stage.shows("Would you like to proceed")
    await stage.key("up")
    await stage.take("plan-last-row")
    await stage.key("Be quicker")
    await stage.take("plan-feedback-typed")
    await stage.key("enter")
    await stage.shows("All done|Interrupted|rejected")
    await stage.take("after-plan-feedback")
    await stage.ask("[[plan]]")
    await stage.shows("Would you like to proceed")
    await stage.key("esc")
    await stage.agent.until(lambda: "Would you like to proceed" not in stage.agent.text, "the dialog gone")
    await stage.take("after-plan-esc")


async def claude_error(stage: Stage) -> None:
    await stage.shows(CLAUDE_IDLE)
    await stage.ask("[[error:400]]")
    await stage.take("error", "API Error|scripted failure")
    await stage.ask("[[error:529]]")
    await stage.take("retrying", r"[Rr]etry", quiet=False)


async def claude_multi(stage: Stage) -> None:
    await stage.shows(CLAUDE_IDLE)
    await stage.ask("[[multi:touch one.txt|touch two.txt]]")
    await stage.shows(r"touch one.txt[\s\S]*Do you want to proceed")
    await stage.key("1")
    await stage.agent.until(
        lambda: re.search(r"touch two.txt[\s\S]*Do you want to proceed", stage.agent.text), "the second dialog"
    )
    await stage.agent.quiet()
    await stage.key("1")
    await stage.shows("All done")


# Codex


async def codex_start(stage: Stage) -> None:
    await stage.take("start-sign-in", "Sign in|sign in")


async def codex_text(stage: Stage) -> None:
    await stage.take("idle", CODEX_IDLE)
    await stage.ask("[[say:The quick answer.]]")
    await stage.shows(r"• The quick answer\.")
    await stage.take("idle-after-turn")
    await stage.ask("[[slow]]")
    await stage.take("working", "esc to interrupt", quiet=False)
    await stage.agent.shows("word9")
    await stage.take("working-text", quiet=False)
    await stage.key("esc")
    await stage.take("after-esc", "interrupted")
    await stage.ask("[[say:After the interruption.]]")
    await stage.shows(r"• After the interruption\.")
    await stage.ask("/quit")
    await stage.agent.until(lambda: stage.agent.exit, "the end")
    await stage.take("exited", quiet=False)


async def codex_permission(stage: Stage) -> None:
    await stage.shows(CODEX_IDLE)
    await stage.ask("[[esc:touch made.txt]]")
    await stage.take("permission-exec", "Would you like to run")
    await stage.key("enter")
    await stage.shows("All done")
    await stage.take("idle-after-tool")
    await stage.ask("[[esc:touch denied.txt]]")
    await stage.shows("Would you like to run")
    await stage.key("down")
    await stage.take("permission-exec-second-row")
    await stage.key("esc")
    await stage.agent.until(lambda: "Would you like to run" not in stage.agent.text, "the dialog gone")
    await stage.take("after-denied")
    await stage.ask("[[patch:hello.txt]]")
    await stage.take("permission-patch", "Would you like to make")
    await stage.key("enter")
    await stage.agent.until(lambda: "Would you like to make" not in stage.agent.text, "the dialog gone")
    await stage.take("idle-after-patch", "All done")


async def codex_question(stage: Stage) -> None:
    await stage.shows(CODEX_IDLE)
    await stage.key("shift-tab")
    await stage.take("idle-plan-mode", "Plan mode")
    await stage.ask("[[ask1]]")
    await stage.take("question-single", "Proceed how")
    await stage.key("1")
    await stage.shows("All done")
    await stage.take("after-question")
    await stage.ask("[[ask2]]")
    await stage.take("question-page-1", "Which database")
    await stage.key("1")
    await stage.take("question-page-2", "Which cache")
    await stage.key("2")
    await stage.agent.quiet()
    await stage.take("after-question-last-page")


async def codex_question_typed(stage: Stage) -> None:
    await stage.shows(CODEX_IDLE)
    await stage.key("shift-tab")
    await stage.ask("[[ask1]]")
    await stage.shows("Proceed how")
    await stage.key("down", "down")
    await stage.take("question-none-of-above")
    await stage.key("tab")
    await stage.take("question-notes")
    await stage.key("My own way")
    await stage.take("question-notes-typed")
    await stage.key("enter")
    await stage.shows("All done")
    await stage.ask("[[ask1]]")
    await stage.agent.until(lambda: "Question 1/1" in stage.agent.text, "the second question")
    await stage.key("esc")
    await stage.take("after-question-esc")


async def codex_plan(stage: Stage) -> None:
    await stage.shows(CODEX_IDLE)
    await stage.key("shift-tab")
    await stage.shows("Plan mode")
    await stage.ask("[[plan]]")
    await stage.take("plan", "Implement this plan")
    await stage.key("enter")
    await stage.agent.until(lambda: "Implement this plan?" not in stage.agent.text, "the dialog gone")
    await stage.take("after-plan-approved")


async def codex_plan_rejected(stage: Stage) -> None:
    await stage.shows(CODEX_IDLE)
    await stage.key("shift-tab")
    await stage.shows("Plan mode")
    await stage.ask("[[plan]]")
    await stage.shows("Implement this plan")
    await stage.key("up")
    await stage.take("plan-last-row")
    await stage.key("enter")
    await stage.agent.until(lambda: "Implement this plan?" not in stage.agent.text, "the dialog gone")
    await stage.take("after-plan-rejected")


async def codex_error(stage: Stage) -> None:
    await stage.shows(CODEX_IDLE)
    await stage.ask("[[error:500]]")
    await stage.take("error", "■|scripted failure|unexpected status")


async def codex_multi(stage: Stage) -> None:
    await stage.shows(CODEX_IDLE)
    await stage.ask("[[multi:echo one|echo two]]")
    await stage.take("idle-after-two-tools", "All done")


# Gemini

GEMINI_IDLE = "Type your message"


async def gemini_start(stage: Stage) -> None:
    await stage.take("start-trust", "Do you trust")
    await stage.key("enter")
    await stage.agent.until(lambda: stage.agent.exit, "the end")
    await stage.take("start-trust-accepted", quiet=False)


async def gemini_text(stage: Stage) -> None:
    await stage.take("idle", GEMINI_IDLE)
    await stage.ask("[[say:The quick answer.]]")
    await stage.shows(r"✦ The quick answer\.")
    await stage.take("idle-after-turn")
    await stage.ask("[[slow]]")
    await stage.take("working", "esc to cancel", quiet=False)
    await stage.agent.shows("word9")
    await stage.take("working-text", quiet=False)
    await stage.key("esc")
    await stage.take("after-esc", "Request cancelled")
    await stage.ask("[[say:After the interruption.]]")
    await stage.shows(r"✦ After the interruption\.")
    await stage.ask("/quit")
    await stage.agent.until(lambda: stage.agent.exit, "the end")
    await stage.take("exited", quiet=False)


async def gemini_permission(stage: Stage) -> None:
    await stage.shows(GEMINI_IDLE)
    await stage.ask("[[bash:touch made.txt]]")
    await stage.take("permission-shell", "Allow execution")
    await stage.key("enter")
    await stage.shows("All done")
    await stage.take("idle-after-tool")
    await stage.ask("[[bash:touch denied.txt]]")
    await stage.shows("Allow execution")
    await stage.key("down")
    await stage.take("permission-shell-second-row")
    await stage.key("esc")
    await stage.agent.until(lambda: "Allow execution" not in stage.agent.text, "the dialog gone")
    await stage.take("after-denied")
    await stage.ask("[[write:hello.txt]]")
    await stage.take("permission-write", "Apply this change")
    await stage.key("enter")
    await stage.agent.until(lambda: "Apply this change" not in stage.agent.text, "the dialog gone")
    await stage.take("idle-after-write")


async def gemini_question(stage: Stage) -> None:
    await stage.shows(GEMINI_IDLE)
    await stage.ask("[[ask1]]")
    await stage.take("question-single", "Proceed how")
    await stage.key("enter")
    await stage.shows("All done")
    await stage.take("after-question")
    await stage.ask("[[ask2]]")
    await stage.take("question-page-1", "Which database")
    await stage.key("enter")
    await stage.take("question-page-2", "Which cache")
    await stage.key("down", "enter")
    await stage.take("question-review", "Review")
    await stage.key("enter")
    await stage.shows("All done")
    await stage.ask("[[ask1]]")
    await stage.shows("Proceed how")
    await stage.key("down", "down")
    await stage.take("question-custom-row")
    await stage.key("My own way")
    await stage.take("question-typed")
    await stage.key("esc", "esc")
    await stage.take("after-question-esc")


async def gemini_plan(stage: Stage) -> None:
    await stage.shows(GEMINI_IDLE)
    await stage.take("idle-plan-mode")
    await stage.ask("[[plan]]")
    await stage.agent.quiet(3)
    await stage.take("plan")
    await stage.key("enter")
    await stage.agent.quiet(3)
    await stage.take("after-plan-approved")


async def gemini_error(stage: Stage) -> None:
    await stage.shows(GEMINI_IDLE)
    await stage.ask("[[error:400]]")
    await stage.take("error", "scripted failure|API Error")


SCENARIOS: dict[str, dict[str, Scenario]] = {
    "claude": {
        "start": Scenario(claude_start, answered=False),
        "text": Scenario(claude_text),
        "permission": Scenario(claude_permission),
        "deny": Scenario(claude_deny_by_row),
        "question": Scenario(claude_question),
        "question-other": Scenario(claude_question_other),
        "plan": Scenario(claude_plan, args=("--permission-mode", "plan")),
        "plan-rejected": Scenario(claude_plan_rejected, args=("--permission-mode", "plan")),
        "multi": Scenario(claude_multi),
        "error": Scenario(claude_error),
    },
    "codex": {
        "start": Scenario(codex_start, answered=False),
        "text": Scenario(codex_text),
        "permission": Scenario(codex_permission),
        "question": Scenario(codex_question),
        "question-typed": Scenario(codex_question_typed),
        "plan": Scenario(codex_plan),
        "plan-rejected": Scenario(codex_plan_rejected),
        "multi": Scenario(codex_multi),
        "error": Scenario(codex_error),
    },
    "gemini": {
        "start": Scenario(gemini_start, answered=False),
        "text": Scenario(gemini_text),
        "permission": Scenario(gemini_permission),
        "question": Scenario(gemini_question),
        "plan": Scenario(gemini_plan, args=("--approval-mode", "plan")),
        "error": Scenario(gemini_error),
    },
}


async def record(agent: str, name: str, scenario: Scenario, model: ModelServer) -> bool:
    """Play one scenario. False if it did not go as expected; the screen is printed then."""
    print(f"{agent} {name}")
    shutil.rmtree(PROJECT, ignore_errors=True)
    # Not under /tmp: Codex says at its start that it does not like that.
    homes = clis.cache().parent / "homes"
    homes.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=homes, ignore_cleanup_errors=True) as folder:
        home = make_home(agent, Path(folder), PROJECT, model.port, answered=scenario.answered, args=scenario.args)
        async with driven(home) as running:
            stage = Stage(running, styled=agent == "opencode")
            try:
                await scenario.play(stage)
            except AssertionError as failed:
                print(failed, running.status, running.title, sep="\n")
                return False
            finally:
                stage.log(name)
    return True


async def main() -> int:
    parser = argparse.ArgumentParser(description="record the screens and logs of the real agents")
    parser.add_argument("agent", choices=[*SCENARIOS])
    parser.add_argument("scenario", nargs="*")
    asked = parser.parse_args()
    model = ModelServer()
    try:
        chosen = {name: SCENARIOS[asked.agent][name] for name in asked.scenario} or SCENARIOS[asked.agent]
        went = [await record(asked.agent, name, scenario, model) for name, scenario in chosen.items()]
    finally:
        model.close()
    return 0 if all(went) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
