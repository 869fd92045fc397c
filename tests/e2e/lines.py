"""What holds for every agent: the same lines, told once and used by the tests of each."""

from __future__ import annotations

import re
from pathlib import Path

from .driven import ModelServer
from .harness import Coop, Frame, Truth, state_of

NUDGES = {
    "1 byte": "x",
    "300 bytes": "".join(f"{n:04d} " for n in range(60)).strip() + "z",
    "20 KB": "\n".join(f"line {n:04d} of a message of twenty kilobytes" for n in range(500))[: 20 * 1024 - 1] + ".",
    "multi-line": "the first line\nthe second line\n\n  the last line, indented",
    "emoji": "caf\u00e9 \U0001f389 \u65e5\u672c\u8a9e \U0001f469\u200d\U0001f52c \u2705 end",
}


def follows(client: Coop, since: int, pattern: str) -> None:
    """Assert that the states from a place on are these words, in this order (a regular expression of words)."""
    states = client.states_since(since)
    assert re.fullmatch(pattern, states), "\n".join([f"{states!r} is not {pattern!r}", *client.transcript])


async def text_turn(client: Coop, model: ModelServer, *, failed: bool = False) -> None:
    """A nudge from idle is one turn and one request; so it is after an error, which some agents clear themselves."""
    truth, since = Truth(model), client.mark()
    await client.ask("[[say:The quick answer.]]", before=("error", "idle") if failed else ("idle",))
    await client.wait_state("working")
    await client.wait_state("idle")
    follows(client, since, "(error )?(idle )?working idle" if failed else "idle working idle")
    assert truth.prompts() == ["[[say:The quick answer.]]"], "\n".join(client.transcript)
    assert "The quick answer." in await client.screen()


async def tool_allowed(client: Coop, model: ModelServer, directive: str, made: Path) -> Frame:
    """A tool asks, is allowed through ``respond`` only, and runs. Returns the prompt as it was shown."""
    truth, since = Truth(model), client.mark()
    await client.ask(directive)
    prompt = await client.wait_prompt("permission")
    assert not made.exists()
    assert truth.results() == []
    await client.answers("permission", accept=True)
    await client.wait_state("working")
    await client.wait_state("idle")
    follows(client, since, "idle working prompt working idle")
    assert made.exists()
    assert truth.prompts() == [directive]
    assert len(truth.results()) == 1
    assert not prompt["options_fallback"]
    return prompt


async def tool_denied(client: Coop, model: ModelServer, directive: str, made: Path) -> None:
    """A tool asks, is denied through ``respond``, and does not run; the agent is idle and takes the next nudge."""
    truth, since = Truth(model), client.mark()
    await client.ask(directive)
    await client.wait_prompt("permission")
    await client.answers("permission", accept=False)
    await client.wait_state("idle")
    follows(client, since, "idle working prompt( working)? idle")
    assert not made.exists()
    assert truth.prompts() == [directive]
    await text_turn(client, model)


async def esc_mid_stream(client: Coop, model: ModelServer) -> None:
    """Esc while the answer comes ends it at once; nothing of it is left for the next nudge."""
    truth, since = Truth(model), client.mark()
    await client.ask("[[slow]]")
    await client.wait_state("working")
    await truth.until(lambda truth: [entry for entry in truth.requests() if entry["begin"]], "the answer begins")
    await client.keys("escape")
    await client.wait_state("idle", limit=10)
    follows(client, since, "idle working idle")
    await truth.until(lambda truth: truth.requests()[0]["cancelled"], "the request is given up")
    await text_turn(client, model)


async def refused_while_working(client: Coop, model: ModelServer) -> None:
    """A nudge to an agent at work is refused with the reason, and never arrives."""
    truth = Truth(model)
    await client.ask("[[slow]]")
    await client.wait_state("working")
    await truth.until(Truth.prompts, "the first request")
    result = await client.nudge("and another thing")
    assert result == {
        "event": "nudge:result",
        "delivered": False,
        "state_before": "working",
        "reason": "agent is working",
    }
    await client.keys("escape")
    await client.wait_state("idle", limit=10)
    await text_turn(client, model)
    assert truth.prompts() == ["[[slow]]", "[[say:The quick answer.]]"]


async def nudges_arrive_once(client: Coop, model: ModelServer) -> None:
    """Every size and kind of nudge is received by the model exactly once, as it was said."""
    for what, message in NUDGES.items():
        truth, since = Truth(model), client.mark()
        await client.ask(message)
        await client.wait_state("working")
        await client.wait_state("idle")
        follows(client, since, "idle working idle")
        assert truth.prompts() == [message], what


async def error_reported(client: Coop, model: ModelServer, status: int) -> Frame:
    """A failure of the model's API is state ``error`` with its text, and the next nudge works. Returns the frame."""
    await client.ask(f"[[error:{status}]]")
    frame = await client.wait_state("error")
    assert frame["error_detail"]
    assert frame["error_category"]
    await text_turn(client, model, failed=True)
    return frame


async def start_up(client: Coop, wanted: dict[str, str]) -> list[Frame]:
    """Answer each start-up dialog through ``respond`` until the agent is idle or gone; the prompts that were shown.

    ``wanted`` maps a word of the dialog to the row that is to be chosen. A dialog is answered by the row's place
    among the options read from the screen.
    """
    shown: list[Frame] = []
    while True:
        frame = await client.wait(_decisive, "idle, a prompt that is ready, or the end")
        if frame["event"] == "exit" or frame["next"] == "idle":
            return shown
        prompt = frame["prompt"]
        assert prompt["type"] in {"setup", "permission"}, prompt
        screen = await client.screen()
        row = next((row for word, row in wanted.items() if word in screen), None)
        assert row is not None, screen
        shown.append(prompt)
        options = [re.sub(r"\s+", " ", option) for option in prompt["options"]]
        await client.answers(prompt["type"], option=options.index(row) + 1)


def _decisive(frame: Frame) -> bool:
    if state_of(frame) == "prompt":
        return bool(frame["prompt"]["ready"])
    return state_of(frame) in {"idle", "exited"}
