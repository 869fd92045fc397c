"""docs/mapping.md against the code's facts and the seeds' message names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec
import pytest

from dragoman.hub import events

PAGE = Path(__file__).parent.parent / "docs" / "mapping.md"

FACTS: dict[str, type[msgspec.Struct]] = {str(kind.__struct_config__.tag): kind for kind in get_args(events.AnyFact)}


def words(text: str) -> frozenset[str]:
    """The words of a list that is written as text."""
    return frozenset(text.split())


AWAITED = words("")
"""Facts and fields that the page needs and the code does not have yet. Whoever adds one takes it off here."""

OTHER_LOGS = words("run.recorded")
"""Facts of logs that are no session's."""

COMMANDS = words("""
    terminal.write terminal.press terminal.signal terminal.resize tape.read screen.snapshot
    hooks.ingest hooks.start hooks.stop hooks.signal
""")
"""Commands and port methods that are written with a dot, as facts are."""

TO_SERVER = "Client to server"
TO_CLIENT = "Server to client"
HTTP = "HTTP routes"

SEEDS: dict[tuple[str, str], str] = {
    ("coworker", TO_SERVER): """
        client_hello user_message ask_response approval_response set_model refresh_provider_status
        provider_catalog_get provider_auth_methods_get provider_auth_authorize provider_auth_callback
        provider_auth_set_api_key list_tools list_commands execute_command list_skills read_skill disable_skill
        enable_skill delete_skill set_enable_mcp harness_context_get harness_context_set observability_query
        harness_slo_evaluate reset cancel ping session_backup_get session_backup_checkpoint session_backup_restore
        session_backup_delete_checkpoint
        """,
    ("coworker", TO_CLIENT): """
        server_hello session_settings provider_catalog provider_auth_methods provider_auth_challenge
        provider_auth_result provider_status session_busy user_message model_stream_chunk assistant_message reasoning
        log todos ask approval config_updated tools commands skills_list skill_content session_backup_state
        observability_status harness_context observability_query_result harness_slo_result reset_done error pong
        """,
    ("onion", TO_SERVER): """
        CONNECT INPUT PONG ASK_USER_RESPONSE APPROVAL_RESPONSE ONBOARD_SUBMIT
        """,
    ("onion", TO_CLIENT): """
        CONNECTED OUTPUT PING thinking tool_call tool_result ask_user approval_needed plan_review compact
        RUNTIME_INPUT_ACK ERROR ONBOARD_REQUIRED ONBOARD_SUCCESS
        """,
    ("cin", TO_SERVER): "ping get_history subscribe",
    ("cin", TO_CLIENT): """
        init event session:created session:updated session:deleted session:status history pong
        cin:text_tiles cin:git_status cin:permission_prompt
        harness:test_started harness:test_completed harness:benchmark_result connected sessions
        """,
    ("windie", TO_SERVER): """
        handshake query rehydrate-conversation load-settings update-settings list-models tool-result
        tool-bundle-result wakeword-detected
        """,
    ("windie", TO_CLIENT): """
        streaming-response audio-chunk tool-call tool-output llm-thought error streaming-complete settings-loaded
        settings-updated models-listed tool-bundle wakeword-activated wakeword-greeting system-prompt
        user-message-full assistant-message-full tool-schemas token-count client-tool-manifest remote-tool-catalog
        """,
    ("windie", "Transcription socket: client to server"): "set_langs start_over binary",
    ("windie", "Transcription socket: server to client"): "status realtime utterance_end error",
    ("coop", TO_SERVER): """
        ping auth screen:get state:get get:status replay input input:raw keys resize nudge respond signal shutdown
        """,
    ("coop", TO_CLIENT): """
        output screen transition exit nudge:result respond:result status stop start error resize pong replay_result
        """,
}
"""Every message name of the five seeds by dialect and table; ``binary`` stands for windie's nameless audio frames."""

PARTS: dict[tuple[str, str], str] = {
    ("coworker", "model_stream_chunk"): """
        start finish abort error start_step finish_step text_start text_delta text_end reasoning_start reasoning_delta
        reasoning_end tool_input_start tool_input_delta tool_input_end tool_call tool_result tool_error
        tool_output_denied tool_approval_request source file raw unknown
        """,
    ("cin", "event"): """
        pre_tool_use post_tool_use stop subagent_stop session_start session_end user_prompt_submit notification
        """,
}
"""The kinds of those two messages that are many in one."""

ROUTES: dict[str, str] = {
    "windie": """
        POST /api/install/register
        POST /api/embeddings/
        GET /api/embeddings/health
        GET /health
        POST /embed
        POST /api/semantic/summarize
        POST /api/semantic/title
        GET /api/semantic/health
        POST /api/artifacts/
        GET /api/artifacts/{artifact_id}
        POST /api/sdk/ocr/run
        POST /api/sdk/ocr/inspect
        POST /api/sdk/ocr/find-text
        POST /api/sdk/ocr/find-text-candidates
        POST /api/sdk/ocr/resolve-text
        POST /api/sdk/ocr/resolve-candidate
        POST /api/sdk/ocr/overlay
        POST /api/sdk/vision/locate
        POST /api/sdk/vision/locate-all
        POST /api/sdk/vision/describe
        POST /api/sdk/vision/overlay
        GET /api/sdk/models
        GET /api/sdk/tool-schemas
        GET /api/sdk/tool-capabilities/{tool_name}
        GET /api/sdk/system-prompt
        POST /api/sdk/prompt-preview
        POST /api/sdk/query-plan
        POST /api/runs/
        GET /api/runs/{run_id}
        GET /api/runs/{run_id}/events
        POST /api/runs/workers/heartbeat
        POST /api/runs/{run_id}/control
        POST /api/runs/stop-all
        POST /api/runs/{run_id}/worker-dispatched
        POST /api/runs/{run_id}/events
        """,
    "coop": """
        GET /api/v1/health
        GET /api/v1/ready
        GET /api/v1/screen
        GET /api/v1/screen/text
        GET /api/v1/output
        GET /api/v1/status
        POST /api/v1/input
        POST /api/v1/input/raw
        POST /api/v1/input/keys
        POST /api/v1/resize
        POST /api/v1/signal
        GET /api/v1/agent
        POST /api/v1/agent/nudge
        POST /api/v1/agent/respond
        POST /api/v1/hooks/stop
        POST /api/v1/hooks/stop/resolve
        POST /api/v1/hooks/start
        GET /api/v1/config/stop
        PUT /api/v1/config/stop
        GET /api/v1/config/start
        PUT /api/v1/config/start
        POST /api/v1/shutdown
        """,
    "cin": """
        POST /event
        GET /sessions
        POST /sessions
        PATCH /sessions/{id}
        DELETE /sessions/{id}
        POST /sessions/{id}/prompt
        POST /sessions/{id}/cancel
        POST /sessions/{id}/restart
        POST /sessions/{id}/permission
        """,
}
"""The HTTP routes of windie's and coop's seeds, and those that cin's clients cannot do without."""

DIALECTS = ("coworker", "onion", "cin", "windie", "coop")


class Row(NamedTuple):
    """One line of a table, with the headings it stands under."""

    dialect: str
    table: str
    cells: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The wire names in its first cell; a message and its kind make one name of two words."""
        return [" ".join(re.findall(r"`([^`]+)`", part)) for part in self.cells[0].split(",")]


def rows(page: str) -> Iterator[Row]:
    """Every table line of the page but the heads."""
    dialect = table = ""
    for line in page.splitlines():
        if line.startswith("## "):
            dialect, table = line[3:], ""
        elif line.startswith("### "):
            table = line[4:]
        elif line.startswith("| ") and not line.startswith(("| wire message ", "| fact ")):
            yield Row(dialect, table, tuple(cell.strip() for cell in line.strip("|").split("|")))


def dotted(text: str) -> list[str]:
    """What is written in backticks as a fact or a field of one is: words joined by dots, or a tag without a dot."""
    spans = re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)`", text)
    return [span for span in spans if "." in span or span in FACTS]


def known() -> set[str]:
    """Every tag, and every field as ``tag.field``; ``origin`` is a field of all facts."""
    names = set(FACTS)
    for tag, kind in FACTS.items():
        names |= {f"{tag}.{field}" for field in kind.__struct_fields__}
    if "origin" in events.Fact.__struct_fields__:
        names |= {f"origin.{field}" for field in getattr(events, "Origin").__struct_fields__}  # noqa: B009
    return names


def touched(page: str, tag: str) -> str:
    """The dialects whose tables name the fact, in the order of the page."""
    names = [
        dialect
        for dialect in DIALECTS
        if any(
            span == tag or span.startswith(f"{tag}.")
            for row in rows(page)
            if row.dialect == dialect
            for cell in row.cells[1:]
            for span in dotted(cell)
        )
    ]
    return ", ".join(names) or "none"


def facts_table(page: str) -> list[str]:
    """The lines that the table of facts must consist of."""
    lines = []
    for tag, kind in FACTS.items():
        says = (inspect.getdoc(kind) or "").splitlines()[0].replace("``", "`")
        lines.append(f"| `{tag}` | {says} | {touched(page, tag)} |")
    return lines


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_table_of_facts_says_what_the_code_says(page: str) -> None:
    listed = {row.names[0]: row for row in rows(page) if row.dialect == "The facts"}
    assert set(listed) - set(FACTS) - AWAITED == set(), "no such fact"
    lines = [f"| {' | '.join(row.cells)} |" for tag, row in listed.items() if tag in FACTS]
    expected = facts_table(page)
    assert lines == expected, "the table of facts must read:\n" + "\n".join(expected)


def test_what_is_written_as_a_fact_is_one(page: str) -> None:
    assert set(dotted(page)) - known() - AWAITED - OTHER_LOGS - COMMANDS == set()


def test_what_is_awaited_is_still_missing(page: str) -> None:
    assert AWAITED & known() == set(), "the code has these now: take them off AWAITED"
    assert AWAITED - set(dotted(page)) == set(), "the page does not need these any more"


def named(page: str, dialect: str, table: str) -> set[str]:
    """The wire names that have a row in that table."""
    return {name for row in rows(page) if (row.dialect, row.table) == (dialect, table) for name in row.names}


@pytest.mark.parametrize(("dialect", "table"), SEEDS)
def test_every_message_of_the_seed_has_a_row(page: str, dialect: str, table: str) -> None:
    assert words(SEEDS[dialect, table]) - named(page, dialect, table) == set()


@pytest.mark.parametrize(("dialect", "message"), PARTS)
def test_every_kind_of_a_message_has_a_row(page: str, dialect: str, message: str) -> None:
    kinds = {f"{message} {kind}" for kind in words(PARTS[dialect, message])}
    assert kinds - named(page, dialect, TO_CLIENT) == set()


@pytest.mark.parametrize("dialect", ROUTES)
def test_every_route_has_a_row(page: str, dialect: str) -> None:
    wanted = {line.strip() for line in ROUTES[dialect].strip().splitlines()}
    assert wanted - named(page, dialect, HTTP) == set()


def test_every_message_row_says_where_it_comes_from_and_how_well(page: str) -> None:
    for row in rows(page):
        if row.dialect in DIALECTS:
            assert len(row.cells) == 4, row
            assert row.cells[1], row
            assert row.cells[2] in {"exact", "lossy", "absent"}, row


def test_no_message_has_two_rows(page: str) -> None:
    heads = [(row.dialect, row.table, row.cells[0]) for row in rows(page) if row.dialect in DIALECTS]
    assert {head for head in heads if heads.count(head) > 1} == set()
