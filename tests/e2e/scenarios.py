"""What is done with each real agent while its screens are recorded."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .stage import Stage


@dataclass(frozen=True)
class Scenario:
    """One run of an agent: how it is started, and what is done with it."""

    play: Callable[[Stage], Awaitable[None]]
    answered: bool = True
    args: tuple[str, ...] = ()


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


async def claude_auto(stage: Stage) -> None:
    await stage.shows(CLAUDE_IDLE)
    await stage.ask("[[bash:touch made.txt]]")
    await stage.agent.quiet(4)
    await stage.take("idle-auto-mode")


# Codex


async def codex_start(stage: Stage) -> None:
    await stage.take("start-sign-in", "Sign in|sign in")


async def codex_upgrade(stage: Stage) -> None:
    await stage.agent.quiet(3)
    await stage.take("start-model-upgrade")


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


# Qwen

QWEN_IDLE = "Type your message"


async def qwen_text(stage: Stage) -> None:
    await stage.take("idle", QWEN_IDLE)
    await stage.ask("[[say:The quick answer.]]")
    await stage.shows(r"[✦•●] The quick answer\.")
    await stage.take("idle-after-turn")
    await stage.ask("[[slow]]")
    await stage.take("working", "esc to cancel", quiet=False)
    await stage.agent.shows("word9")
    await stage.take("working-text", quiet=False)
    await stage.key("esc")
    await stage.take("after-esc", "Request cancelled")
    await stage.ask("[[error:400]]")
    await stage.take("error", "API Error|scripted failure")
    await stage.ask("/quit")
    await stage.agent.until(lambda: stage.agent.exit, "the end")
    await stage.take("exited", quiet=False)


async def qwen_permission(stage: Stage) -> None:
    await stage.shows(QWEN_IDLE)
    await stage.ask("[[bash:touch made.txt]]")
    await stage.take("permission-shell", "Allow execution", quiet=False)
    await stage.key("enter")
    await stage.shows("All done")
    await stage.ask("[[bash:touch denied.txt]]")
    await stage.agent.shows("Allow execution")
    await stage.key("down")
    await stage.take("permission-shell-second-row", quiet=False)
    await stage.key("esc")
    await stage.agent.until(lambda: "Allow execution" not in stage.agent.text, "the dialog gone")
    await stage.take("after-denied")


# OpenCode

OPENCODE_IDLE = "Ask anything|ctrl\\+p"


async def opencode_text(stage: Stage) -> None:
    await stage.take("idle", OPENCODE_IDLE)
    await stage.ask("[[say:The quick answer.]]")
    await stage.shows("The quick answer\\.\\s*\n")
    await stage.take("idle-after-turn")
    await stage.ask("[[slow]]")
    await stage.take("working", "interrupt", quiet=False)
    await stage.agent.shows("word9")
    await stage.key("esc")
    await stage.take("working-esc-once", quiet=False)
    await stage.key("esc")
    await stage.take("after-esc", "interrupted")
    await stage.ask("/exit")
    await stage.agent.until(lambda: stage.agent.exit, "the end")


async def opencode_permission(stage: Stage) -> None:
    await stage.shows(OPENCODE_IDLE)
    await stage.ask("[[bash:touch made.txt]]")
    await stage.take("permission-shell", "Permission required", quiet=False)
    await stage.key("right")
    await stage.take("permission-shell-second", quiet=False)
    await stage.key("left")
    await stage.key("enter")
    await stage.agent.shows("All done")
    await stage.take("idle-after-tool")
    await stage.ask("[[bash:touch denied.txt]]")
    await stage.agent.shows("Permission required")
    await stage.key("esc")
    await stage.agent.until(lambda: "Permission required" not in stage.agent.text, "the dialog gone")
    await stage.take("after-denied")


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
        "auto": Scenario(claude_auto, args=("--permission-mode", "auto")),
    },
    "codex": {
        "start": Scenario(codex_start, answered=False),
        "upgrade": Scenario(codex_upgrade, args=("-m", "gpt-5.5")),
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
    "qwen": {"text": Scenario(qwen_text), "permission": Scenario(qwen_permission)},
    "opencode": {"text": Scenario(opencode_text), "permission": Scenario(opencode_permission)},
}
