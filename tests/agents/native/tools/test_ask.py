"""``ask``: the person's answer, whatever it is."""

from pathlib import Path

import pytest

from dragoman.agents.native.tools.ask import Ask
from dragoman.agents.native.tools.tool import ToolFailed

from .context import FakeTurn, run


@pytest.mark.parametrize("answer", ["PostgreSQL", "neither", ""])
async def test_the_answer_is_the_result(root: Path, answer: str) -> None:
    turn = FakeTurn(root, answers={"Which database?": answer})
    result = await run(Ask(), turn, question="Which database?", options=("PostgreSQL", "MySQL"))
    assert result.output == answer
    assert turn.asked == [("Which database?", ("PostgreSQL", "MySQL"))]


async def test_a_question_may_be_open(root: Path) -> None:
    turn = FakeTurn(root, answers={"Why?": "because"})
    assert (await run(Ask(), turn, question="Why?")).output == "because"
    assert turn.asked == [("Why?", ())]


async def test_a_question_that_nobody_answers_fails(turn: FakeTurn) -> None:
    with pytest.raises(ToolFailed):
        await run(Ask(), turn, question="Why?")
