"""Of each kind one question is asked at a time, and an answer is to the one that was seen (invariant 4)."""

from __future__ import annotations

from dragoman.dialects.onion.asking import Ask, Asking
from dragoman.dialects.onion.binding import Binding
from dragoman.hub.events import (
    Answer,
    DecisionKind,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Option,
    Question,
)


def _opened(name: str, kind: DecisionKind = "permission", **more: object) -> DecisionOpened:
    return DecisionOpened(decision=name, kind=kind, text=name, **more)  # type: ignore[arg-type]


def _over(name: str) -> DecisionResolved:
    return DecisionResolved(decision=name, outcome="answered", answer=Answer(accept=True))


def _names(asks: list[Ask]) -> list[str]:
    return [ask.decision for ask in asks]


def test_the_second_of_a_kind_waits_for_the_first() -> None:
    asking = Asking()
    assert _names([asking.opened(_opened("a"))]) == ["a"]  # type: ignore[list-item]
    assert asking.opened(_opened("b")) is None
    assert _names(asking.now) == ["a"]
    following = asking.resolved(_over("a"))
    assert following is not None
    assert following.decision == "b"


def test_kinds_do_not_wait_for_each_other() -> None:
    asking = Asking()
    for name, kind in (("a", "permission"), ("b", "question"), ("c", "plan")):
        ask = asking.opened(_opened(name, kind))  # type: ignore[arg-type]
        assert ask is not None
        assert ask.decision == name
    assert asking.opened(_opened("d", "form")) is None  # a form is asked like a question


def test_one_that_is_resolved_before_its_turn_is_never_asked() -> None:
    asking = Asking()
    asking.opened(_opened("a"))
    asking.opened(_opened("b"))
    asking.opened(_opened("c"))
    assert asking.resolved(_over("b")) is None
    following = asking.resolved(_over("a"))
    assert following is not None
    assert following.decision == "c"


def test_one_whose_options_are_still_read_is_asked_when_it_is_ready() -> None:
    asking = Asking()
    assert asking.opened(_opened("a", ready=False)) is None
    ask = asking.revised(DecisionRevised(decision="a", ready=True, options=(Option("Yes"),)))
    assert ask is not None
    assert ask.opened.options == (Option("Yes"),)


def test_a_dialog_is_asked_question_by_question() -> None:
    asking = Asking()
    questions = (Question("One?"), Question("Two?", (Option("x"),), multiple=True))
    first = asking.opened(_opened("a", "question", questions=questions))
    assert first is not None
    assert first.asked.question == "One?"
    second = asking.revised(DecisionRevised(decision="a", question_current=1))
    assert second is not None
    assert (second.asked.question, second.asked.multiple, second.question) == ("Two?", True, 1)
    assert asking.revised(DecisionRevised(decision="a", text="still the same")) is None


def test_a_copy_goes_its_own_way() -> None:
    asking = Asking()
    asking.opened(_opened("a"))
    twin = asking.copy()
    twin.resolved(_over("a"))
    assert (_names(asking.now), _names(twin.now)) == (["a"], [])


def _ask(name: str) -> Ask:
    return Ask(_opened(name), 0)


def test_an_answer_counts_once_the_client_has_proved_to_have_seen_the_question() -> None:
    binding = Binding()
    assert binding.bound("approval_needed") is None
    payload = binding.shown(_ask("a"))
    assert binding.bound("approval_needed") is None
    binding.pong(payload)
    assert binding.bound("approval_needed") == _ask("a")


def test_an_answer_that_crosses_with_the_next_question_is_to_the_one_before() -> None:
    binding = Binding()
    binding.pong(binding.shown(_ask("a")))
    binding.answered("a")
    payload = binding.shown(_ask("b"))
    assert binding.bound("approval_needed") == _ask("a")  # a second click on the first one, say
    binding.pong(payload)
    assert binding.bound("approval_needed") == _ask("b")


def test_after_somebody_elses_answer_the_next_question_waits_for_a_proof() -> None:
    binding = Binding()
    binding.pong(binding.shown(_ask("a")))
    payload = binding.hold(_ask("b"))
    assert payload is not None
    assert binding.held
    assert not binding.pong(b"asked 999")
    assert binding.held
    assert binding.pong(payload)
    assert not binding.held
    assert binding.hold(_ask("b")) is None
    assert binding.bound("approval_needed") == _ask("a")


def test_after_its_own_answer_the_next_question_does_not_wait() -> None:
    binding = Binding()
    binding.pong(binding.shown(_ask("a")))
    binding.answered("a")
    assert binding.hold(_ask("b")) is None


def test_the_next_question_of_one_dialog_does_not_wait() -> None:
    binding = Binding()
    binding.pong(binding.shown(Ask(_opened("a", "question"), 0)))
    assert binding.hold(Ask(_opened("a", "question"), 1)) is None


def test_what_the_client_says_to_have_seen_is_bound() -> None:
    binding = Binding()
    binding.knows(_ask("a"))
    assert binding.bound("approval_needed") == _ask("a")
