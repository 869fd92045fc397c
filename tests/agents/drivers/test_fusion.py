"""Which evidence counts: ranks, news that comes late, and sources that fell silent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.common.observation import Activity, Sighting, Source
from dragoman.agents.terminal.drivers.fusion import CONTRADICTION, Fusion


def said(source: Source, state: Activity) -> Sighting:
    return Sighting(source=source, state=state, cause=f"{source}:{state}")


def state(fusion: Fusion, now: float) -> str | None:
    belief = fusion.belief(now)
    return None if belief is None else belief.state


def test_nothing_is_believed_before_anybody_spoke() -> None:
    assert Fusion().belief(0.0) is None


@pytest.mark.parametrize("better", ["status", "hook", "log", "title"])
def test_what_the_screen_shows_counts_only_when_nobody_better_spoke(better: Source) -> None:
    fusion = Fusion()
    fusion.see(said("screen", "idle"), 0.0)
    assert state(fusion, 0.0) == "idle"
    fusion.see(said(better, "working"), 1.0)
    assert state(fusion, 1.0) == "working"


def test_a_status_report_outranks_a_later_hook() -> None:
    fusion = Fusion()
    fusion.see(said("status", "idle"), 0.0)
    fusion.see(said("hook", "working"), 0.2)
    assert state(fusion, 0.2) == "idle"


@pytest.mark.parametrize("late", ["hook", "log", "title"])
def test_among_those_that_report_moments_the_newest_counts(late: Source) -> None:
    fusion = Fusion()
    fusion.see(said("hook", "working"), 0.0)
    fusion.see(said(late, "idle"), 0.1)
    assert state(fusion, 0.1) == "idle"


def test_a_line_that_comes_late_by_its_own_clock_changes_nothing() -> None:
    fusion = Fusion()
    fusion.see(said("hook", "idle"), 5.0, at=5000)
    fusion.see(said("log", "working"), 5.5, at=4000)
    assert state(fusion, 5.5) == "idle"


@pytest.mark.parametrize("silent", ["status", "hook", "log", "title"])
@pytest.mark.parametrize(("stuck", "shown"), [("working", "idle"), ("idle", "working")])
def test_no_state_sticks_when_its_source_fell_silent(silent: Source, stuck: Activity, shown: Activity) -> None:
    """A lost hook, a status report that never came, Esc that fires no hook: the screen is believed after a while."""
    fusion = Fusion()
    fusion.see(said(silent, stuck), 0.0)
    fusion.see(said("screen", shown), 0.5)
    assert state(fusion, 0.5) == stuck
    wait = fusion.next_look(0.5)
    assert wait is not None
    assert state(fusion, 0.5 + wait) == shown
    assert 0.5 + wait <= 0.5 + CONTRADICTION


def test_a_source_that_speaks_again_is_believed_again() -> None:
    fusion = Fusion()
    fusion.see(said("status", "working"), 0.0)
    fusion.see(said("screen", "idle"), 0.1)
    state(fusion, 0.1)
    assert state(fusion, 5.0) == "idle"
    fusion.see(said("status", "working"), 6.0)
    assert state(fusion, 6.0) == "working"


def test_a_failed_agent_at_its_input_box_stays_failed() -> None:
    fusion = Fusion()
    fusion.see(Sighting(source="hook", state="error", cause="hook:error", error="overloaded"), 0.0)
    fusion.see(said("screen", "idle"), 0.1)
    belief = fusion.belief(60.0)
    assert belief is not None
    assert (belief.state, belief.error) == ("error", "overloaded")


def test_an_interruption_ends_work_that_hooks_spoke_of() -> None:
    fusion = Fusion()
    fusion.see(said("hook", "working"), 0.0)
    fusion.see(said("title", "working"), 0.0)
    fusion.interrupt("log:idle", 1.0)
    assert state(fusion, 1.0) == "idle"


def test_exited_is_final() -> None:
    fusion = Fusion()
    fusion.see(said("process", "exited"), 0.0)
    fusion.see(said("hook", "working"), 1.0)
    assert state(fusion, 1.0) == "exited"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["status", "hook", "log", "title"]),
            st.sampled_from(["working", "idle"]),
            st.floats(0.0, 3.0),
        ),
        max_size=30,
    ),
    st.sampled_from(["working", "idle"]),
)
def test_whatever_was_said_the_screen_is_believed_once_all_are_silent(
    words: list[tuple[Source, Activity, float]], shown: Activity
) -> None:
    fusion, now = Fusion(), 0.0
    for source, what, pause in words:
        now += pause
        fusion.see(said(source, what), now)
        fusion.belief(now)
    fusion.see(said("screen", shown), now)
    for _ in range(3):
        fusion.belief(now)
        wait = fusion.next_look(now)
        now += 0.0 if wait is None else wait
    assert state(fusion, now) == shown


# A title's idle


def test_a_titles_idle_waits_for_a_screen_at_rest() -> None:
    fusion = Fusion(screened=True)
    fusion.see(said("title", "working"), 0.0)
    fusion.see(said("title", "idle"), 1.0)
    assert state(fusion, 1.0) == "working"
    fusion.see(said("screen", "working"), 1.1)
    assert state(fusion, 5.0) == "working"
    fusion.see(said("screen", "idle"), 5.1)
    assert state(fusion, 5.1) == "idle"


def test_a_titles_idle_that_a_dialog_hides_is_not_replaced_by_an_older_one() -> None:
    fusion = Fusion(screened=True)
    fusion.see(said("hook", "idle"), 0.0)
    fusion.see(said("title", "working"), 1.0)
    fusion.see(said("title", "idle"), 2.0)
    fusion.unsay("screen")
    assert state(fusion, 9.0) == "working"


def test_a_titles_idle_is_taken_back_by_its_work() -> None:
    fusion = Fusion(screened=True)
    for at, word in enumerate(("working", "idle", "working")):
        fusion.see(said("title", word), float(at))  # type: ignore[arg-type]
    fusion.see(said("screen", "idle"), 2.1)
    assert state(fusion, 2.1) == "working"


@pytest.mark.parametrize(("told", "believed"), [(0.5, "idle"), (1.5, "working")])
def test_a_titles_idle_counts_from_when_it_was_told(told: float, believed: str) -> None:
    fusion = Fusion(screened=True)
    fusion.see(said("title", "working"), 0.0)
    fusion.see(said("title", "idle"), 1.0)
    fusion.see(said("hook", "working"), told)
    fusion.see(said("screen", "idle"), 2.0)
    assert state(fusion, 2.0) == believed


def test_of_a_failure_the_screen_knows_more_than_a_title() -> None:
    fusion = Fusion(screened=True)
    fusion.see(said("title", "working"), 0.0)
    fusion.see(said("title", "idle"), 1.0)
    fusion.see(said("screen", "error"), 1.6)
    assert state(fusion, 1.6) == "error"


def test_without_a_screen_a_titles_idle_counts_at_once() -> None:
    fusion = Fusion()
    fusion.see(said("title", "working"), 0.0)
    fusion.see(said("title", "idle"), 1.0)
    assert state(fusion, 1.0) == "idle"


@pytest.mark.parametrize(("after", "believed"), [(0.1, "error"), (1.0, "working")])
def test_the_last_frames_of_a_title_that_spins_are_no_news(after: float, believed: str) -> None:
    """The title comes through the terminal, the log does not: they overtake each other."""
    fusion = Fusion(screened=True)
    fusion.see(said("title", "working"), 0.0)
    fusion.see(said("log", "error"), 1.0)
    fusion.see(said("title", "working"), 1.0 + after)
    assert state(fusion, 1.0 + after) == believed


# What an error was


@pytest.mark.parametrize("first", ["status", "hook"])
def test_what_an_error_was_is_taken_from_whoever_knows(first: str) -> None:
    """A program reports the error, and its hooks and log what it was."""
    fusion = Fusion()
    says: list[Sighting] = [said("status", "error"), failed("hook", "server_error: API Error: 529")]
    for sighting in says if first == "status" else reversed(says):
        fusion.see(sighting, 1.0)
    assert why(fusion, 1.0) == "server_error: API Error: 529"
    fusion.see(failed("screen", "API Error: 529"), 1.5)
    assert why(fusion, 1.5) == "server_error: API Error: 529"


def test_the_text_of_an_error_does_not_outlive_it() -> None:
    fusion = Fusion()
    fusion.see(failed("hook", "API Error: 529"), 0.0)
    fusion.see(said("status", "working"), 1.0)
    fusion.see(said("status", "error"), 2.0)
    assert why(fusion, 2.0) is None


@pytest.mark.parametrize("ending", ["hook", "log", "title"])
@pytest.mark.parametrize("screened", [True, False])
def test_the_end_of_a_turn_that_failed_is_no_way_out_of_the_error(ending: Source, screened: bool) -> None:
    """Gemini's log tells of the error, and its hook then of the end."""
    fusion = Fusion(screened=screened)
    fusion.see(said("title", "working"), 0.0)
    fusion.see(failed("log", "API Error: 400"), 1.0)
    fusion.see(said(ending, "idle"), 1.2)
    fusion.see(said("screen", "idle"), 1.8)
    assert why(fusion, 9.0) == "API Error: 400"


def test_a_turn_after_the_error_ends_it() -> None:
    fusion = Fusion()
    fusion.see(failed("log", "API Error: 400"), 1.0)
    fusion.see(said("hook", "working"), 1.5)
    fusion.see(said("hook", "idle"), 2.0)
    assert state(fusion, 2.0) == "idle"


def failed(source: Source, text: str) -> Sighting:
    return Sighting(source=source, state="error", cause=f"{source}:error", error=text)


def why(fusion: Fusion, now: float) -> str | None:
    belief = fusion.belief(now)
    assert belief is not None
    assert belief.state == "error"
    return belief.error
