"""What went wrong in the two original servers, row by row (spec §11), and the tests that keep it from going wrong here.

As ``tests/test_known_defects.py``, which holds this list to be complete and true as well.
"""

from __future__ import annotations

import pytest

from tests.test_known_defects import Row, check_row, row

CIN = "dialects/cin/"
WRONG = CIN + "test_once_wrong.py::"
SEED = CIN + "test_seed_page.py::"
LINKS = CIN + "test_links.py::"
SESSIONS = CIN + "test_http_sessions.py::"
PROGRAMS = CIN + "test_http_programs.py::"
FILES = CIN + "test_http_files.py::"
LIMITS = CIN + "test_http_limits.py::"
ORIGINS = CIN + "test_http_origins.py::"
RECORDED = CIN + "recorded/test_recorded.py::test_our_server_says_what_was_recorded"
HOOKED = "agents/hooked/"
DRIVEN = "agents/drivers/test_known_defects.py::"

ROWS: dict[int, Row] = {
    1: row(
        "the dashboard's answer to a permission was lost, and the agent stayed blocked",
        WRONG + "test_a_permission_is_answered_over_http_and_resolved_once",
        SESSIONS + "test_a_permission_is_answered_by_its_number",
    ),
    2: row("a ping had no answer", SEED + "test_line_7_a_ping_has_its_pong", RECORDED),
    3: row(
        "get_history did not heed data and sessionId, and took 0 and negative limits for something else",
        SEED + "test_line_8_history_is_what_was_told_oldest_first",
        WRONG + "test_a_limit_is_how_many_of_the_newest",
        LINKS + "test_history_is_as_it_was_told_oldest_first_for_one_session_or_for_all",
    ),
    4: row(
        "session:* were never sent",
        SEED + "test_line_3_a_new_session_is_told_before_anything_of_it",
        SEED + "test_line_4_a_new_name_and_a_tool_are_updates",
        SEED + "test_line_5_a_session_that_was_deleted_is_told_last",
        SEED + "test_line_6_each_status_is_told_as_it_changes",
        LINKS + "test_created_status_and_event_come_in_this_order_on_every_link",
    ),
    5: row(
        "every event came twice where a script appends and posts",
        WRONG + "test_a_script_that_appends_and_posts_is_one_event",
        HOOKED + "test_forms.py::test_one_event_for_each_however_the_channels_run",
        HOOKED + "test_forms.py::test_two_equal_calls_stay_two",
        RECORDED,
    ),
    6: row(
        "half-normalised events broke the dashboard's feed",
        WRONG + "test_a_half_normalised_event_is_a_whole_one",
        RECORDED,
    ),
    7: row(
        "of two sessions in one folder the wrong one was linked",
        WRONG + "test_an_agent_in_the_folder_of_one_of_ours_is_another_session",
        HOOKED + "test_routing.py::test_the_same_folder_links_nothing",
        SESSIONS + "test_a_dashboards_guess_of_an_agent_links_nothing",
    ),
    8: row(
        "all sessions were lost with the server, and their programs lived on as orphans",
        WRONG + "test_sessions_and_history_outlive_the_server",
        LINKS + "test_history_after_a_restart_is_what_was_told_live",
        "agents/common/test_orphans.py::test_survivors_are_found_by_pid_and_start_and_ended_on_the_schedule",
    ),
    9: row(
        "Codex' thread had its file's time in its id, and its turn's end was told twice or never",
        HOOKED + "test_rollouts.py::test_a_recorded_session_is_told_like_its_hooks_would",
        HOOKED + "test_rollouts.py::test_the_last_words_of_a_turn_are_told_once",
        HOOKED + "test_forms.py::test_codex_tells_of_a_turns_end_by_hook_and_by_notify",
        RECORDED,
    ),
    10: row(
        "Codex' hooks were put where Codex does not read, and its notify was read where it does not come",
        HOOKED + "test_install.py::test_codex_folder_is_named_as_codex_does",
        HOOKED + "test_install_text.py::test_hashes_are_those_that_codex_writes",
        HOOKED + "test_forms.py::test_codex_tells_of_a_turns_end_by_hook_and_by_notify",
    ),
    11: row(
        "old lines made phantom sessions, and raw ones a session without a name",
        WRONG + "test_old_lines_of_the_events_file_make_no_session",
        WRONG + "test_what_names_no_session_makes_none",
        HOOKED + "test_events_file.py::test_what_is_appended_from_now_on_is_taken",
        HOOKED + "test_transcripts.py::test_logs_of_before_the_server_are_of_no_session",
        HOOKED + "test_routing.py::test_what_names_no_session_or_no_hook_makes_none",
    ),
    12: row(
        "installing hooks overwrote those of the person",
        HOOKED + "test_install.py::test_what_was_there_stays_and_is_there_again",
        HOOKED + "test_install.py::test_whatever_is_done_in_whatever_order_the_person_has_what_is_theirs",
    ),
    13: row(
        "Enter came before a long paste was taken, and each prompt left a folder behind",
        DRIVEN + "test_enter_follows_its_prompt_in_a_read_of_its_own",
        DRIVEN + "test_the_wait_for_enter_begins_when_the_program_has_read_the_prompt",
        SESSIONS + "test_a_prompt_reaches_its_program",
    ),
    14: row(
        "an agent refused to run because the server had inherited that it runs in one",
        WRONG + "test_a_program_does_not_inherit_that_the_server_runs_in_an_agent",
    ),
    15: row(
        "files were let out by the beginning of their path, and any page could post and read",
        FILES + "test_no_path_leads_out_of_a_sessions_folder",
        FILES + "test_browsing_stays_in_known_folders",
        CIN + "test_http_images.py::test_no_name_of_a_picture_leads_out_of_their_folder",
        ORIGINS + "test_a_page_of_another_site_can_ask_nothing",
        ORIGINS + "test_nothing_that_another_site_sent_has_happened",
        WRONG + "test_other_origins_neither_post_nor_read",
        RECORDED,
    ),
    16: row(
        "a picture was too large for any request, and the connection was reset",
        WRONG + "test_a_large_body_is_taken_and_one_too_large_is_told_so",
        LIMITS + "test_a_body_over_the_limit_is_413_and_the_connection_goes_on",
        LIMITS + "test_a_body_up_to_the_limit_is_read",
    ),
    17: row(
        "flags were misspelt, skipped permissions although told not to, and were forgotten by a restart",
        WRONG + "test_flags_are_the_programs_own_words_and_a_restart_remembers_them",
        PROGRAMS + "test_permissions_are_skipped_only_when_asked_and_a_restart_remembers_it",
        SESSIONS + "test_flags_are_the_agents_own_words_and_nothing_is_skipped_unless_asked",
    ),
    18: row(
        "what a screen showed of tokens was taken for another session's, and suggestions were missed",
        WRONG + "test_tokens_of_two_sessions_are_counted_apart",
    ),
    19: row(
        "what waited for its end was never cleared, and the events file grew for ever",
        WRONG + "test_what_is_kept_of_calls_that_never_end_is_bounded",
        WRONG + "test_what_is_posted_is_appended_to_no_file",
        "agents/common/test_ledger.py::test_what_is_remembered_is_bounded",
        "hub/test_registry.py::test_closed_logs_are_dropped_when_their_time_has_come_without_being_read",
    ),
    20: row(
        "a session whose program lived was cleaned up",
        WRONG + "test_a_session_that_lives_is_not_cleaned_up",
        SESSIONS + "test_what_is_offline_is_cleaned_up_and_what_lives_is_not",
    ),
    21: row(
        "a program that was not there was a session that works",
        WRONG + "test_a_program_that_is_not_there_is_no_session",
        PROGRAMS + "test_a_program_that_is_not_there_is_an_error_at_once",
    ),
    22: row(
        "the whole list was sent every 5 seconds, and up to three times for one change",
        WRONG + "test_a_change_is_one_frame_and_one_list",
        RECORDED,
    ),
    23: row(
        "the end of a sub-agent's call cleared the tool of the agent itself",
        LINKS + "test_a_sub_agents_calls_are_events_but_not_the_sessions_tool",
        "hub/test_listed.py::test_a_row_shows",
    ),
}


def test_every_row_is_there() -> None:
    assert list(ROWS) == list(range(1, 24))


@pytest.mark.parametrize("number", ROWS)
def test_a_row_has_tests_that_exist_or_a_reason(number: int) -> None:
    check_row(str(number), ROWS[number])
