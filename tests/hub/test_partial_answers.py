"""A dialog of several questions, answered one by one (mapping rule 9): what is given is durable, none counts twice."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.hub.decisions import check_answer, position, take
from dragoman.hub.errors import AlreadyResolved, AnsweredAlready, InvalidAnswer
from dragoman.hub.events import Answer, DecisionOpened, DecisionResolved, DecisionRevised, Option, Question
from dragoman.hub.permissions import LOCAL

from .rig import Hub, answer, ask, turns_of_the_loop

ONE, TWO, FREE = Answer(option=1), Answer(option=2), Answer(text="free")
QUESTIONS = (
    Question("which?", (Option("a"), Option("b"))),
    Question("why?"),
    Question("when?", (Option("now"),)),
)


def dialog(**more: object) -> DecisionOpened:
    return ask(kind="question", questions=QUESTIONS, **more)


def part(*answers: Answer) -> Answer:
    return Answer(answers=answers)


async def test_a_part_goes_on_with_the_dialog_and_the_rest_resolves_it(hub: Hub) -> None:
    session = await hub.create("puppet")
    session.open_decision(dialog())
    event = await answer(session, "d", part(TWO))
    assert event.fact == DecisionRevised(decision="d", answered=(TWO,), question_current=1, by="local", cause="")
    assert hub.puppets.progress == [event.fact]
    assert session.shown.decisions["d"].question_current == 1
    assert hub.puppets.told == []
    event = await answer(session, "d", part(FREE, ONE))
    assert isinstance(event.fact, DecisionResolved)
    assert event.fact.answer == part(TWO, FREE, ONE)
    assert [said for _, said in hub.puppets.told] == [part(TWO, FREE, ONE)]
    with pytest.raises(AlreadyResolved):
        await answer(session, "d", part(ONE))


async def test_a_part_is_told_only_once_it_is_durable(hub: Hub) -> None:
    """Invariant 4."""
    session = await hub.create("puppet")
    await session.durable(session.open_decision(dialog()).seq)
    answering = asyncio.create_task(answer(session, "d", part(TWO)))
    await turns_of_the_loop(1)
    hub.journal.fail("the disk is gone")
    await turns_of_the_loop()
    assert hub.puppets.progress == []
    hub.journal.heal()
    await answering
    assert len(hub.puppets.progress) == 1


async def test_of_two_answers_to_one_question_one_counts(hub: Hub) -> None:
    """Invariant 4: the second one is to a question that its sender did not see."""
    session = await hub.create("puppet")
    session.open_decision(dialog())
    await session.answer(LOCAL, "d", part(TWO), via="test", question=0)
    with pytest.raises(AnsweredAlready, match="question 1"):
        await session.answer(LOCAL, "d", part(ONE), via="test", question=0)
    assert session.shown.answered == {"d": (TWO,)}
    await session.answer(LOCAL, "d", part(FREE, ONE), via="test", question=1)
    assert session.shown.decisions == {}


async def test_parts_outlive_the_server(hub: Hub) -> None:
    session = await hub.create("puppet")
    session.open_decision(dialog())
    await answer(session, "d", part(TWO))
    await hub.restart()
    session = await hub.get(session)
    if "d" in session.state.decisions:  # what recovery does with open decisions is not this test's
        event = await answer(session, "d", part(FREE, ONE))
        assert isinstance(event.fact, DecisionResolved)
        assert event.fact.answer == part(TWO, FREE, ONE)


def test_what_was_answered_at_the_terminal_is_left_open_in_the_answer() -> None:
    opened = dialog(question_current=1)
    assert position(opened) == 1
    assert take(opened, (), part(FREE)) == (part(Answer(), FREE), True)
    assert take(opened, (), part(FREE, ONE)) == (part(Answer(), FREE, ONE), False)


def test_what_was_taken_back_at_the_terminal_is_answered_anew() -> None:
    assert take(dialog(question_current=1), (ONE, FREE), part(TWO)) == (part(ONE, TWO), True)


def test_an_answer_to_the_whole_needs_no_parts() -> None:
    assert take(dialog(), (), FREE) == (FREE, False)
    assert take(ask(kind="question"), (), part(FREE)) == (part(FREE), False)
    assert take(dialog(question_current=1), (TWO,), FREE) == (Answer(text="free", answers=(TWO,)), False)


def test_the_answer_to_a_secret_is_whole() -> None:
    """Invariant 10: a part of it would lie in the log."""
    assert take(dialog(secret=True), (), part(FREE)) == (part(FREE), False)


@pytest.mark.parametrize(
    ("current", "said"),
    [
        (1, part(FREE, ONE, ONE)),
        (2, part(TWO)),
        (0, part(Answer(option=3))),
        (3, part(ONE)),
        (1, Answer(accept=True)),
        (0, Answer()),
    ],
)
def test_a_part_that_does_not_fit_what_is_left(current: int, said: Answer) -> None:
    with pytest.raises(InvalidAnswer):
        check_answer(dialog(question_current=current), said)


def test_at_the_end_of_the_questions_the_dialog_can_be_confirmed() -> None:
    check_answer(dialog(question_current=3), Answer(accept=True))
