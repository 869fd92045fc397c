"""What went wrong in ConnectOnion's own hosts, row by row, and the tests that keep it from going wrong here.

As ``tests/test_known_defects.py``, which holds this list to be complete and true as well.
"""

from __future__ import annotations

import pytest

from tests.test_known_defects import Row, check_row, row

ONION = "dialects/onion/"
TURNS = ONION + "test_turns.py::"
RIGHTS = ONION + "test_rights.py::"
GATE = ONION + "test_gate.py::"
STRANGERS = ONION + "test_strangers.py::"
FRAMES = ONION + "test_hostile_frames.py::"
DECODE = ONION + "test_decode.py::"
RESUME = ONION + "test_resume.py::"
MERGING = ONION + "test_merging.py::"
RESULTS = ONION + "test_results.py::"
FILE = ONION + "test_results_file.py::"
HTTP = ONION + "test_http_input.py::"
TRUST = "services/trust/"
UPLOADS = "services/uploads/test_receive.py::"

ROWS: dict[int, Row] = {
    1: row(
        "after an ERROR the session stayed running, and later prompts were acknowledged and lost",
        TURNS + "test_a_failed_turn_is_told_to_every_socket_and_the_next_prompt_runs",
    ),
    2: row(
        "a client that had come back heard nothing when the turn failed",
        TURNS + "test_a_failed_turn_is_told_to_every_socket_and_the_next_prompt_runs",
    ),
    3: row(
        "a prompt was acknowledged and never used",
        ONION + "test_interjections.py::test_what_is_acknowledged_is_used_once_at_whatever_point_it_comes",
        TURNS + "test_what_comes_while_the_agent_runs_is_acknowledged_and_taken_in",
    ),
    4: row("a stale client erased a turn", MERGING + "test_no_client_ever_erases_a_turn"),
    5: row(
        "mode and permissions were lost with each prompt, or taken from the client",
        TURNS + "test_a_session_keeps_its_mode_and_a_claim_of_one_grants_nothing",
        TURNS + "test_a_yes_for_the_session_is_one_to_the_tool",
    ),
    6: row(
        "another key read a session and attached to it",
        RIGHTS + "test_the_name_of_anothers_session_means_a_new_one",
        RIGHTS + "test_the_uuid_of_a_keys_session_is_no_credential",
    ),
    7: row(
        "a CONNECT that was overheard could be used for five minutes",
        TRUST + "test_replays.py::test_one_that_was_recorded",
        TRUST + "test_replays.py::test_strict_lets_none_pass",
    ),
    8: row(
        "a claim of having paid let strangers in, and a price that is text broke the gate",
        TRUST + "test_onboarding.py::test_a_claim_in_connect_is_no_payment",
        STRANGERS + "test_a_claim_of_having_paid_lets_nobody_in",
    ),
    9: row("a check of payment that failed let in", TRUST + "test_onboarding.py::test_a_verifier_that_fails_says_no"),
    10: row(
        "a blacklisted caller got in through the gate",
        STRANGERS + "test_a_blacklisted_caller_has_no_gate",
        GATE + "test_who_is_blocked_sees_no_gate",
    ),
    11: row("a wrong code lost the CONNECT that waited", GATE + "test_a_wrong_code_and_the_right_one_on_one_socket"),
    12: row(
        "client and server both went on after onboarding: the prompt ran twice",
        STRANGERS + "test_a_code_completes_the_connect_that_waits",
        GATE + "test_many_submits_at_once_connect_once",
    ),
    13: row("a refused code closed the socket", GATE + "test_a_wrong_code_and_the_right_one_on_one_socket"),
    14: row(
        "what was signed was not what ran",
        HTTP + "test_a_signature_that_is_given_must_be_right_and_over_the_prompt",
        ONION + "test_signed.py::test_what_is_signed_is_what_runs",
    ),
    15: row(
        "payloads with other letters, signed by JavaScript, were refused",
        TRUST + "test_verify.py::test_three_canonical_forms",
    ),
    16: row(
        "an unknown type was answered by silence",
        DECODE + "test_an_unknown_type_is_named",
        FRAMES + "test_whatever_is_sent_is_answered_but_for_pong",
    ),
    17: row(
        "a list, a number or null ended the socket",
        DECODE + "test_json_that_is_no_object_is_refused",
        DECODE + "test_any_object_is_a_message_or_a_protocol_problem",
        TRUST + "test_verify.py::test_whatever_comes_is_refused_or_nobody",
        FRAMES + "test_what_is_no_message_has_an_error_of_its_own",
        FRAMES + "test_whatever_is_signed_is_no_failure",
    ),
    18: row(
        "a wildcard matched in the middle of a name",
        TRUST + "test_lists.py::test_patterns_are_those_of_a_shell",
        TRUST + "test_lists.py::test_lines",
    ),
    19: row(
        "a list that could not be read was an empty one",
        TRUST + "test_lists.py::test_what_cannot_be_read_is_no_empty_list",
        TRUST + "test_lists.py::test_trust_fails_closed",
        GATE + "test_a_list_that_cannot_be_read_refuses_and_leaves_the_socket",
    ),
    20: row(
        "the gate offered ways that could not succeed",
        TRUST + "test_admission.py::test_only_doors_that_can_open_are_shown",
        TRUST + "test_onboarding.py::test_without_a_price_nothing_can_be_paid",
    ),
    21: row(
        "idle sockets used up the threads, and new clients waited",
        ONION + "test_clocks.py::test_a_new_one_is_served_beside_a_hundred_that_are_idle",
    ),
    22: row(
        "an approval that was waited for was lost with the socket",
        ONION + "test_open_questions.py::test_what_is_asked_is_asked_again_on_a_new_socket",
    ),
    23: row(
        "a busy stream delayed PING until the link was taken for dead",
        ONION + "test_clocks.py::test_pings_keep_coming_while_events_flood",
    ),
    24: row(
        "one path had no PING", ONION + "test_clocks.py::test_pings_come_from_the_open_socket_on_also_to_a_stranger"
    ),
    25: row(
        "turns of a server that was lost ran for days in lists",
        RESULTS + "test_after_a_lost_server_what_ran_is_interrupted",
        ONION + "test_http_restart.py::test_after_a_kill_no_result_says_that_it_runs",
    ),
    26: row(
        "a torn line kept the server from starting",
        FILE + "test_a_line_that_a_crash_cut_off_anywhere_loses_only_itself",
        ONION + "test_http_restart.py::test_a_file_that_a_crash_tore_does_not_stop_the_start",
    ),
    27: row("each look-up read the whole file", FILE + "test_a_look_up_reads_one_line_of_twenty_megabytes"),
    28: row(
        "a record on the way lost its prompt and its beginning",
        RESULTS + "test_while_it_runs_it_is_running_and_while_it_asks_it_waits",
        RESULTS + "test_a_long_turn_keeps_its_prompt",
    ),
    29: row("pictures had no limit", UPLOADS + "test_pictures_have_the_same_limit"),
    30: row(
        "what the model is told about files stood in the person's words",
        TURNS + "test_files_and_pictures_come_along_and_bad_ones_harm_nothing",
        ONION + "test_conversation.py::test_user_text_is_what_was_typed",
    ),
    31: row(
        "clients read fields that the server did not send",
        ONION + "test_projection.py::test_a_question",
        ONION + "test_projection.py::test_a_tool",
        ONION + "recorded/test_recorded.py::test_our_server_says_what_was_recorded",
    ),
    32: row(
        "messages changed places when a client came back",
        ONION + "test_chat_items.py::test_items_are_shown_in_the_order_in_which_they_happened",
        ONION + "test_chat_items.py::test_items_keep_their_ids_and_places",
    ),
    33: row(
        "a replay doubled what was there",
        RESUME + "test_drops_at_random_points_with_two_sockets_each_are_all_classified",
    ),
    34: row(
        "a second CONNECT doubled every event", RESUME + "test_a_second_connect_on_a_socket_replaces_its_forwarder"
    ),
    35: row(
        "any message was taken for the answer",
        ONION + "test_open_questions.py::test_only_a_response_of_its_kind_answers",
    ),
    36: row("another key completed a CONNECT", GATE + "test_another_key_lets_nobody_in"),
    37: row(
        "an object of the host stood among a tool's arguments",
        not_here="arguments are what the model said, as the log has them; nothing is put among them",
    ),
    38: row(
        "a pattern for git permitted other programs, and chains hid commands",
        "agents/native/test_permissions.py::test_each_command_of_the_table_gets_its_verdict",
        "agents/native/test_permissions.py::test_nothing_with_an_operator_is_approved",
    ),
    39: row(
        "a bad file left the session running, and sizes were those of base64",
        TURNS + "test_files_and_pictures_come_along_and_bad_ones_harm_nothing",
        UPLOADS + "test_the_size_is_that_of_the_bytes",
    ),
    40: row(
        "two honest CONNECTs within a second were one too many",
        TRUST + "test_replays.py::test_two_honest_reconnects_within_a_second",
    ),
}


def test_every_row_is_there() -> None:
    assert list(ROWS) == list(range(1, 41))


@pytest.mark.parametrize("number", ROWS)
def test_a_row_has_tests_that_exist_or_a_reason(number: int) -> None:
    check_row(str(number), ROWS[number])
