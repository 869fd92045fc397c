"""What went wrong in coop, row by row, and the tests that keep it from going wrong here.

A row without tests says why it does not apply. This file runs none of them: it holds the list to be complete and true.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent


class Row(NamedTuple):
    """One defect: what went wrong, the tests (``file::name`` below this folder), or why it does not apply."""

    what: str
    tests: tuple[str, ...] = ()
    not_here: str = ""


def row(what: str, *tests: str, not_here: str = "") -> Row:
    return Row(what, tests, not_here)


DRIVEN = "agents/drivers/test_known_defects.py::"
COOP = "dialects/coop/"
HUB = "dialects/hub/"

ROWS: dict[str, Row] = {
    # stream integrity
    "A1": row(
        "a slow client lost bytes silently",
        COOP + "test_slow.py::test_slow_links_beside_a_fast_one",
        HUB + "test_streams.py::test_a_reader_that_fell_behind_the_tape_is_told_what_it_missed",
    ),
    "A2": row(
        "the offset of a chunk was computed after the fact",
        COOP + "test_replay.py::test_live_chunks_join_without_gap_or_overlap",
        "agents/test_tape.py::test_following_a_ring_by_offset_gives_every_byte_once",
    ),
    "A3": row(
        "pictures pushed bytes out of a shared queue",
        COOP + "test_quiet.py::test_pictures_push_no_bytes_out",
    ),
    "A4": row(
        "a replay from 0 was empty once the ring had wrapped",
        COOP + "test_replay.py::test_after_the_ring_has_wrapped_the_oldest_byte_is_where_replay_starts",
        "agents/test_tape.py::test_after_two_capacities_a_read_from_zero_gives_the_newest_capacity_and_its_true_offset",
    ),
    "A5": row(
        "live chunks came again after a replay",
        COOP + "test_replay.py::test_a_replay_during_output_joins_the_live_chunks",
        COOP + "test_replay.py::test_a_late_link_that_replays_once_misses_nothing",
    ),
    "A6": row(
        "links span once the session had ended",
        COOP + "test_exit.py::test_a_link_that_saw_the_end_costs_no_processor_time",
        COOP + "test_exit.py::test_a_link_that_comes_after_the_end_costs_no_processor_time",
        "agents/test_pty.py::test_nothing_spins_after_the_end",
    ),
    "A7": row(
        "a slow client held up the program and all others",
        COOP + "test_slow.py::test_a_stuck_link_delays_no_echo",
        COOP + "test_slow.py::test_slow_links_beside_a_fast_one",
        "faults/test_flood.py::test_slow_links_cost_little_and_delay_nobody",
        "agents/test_pacing.py::test_a_reader_that_never_reads_costs_one_breath_however_much_is_written",
    ),
    "A8": row(
        "every link woke for every kind of event",
        COOP + "test_quiet.py::test_output_and_pictures_wake_those_that_show_them",
        COOP + "test_quiet.py::test_what_is_logged_wakes_those_that_show_states",
    ),
    "A9": row(
        "a replay that begins behind the switch of screens drew nothing",
        COOP + "test_slow.py::test_a_picture_knows_of_a_switch_of_screens_that_no_replay_holds_any_more",
        COOP + "test_slow.py::test_a_late_link_gets_the_picture_of_a_long_history_at_once",
        HUB + "test_terminal_stream.py::test_the_picture_and_the_stream_behind_it_fit_together",
    ),
    # terminal
    "B10": row(
        "characters split between two reads became replacement marks",
        COOP + "test_screen.py::test_a_character_may_be_split_anywhere",
        "agents/test_screen.py::test_characters_may_be_cut_anywhere",
    ),
    "B11": row(
        "a split switch of screens was missed, and off-then-on in one chunk",
        COOP + "test_screen.py::test_the_switch_of_screens_may_be_split_anywhere",
        COOP + "test_screen.py::test_the_last_switch_in_one_write_counts",
        "agents/test_modes.py::test_the_alternate_screen_is_followed_in_stream_order",
    ),
    "B12": row(
        "a resize reached the model and not the terminal",
        COOP + "test_resize.py::test_the_pty_and_the_picture_get_exactly_the_size_asked_for",
    ),
    "B13": row(
        "of a burst of resizes the last was dropped",
        COOP + "test_resize.py::test_after_fifty_quick_resizes_the_last_one_holds",
        "agents/test_pty.py::test_after_fifty_quick_resizes_the_terminal_has_the_last_size",
    ),
    "B14": row(
        "Enter was a line feed",
        COOP + "test_input.py::test_text_arrives_as_utf8_and_enter_is_a_carriage_return",
        DRIVEN + "test_enter_follows_its_prompt_in_a_read_of_its_own",
    ),
    "B15": row(
        "each transport had its own table of keys and signals",
        COOP + "test_input.py::test_a_key_is_its_bytes",
        COOP + "test_input.py::test_a_signal_is_known_by_name_and_number_in_any_case",
    ),
    "B16": row(
        "lines were padded to the width",
        COOP + "test_screen.py::test_lines_are_trimmed_and_as_many_as_rows",
    ),
    "B17": row(
        "the model kept every line for ever",
        DRIVEN + "test_a_long_history_costs_no_memory",
        "faults/test_flood.py::test_slow_links_cost_little_and_delay_nobody",
    ),
    # delivery of input
    "C18": row(
        "text and Enter in one write were read as a line break",
        DRIVEN + "test_enter_follows_its_prompt_in_a_read_of_its_own",
        "fake_agent/test_states.py::test_what_a_client_does_has_its_effect",
    ),
    "C19": row(
        "two quick deliveries mixed",
        DRIVEN + "test_two_prompts_at_once_do_not_mix",
        DRIVEN + "test_two_answers_in_a_row_keep_their_distance",
        DRIVEN + "test_a_prompt_keeps_its_distance_from_the_answer_before",
        "agents/drivers/test_gate.py::test_deliveries_do_not_mix_and_keep_their_distance",
    ),
    "C20": row(
        "the wait for Enter began before the text was read",
        DRIVEN + "test_the_wait_for_enter_begins_when_the_program_has_read_the_prompt",
    ),
    "C21": row(
        "one more Enter was not enough when Enter was swallowed",
        DRIVEN + "test_an_enter_that_is_swallowed_twice_is_pressed_again_until_there_is_work",
    ),
    "C22": row(
        "an Enter too many answered the next dialog",
        DRIVEN + "test_one_enter_per_dialog_so_that_none_reaches_the_next",
        "fake_agent/test_states.py::test_what_a_client_does_has_its_effect",
    ),
    "C23": row(
        "pages that only go on got a digit, and dismissals came too late",
        DRIVEN + "test_a_page_that_only_goes_on_gets_enter_and_nothing_else",
        DRIVEN + "test_a_set_up_page_that_went_by_itself_is_not_answered_any_more",
    ),
    "C24": row(
        "a digit confirmed the row instead of opening its field",
        DRIVEN + "test_feedback_goes_into_its_field_by_marker_text_and_enter",
    ),
    "C25": row(
        "a nudge reached a working agent by some transports",
        COOP + "test_nudge.py::test_in_any_other_state_nothing_is_typed",
    ),
    "C26": row(
        "bad base64 was taken for nothing",
        COOP + "test_input.py::test_bad_base64_is_refused_and_nothing_is_written",
        COOP + "test_http.py::test_errors_are_those_of_the_socket",
    ),
    # detection
    "D27": row(
        "a generic permission took the place of a plan",
        DRIVEN + "test_a_generic_permission_does_not_take_the_place_of_a_plan",
    ),
    "D28": row(
        "set-up hid the question of trust for ever",
        DRIVEN + "test_a_set_up_page_does_not_keep_the_question_of_trust_from_being_asked",
        "agents/drivers/test_dialogs.py::test_another_dialog_in_its_place_ends_it_and_opens_one",
    ),
    "D29": row(
        "records after the end of a turn looked like work",
        "agents/common/test_logs.py::test_no_log_ends_in_work",
        "agents/common/test_logs.py::test_claude_records_that_say_nothing_of_the_main_turn",
    ),
    "D30": row(
        "local commands looked like work; the end of a tool must look like it",
        "agents/common/test_logs.py::test_claude_records_that_say_nothing_of_the_main_turn",
        "agents/common/test_hooks.py::test_every_hook_that_was_seen",
    ),
    "D31": row(
        "Esc and a rejection run no hook",
        "agents/common/test_logs.py::test_claude_broken_off_while_it_spoke",
        "agents/common/test_logs.py::test_claude_permitted_then_denied",
        "agents/drivers/test_fusion.py::test_an_interruption_ends_work_that_hooks_spoke_of",
        "fake_agent/test_states.py::test_what_a_client_is_told",
    ),
    "D32": row(
        "an input box beside work was idle, one above a status line was not",
        "agents/tui/test_claude_screen.py::test_an_input_box_beside_work_and_above_a_status_line",
        "agents/tui/test_recorded_screens.py::test_work_is_seen_on_the_screen_or_in_the_title",
        "agents/tui/test_recorded_screens.py::test_after_a_turn_an_empty_box_waits",
        "fake_agent/test_states.py::test_what_a_client_is_told",
    ),
    "D33": row(
        "a dialog's marker was an input box, stray words were a dialog",
        "agents/tui/test_recorded_screens.py::test_a_dialog_is_seen_with_its_kind_and_exactly_one_marker",
        "agents/tui/test_any_screen.py::test_a_dialog_that_is_quoted_is_none",
        "agents/tui/test_claude_screen.py::test_what_a_model_writes_does_not_make_a_set_up_dialog",
    ),
    "D34": row(
        "a status line about bypass was a start-up dialog",
        DRIVEN + "test_a_status_line_about_bypass_is_no_dialog",
    ),
    "D35": row(
        "a check mark was a part of the label",
        "agents/tui/test_claude_screen.py::test_a_check_mark_is_no_part_of_the_label",
        "agents/tui/test_claude_screen.py::test_only_a_check_mark_at_an_edge_of_its_own_is_cut_off",
    ),
    "D36": row(
        "the log was looked for in the wrong folder, white space was a message",
        DRIVEN + "test_a_project_folder_has_the_name_that_claude_gives_it",
        "agents/common/test_ledger.py::test_white_space_is_no_message",
    ),
    "D37": row(
        "a log that was cut was read from beyond its end; old words stayed the last",
        "agents/common/test_tail.py::test_a_log_that_was_cut_short_is_read_anew",
        "agents/common/test_hooks.py::test_clear_begins_the_conversation_anew",
        "hub/test_state.py::test_the_last_message_is_the_assistants_until_history_is_reset",
    ),
    "D38": row(
        "reading the log set off reading the log",
        DRIVEN + "test_an_idle_agent_with_a_log_costs_no_processor_time",
    ),
    "D39": row(
        "the last source to speak won, however little it knew",
        "agents/drivers/test_fusion.py::test_a_status_report_outranks_a_later_hook",
        "agents/drivers/test_fusion.py::test_what_the_screen_shows_counts_only_when_nobody_better_spoke",
    ),
    "D40": row(
        "half a line of the log was taken for a line",
        "agents/common/test_tail.py::test_a_line_without_its_end_waits_for_it",
        "agents/common/test_tail.py::test_every_cut_gives_the_same_records",
    ),
    # hooks, start, end
    "E41": row(
        "hooks were listened for after the program had begun",
        DRIVEN + "test_hooks_are_listened_for_at_the_moment_of_the_launch",
        DRIVEN + "test_the_first_thing_a_program_does_may_be_a_hook",
    ),
    "E42": row(
        "what a crash left behind kept the next start from hearing hooks",
        "faults/test_kill.py::test_an_agent_that_is_started_again_has_its_first_hook_answered",
        DRIVEN + "test_what_a_lost_server_left_behind_is_in_nobodys_way",
    ),
    "E43": row(
        "a hook failed when there was nothing to say",
        DRIVEN + "test_a_hook_that_nobody_answers_prints_nothing_and_succeeds",
        DRIVEN + "test_a_hook_succeeds_whatever_it_is_answered",
    ),
    "E44": row(
        "programs were told port 0",
        "server/test_coop_url.py::test_a_port_that_the_system_chose_is_told_as_chosen",
    ),
    "E45": row(
        "an agent was killed in its work, a second signal was ignored",
        "server/test_run.py::test_a_stop_brings_a_driven_agent_to_rest_first",
        "server/test_run.py::test_a_second_signal_ends_it_at_once",
    ),
    "E46": row(
        "two exits, or one before the last output",
        COOP + "test_exit.py::test_all_output_then_the_last_picture_then_one_exit",
        COOP + "test_exit.py::test_output_written_in_the_moment_of_the_end_is_complete",
        HUB + "test_streams.py::test_the_end_comes_after_the_last_byte_and_once",
    ),
    "E47": row(
        "attach damaged the terminal, lost the last output, could not resize, and replayed from the wrong place",
        "server/test_attach_refused.py::test_without_a_server_the_terminal_stays_as_it_was",
        "server/test_attach.py::test_one_types_leaves_and_comes_back",
        "server/test_attach.py::test_a_program_follows_the_window_on_a_server_with_a_token",
        COOP + "test_auth.py::test_resize_needs_no_authentication",
        "client/test_hub_client.py::test_a_terminal_through_cuts_is_exact",
    ),
    # one truth, and secrets
    "F48": row(
        "an error without its category, a state without its cause",
        DRIVEN + "test_a_state_is_told_whole",
    ),
    "F49": row(
        "the exit was known before the state, or after it",
        COOP + "test_http.py::test_status_agrees_with_the_message",
        COOP + "test_exit.py::test_codes_and_signals",
        COOP + "test_exit.py::test_after_the_end_a_late_link_may_ask_for_everything",
        "agents/test_terminal_agent.py::test_a_run_leaves_its_whole_story_in_the_log",
    ),
    "F50": row(
        "the comparison of tokens told by its time; pages of other origins got nothing",
        "server/test_token.py::test_every_comparison_takes_the_same_time_wherever_they_differ",
        "server/test_guard.py::test_cors_echoes_an_origin_that_passes_and_never_a_star",
    ),
    "F51": row(
        "numbers of states came twice, or were the screen's",
        COOP + "test_prompts.py::test_a_revision_repeats_the_state_with_its_seq",
        COOP + "test_modes.py::test_state_get_tells_the_state_and_its_number",
    ),
    "F52": row(
        "a write over WebSocket lacked a check that HTTP had",
        COOP + "test_messages.py::test_unauthenticated_reads_are_answered_and_writes_are_refused",
        COOP + "test_auth.py::test_http_needs_the_bearer_header",
        HUB + "test_link.py::test_every_write_needs_its_right",
    ),
    # many sessions
    "G (locks)": row(
        "a lock held while waiting for a peer", not_here="no lock is held over I/O, and there are no peers"
    ),
    "G (peers)": row(
        "one dead peer blocked all", HUB + "test_link.py::test_a_link_that_does_not_read_holds_no_more_than_its_limits"
    ),
    "G (registration)": row(
        "a second registration replaced the live one",
        not_here="no session registers itself: the server makes each, under an id that is never given again",
    ),
    "G (ids)": row(
        "answers carried the id of another request",
        HUB + "test_link.py::test_an_id_comes_back_even_with_what_cannot_be_read",
    ),
    "G (cuts)": row(
        "text was cut inside a character",
        COOP + "test_prompts.py::test_input_is_compact_and_cut_at_200_bytes_between_characters",
    ),
}

ENDS = {"A": 9, "B": 17, "C": 26, "D": 40, "E": 47, "F": 52}
"""The last row of each part of the list."""


@cache
def defined_in(file: str) -> frozenset[str]:
    """The tests that a file defines; none where there is no such file."""
    path = TESTS / file
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    found = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return frozenset(node.name for node in found if node.name.startswith("test_"))


def test_every_row_is_there() -> None:
    starts = [1, *(end + 1 for end in ENDS.values())]
    parts = zip(ENDS.items(), starts, strict=False)
    numbered = [f"{letter}{number}" for (letter, end), start in parts for number in range(start, end + 1)]
    assert [name for name in ROWS if not name.startswith("G")] == numbered


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_tests_that_exist_or_a_reason(name: str) -> None:
    check_row(name, ROWS[name])


def check_row(name: str, defect: Row) -> None:
    """It has tests, which there are, or else a reason."""
    assert bool(defect.tests) != bool(defect.not_here)
    for test in defect.tests:
        file, _, function = test.partition("::")
        assert function in defined_in(file), f"{name}: {test}"


def test_a_test_that_is_not_there_is_found() -> None:
    assert defined_in("test_nothing.py") == frozenset()
    assert "test_every_row_is_there" in defined_in("test_known_defects.py")
