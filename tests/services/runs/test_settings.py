"""Settings of runs, and windie's own variable."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.services.runs import RunsSettings, with_environment

CAP = "WINDIE_VM_MAX_ACTIVE_RUNS_PER_WORKSPACE"


def test_the_cap_is_one_where_nothing_is_said() -> None:
    assert with_environment(RunsSettings(), {}).max_active_per_workspace == 1
    assert with_environment(RunsSettings(), {CAP: "12"}).max_active_per_workspace == 12


@pytest.mark.parametrize("given", ["2500ms", "0", "-1", "1.5", " 2", "", "1e3", "0x10", "٣", "1_000", "9" * 30])
def test_a_cap_that_is_no_whole_number_is_refused(given: str) -> None:
    """Windie spec §11, bug 26."""
    with pytest.raises(ValueError, match=f"^{CAP} is .*; it must be a whole number, 1 or more$"):
        with_environment(RunsSettings(), {CAP: given})


@pytest.mark.parametrize(
    "given",
    [
        {"max_active_per_workspace": 0},
        {"default_events": 2, "most_events": 1},
        {"lease_seconds": 0},
        {"worker_lost_seconds": float("nan")},
    ],
)
def test_settings_with_which_nothing_could_run_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"it must be|more than most_events"):
        RunsSettings(**given)
