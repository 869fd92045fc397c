"""What went wrong in the original's server and clients, row by row, and the tests that keep it from going wrong here.

As ``tests/test_known_defects.py``, which holds this list to be complete and true as well.
"""

from __future__ import annotations

import pytest

from tests.test_known_defects import Row, check_row, row

WINDIE = "dialects/windie/"
LIVE = WINDIE + "live/"
TURNS = LIVE + "test_turns.py::"
TOOLS = LIVE + "test_tools.py::"
LINKS = LIVE + "test_links.py::"
SDK = LIVE + "test_sdk.py::"
RECORDED = LIVE + "test_recordings.py::test_a_recorded_conversation_comes_to_what_it_should"
INTERLEAVED = LIVE + "test_interleavings.py::test_random_interleavings_break_no_rule"
DEFINITION = WINDIE + "test_agent_definition.py::"
DECODING = WINDIE + "test_decoding.py::"
PROJECTION = WINDIE + "test_projection.py::"
REHYDRATING = WINDIE + "test_rehydrating.py::"
INSTALLS = "services/installs/"
RUNS = "services/runs/"
SPEECH = "there is no speech here: no audio, no transcription, and `/ws/transcription` is not served"

ROWS: dict[int, Row] = {
    1: row(
        "a stop made a completion of its own and lost which turn it was",
        TURNS + "test_a_stop_is_acknowledged_and_nothing_more_is_told_of_the_turn",
        TURNS + "test_a_stop_of_one_turn_leaves_the_one_that_waits",
        TURNS + "test_another_users_turn_is_not_stopped",
    ),
    2: row(
        "the completion of a stop had no identity, and was shown as an error",
        TURNS + "test_a_stop_is_acknowledged_and_nothing_more_is_told_of_the_turn",
        WINDIE + "test_stopping.py::test_the_ack_has_no_number",
        WINDIE + "judges/test_ts_client.py::test_the_two_judges_agree_on_what_is_good",
        RECORDED,
    ),
    3: row(
        "late chunks revived a turn that was stopped",
        TURNS + "test_a_stop_is_acknowledged_and_nothing_more_is_told_of_the_turn",
        TURNS + "test_a_query_and_its_stop_in_one_breath",
        WINDIE + "test_stopping.py::test_after_the_ack_nothing_of_the_turn_is_heard",
        INTERLEAVED,
    ),
    4: row(
        "a turn's id was an event's id as well, and overwrote what was stored",
        TURNS + "test_event_ids_are_of_their_own",
        PROJECTION + "test_numbers_are_dense_and_everything_can_be_said_whatever_the_log_is",
    ),
    5: row(
        "events did not say their conversation",
        TURNS + "test_event_ids_are_of_their_own",
        WINDIE + "test_messages.py::test_an_event_and_how_it_is_named",
        RECORDED,
    ),
    6: row(
        "stale events of a turn that was replaced took over the new one",
        TURNS + "test_two_quick_queries_of_one_conversation_come_one_after_the_other",
        INTERLEAVED,
    ),
    7: row(
        "events of a shortening were dropped, for their turn was another",
        PROJECTION + "test_a_shortening_has_its_own_name_and_numbers_inside_a_turn_too",
        WINDIE + "test_compacting.py::test_it_is_told_as_a_turn_of_its_own_and_the_query_behind_it_sees_the_summary",
    ),
    8: row(
        "a failed result without text for the model was refused, and the turn hung",
        TOOLS + "test_whatever_a_result_has_the_turn_goes_on_and_the_model_sees_its_output",
        WINDIE + "test_tool_results.py::test_a_failure_is_a_result",
        DECODING + "test_a_result_with_and_without_output",
    ),
    9: row(
        "readable output was sought in side fields",
        TOOLS + "test_whatever_a_result_has_the_turn_goes_on_and_the_model_sees_its_output",
        WINDIE + "test_tool_results.py::test_the_model_sees_the_output_and_nothing_beside_it",
    ),
    10: row(
        "ids of requests and calls were dropped on the way",
        TOOLS + "test_the_providers_id_of_a_call_is_told",
        TOOLS + "test_a_call_and_its_result",
        TOOLS + "test_two_calls_are_one_bundle",
        RECORDED,
    ),
    11: row(
        "the words for the status of steps and of bundles differed",
        TOOLS + "test_a_bundle_of_any_status_is_told_step_by_step",
        WINDIE + "test_tool_results.py::test_a_mixed_bundle",
    ),
    12: row(
        "strict models refused what real clients put in beside the contract",
        DECODING + "test_what_the_real_clients_say_is_right",
        DECODING + "test_any_json_as_a_payload_is_right_or_told_where_it_is_wrong",
        LINKS + "test_a_message_that_is_none_is_answered_and_the_link_goes_on",
    ),
    13: row(
        "a history that carried a query's fields was refused without a word, and the conversation was lost",
        REHYDRATING + "test_fields_of_a_query_are_told_by_name_and_change_nothing",
        SDK + "test_a_history_that_is_none_is_refused_and_changes_nothing",
    ),
    14: row(
        "rows of another kind among a history's messages failed",
        REHYDRATING + "test_one_bad_entry_rejects_all_and_changes_nothing",
        SDK + "test_a_history_that_is_none_is_refused_and_changes_nothing",
    ),
    15: row(
        "a web search vanished from a history that was brought back",
        SDK + "test_calls_of_a_history_stay_with_their_results",
        "agents/native/test_claimed_history.py::test_a_call_and_its_result_stay_linked",
        "agents/native/test_claimed_history.py::test_a_result_without_its_call_never_reaches_the_model",
        REHYDRATING + "test_a_query_right_behind_it_finds_what_it_brings_and_nothing_is_said_of_it",
    ),
    16: row(
        "an empty manifest beside a policy was ignored, and disabled tools stayed visible",
        TURNS + "test_an_empty_manifest_counts_only_beside_a_policy",
        TURNS + "test_disabled_tools_are_hidden_from_the_next_turn_on",
        DEFINITION + "test_the_manifest_of_a_query_s_turn",
    ),
    17: row(
        "only flat schemas were taken",
        TURNS + "test_schemas_are_taken_flat_and_nested",
        WINDIE + "test_client_manifest.py::test_an_entry_that_says_more",
        PROJECTION + "test_tools_are_told_nested_and_by_the_contracts_names",
    ),
    18: row(
        "ways to point that a client declared widened what it could do",
        DEFINITION + "test_declaring_how_to_point_never_widens",
        TURNS + "test_no_mode_lets_a_client_have_tools_of_this_host",
    ),
    19: row(
        "a stale token failed without saying so",
        WINDIE + "test_install_routes.py::test_a_token_that_is_missing_wrong_or_revoked",
        WINDIE + "test_http_auth.py::test_a_stale_token_can_be_told_and_replaced",
        SDK + "test_an_install_registers_and_is_known",
    ),
    20: row(
        "the token's file could be read by everybody",
        INSTALLS + "test_registering.py::test_files_are_for_their_owner_only",
        INSTALLS + "test_registering.py::test_only_a_hash_of_the_token_is_on_disk",
    ),
    21: row(
        "settings were told with the providers' keys",
        SDK + "test_a_key_that_was_set_is_never_told",
        WINDIE + "test_preferences.py::test_a_key_is_in_no_frame_no_log_and_no_file_but_the_key_stores",
        WINDIE + "test_secrets.py::test_a_key_is_told_to_nobody_and_written_nowhere_else",
    ),
    22: row(
        "models, previews and pictures could be had without identity, or of another user",
        WINDIE + "test_auth_matrix.py::test_who_may_use_a_route",
        WINDIE + "test_auth_matrix.py::test_nothing_is_said_of_another_user",
        WINDIE + "test_sdk_routes.py::test_another_users_state_is_nobodys_business",
    ),
    23: row(
        "a summarizer in the background sent old user ids for ever",
        not_here="no route summarizes; a user that a body names must be the one that asks (row 22)",
    ),
    24: row(
        "the first requests for runs made two services",
        RUNS + "test_service.py::test_fifty_creates_at_once_make_one_run",
    ),
    25: row(
        "one run was given to a worker twice",
        RUNS + "test_service.py::test_two_racing_heartbeats_assign_once",
        RUNS + "test_kills.py::test_kills_lose_no_run_and_execute_none_twice",
    ),
    26: row(
        "a number with a unit was read without it",
        RUNS + "test_settings.py::test_a_cap_that_is_no_whole_number_is_refused",
    ),
    27: row(
        "a link that was lost in a turn left its client waiting, and its session running",
        TOOLS + "test_with_the_last_link_its_turns_end",
        TOOLS + "test_a_tool_that_waits_for_the_last_link_is_let_go_with_it",
        TOOLS + "test_one_of_two_links_goes_and_the_turn_of_the_other_stays",
        TOOLS + "test_a_cut_right_behind_a_query_leaves_nothing_running",
        SDK + "test_reconnecting",
    ),
    28: row("audio that was made while the last was drained was lost", not_here=SPEECH),
    29: row("a transcription that could not begin left its provider's socket half open", not_here=SPEECH),
    30: row(
        "turns beside each other counted their tokens together",
        TURNS + "test_the_tokens_of_turns_beside_each_other_are_their_own",
        PROJECTION + "test_the_tokens_of_a_turn",
    ),
    31: row(
        "something a client waited for never came",
        TOOLS + "test_the_time_of_a_tool_is_bounded",
        LIVE + "test_decisions.py::test_a_decision_that_nobody_takes_becomes_a_denial",
        LINKS + "test_who_says_nothing_is_let_go",
        LINKS + "test_a_link_that_is_silent_for_too_long_is_let_go",
    ),
    32: row(
        "messages right behind the handshake came too early",
        LINKS + "test_frames_right_behind_the_handshake_are_worked_on_in_their_order",
    ),
    33: row(
        "an output of null was refused",
        TOOLS + "test_whatever_a_result_has_the_turn_goes_on_and_the_model_sees_its_output",
        WINDIE + "test_tool_results.py::test_the_output_is_any_json",
    ),
}


def test_every_row_is_there() -> None:
    assert list(ROWS) == list(range(1, 34))


@pytest.mark.parametrize("number", ROWS)
def test_a_row_has_tests_that_exist_or_a_reason(number: int) -> None:
    check_row(str(number), ROWS[number])
