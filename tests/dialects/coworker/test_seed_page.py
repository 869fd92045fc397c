"""The seed's page and our messages say the same: every example, type, table and list, in both directions."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from dragoman.dialects.coworker import messages
from dragoman.hub.events import Json
from dragoman.services.observability.queries import QueryRequest, QueryType
from dragoman.services.observability.slo import Operator, SloCheck

from . import page

TO_SERVER = page.listed("""
    client_hello user_message ask_response approval_response set_model refresh_provider_status provider_catalog_get
    provider_auth_methods_get provider_auth_authorize provider_auth_callback provider_auth_set_api_key list_tools
    list_commands execute_command list_skills read_skill disable_skill enable_skill delete_skill set_enable_mcp
    harness_context_get harness_context_set observability_query harness_slo_evaluate reset cancel ping
    session_backup_get session_backup_checkpoint session_backup_restore session_backup_delete_checkpoint
""")

TO_CLIENT = page.listed("""
    server_hello session_settings provider_catalog provider_auth_methods provider_auth_challenge provider_auth_result
    provider_status session_busy user_message model_stream_chunk assistant_message reasoning log todos ask approval
    config_updated tools commands skills_list skill_content session_backup_state observability_status harness_context
    observability_query_result harness_slo_result reset_done error pong
""")

BEYOND = {"prompt_void", "features"}
"""What we say beyond the page, to a link that asks for it."""

STRUCTS: dict[str, type[messages.ServerMessage]] = {
    str(kind.__struct_config__.tag): kind for kind in messages.ServerMessage.__subclasses__()
}


def fields(kind: type[msgspec.Struct]) -> tuple[set[str], set[str]]:
    """The fields of a type of ours that must be there, and those that may."""
    may = {field.encode_name for field in msgspec.structs.fields(kind) if field.default is msgspec.UNSET}
    return {field.encode_name for field in msgspec.structs.fields(kind)} - may, may


def test_the_page_has_the_messages_that_are_tested() -> None:
    assert list(page.headings(page.TO_SERVER)) == TO_SERVER
    assert list(page.headings(page.TO_CLIENT)) == TO_CLIENT


def test_there_is_one_type_of_ours_for_each_event_of_the_page() -> None:
    assert set(STRUCTS) - BEYOND == set(TO_CLIENT)


@pytest.mark.parametrize("kind", TO_CLIENT)
def test_every_example_of_an_event_is_one_of_ours(kind: str) -> None:
    """As our type it has every value that it has on the page, and no other."""
    found = [example for heading, example in page.examples(page.TO_CLIENT) if heading == kind]
    assert found
    for example in found:
        typed = msgspec.convert(example, STRUCTS[kind], strict=True)
        assert msgspec.json.decode(messages.encode(typed)) == example
        assert list(example)[:2] == ["type", "sessionId"]


@pytest.mark.parametrize("kind", TO_CLIENT)
def test_an_event_of_ours_has_its_fields_in_the_order_of_the_page(kind: str) -> None:
    for heading, example in page.examples(page.TO_CLIENT):
        if heading == kind:
            typed = msgspec.convert(example, STRUCTS[kind], strict=True)
            assert list(msgspec.json.decode(messages.encode(typed))) == list(example)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("ConfigSubset", messages.Config),
        ("TodoItem", messages.TodoItem),
        ("SessionBackupCheckpoint", messages.Checkpoint),
        ("SessionBackupState", messages.Backup),
        ("CommandInfo", messages.CommandInfo),
    ],
)
def test_a_type_of_the_page_has_the_fields_of_ours(name: str, ours: type[msgspec.Struct]) -> None:
    assert page.interface(name) == fields(ours)


@pytest.mark.parametrize(("name", "ours"), [("ObservabilityQueryRequest", QueryRequest), ("HarnessSloCheck", SloCheck)])
def test_a_type_that_clients_send_has_the_fields_of_ours(name: str, ours: type[msgspec.Struct]) -> None:
    must, may = page.interface(name)
    required = {field.encode_name for field in msgspec.structs.fields(ours) if field.required}
    assert (must, may) == (required, {field.encode_name for field in msgspec.structs.fields(ours)} - required)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("ProviderName", messages.PROVIDERS),
        ("ObservabilityQueryType", get_args(QueryType)),
        ("HarnessSloOperator", get_args(Operator)),
    ],
)
def test_words_of_the_page_are_ours(name: str, ours: tuple[str, ...]) -> None:
    assert page.words(name) == ours


def test_codes_sources_and_reasons_are_those_of_the_page() -> None:
    ours: dict[str, Any] = {
        "code": messages.ErrorCode,
        "source": messages.ErrorSource,
        "reasonCode": messages.ReasonCode,
    }
    assert page.lists(page.TO_CLIENT) == {name: get_args(kind) for name, kind in ours.items()}


def test_reasons_of_a_backup_are_those_of_the_page() -> None:
    (said,) = [line for line in page.section(page.TO_CLIENT).splitlines() if '"reason":' in line]
    assert [word.strip() for word in said.partition("//")[2].split("|")] == list(get_args(messages.BackupReason))


def test_no_event_of_ours_takes_what_the_page_does_not_have() -> None:
    """A wrong code is none: the lists are part of the types."""
    for field, wrong in (("code", "broken"), ("source", "elsewhere")):
        error = {"type": "error", "sessionId": "s", "message": "m", "code": "busy", "source": "session", field: wrong}
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(error, messages.Error)


def part_problem(kind: str, part: Json) -> str | None:
    """What is wrong with a chunk's part, by the page's table."""
    must, may = page.part_types()[kind]
    assert isinstance(part, dict)
    missing, strange = must - set(part), set(part) - must - may
    return f"{kind}: {missing} missing, {strange} strange" if missing or strange else None


def test_the_table_of_parts_is_read_as_it_stands() -> None:
    assert len(page.part_types()) == 24
    assert page.part_types()["tool_call"] == (
        {"toolCallId", "toolName", "input"},
        {"dynamic", "invalid", "error", "providerMetadata"},
    )
    assert part_problem("text_delta", {"id": "x", "text": "y"}) is None
    assert part_problem("text_delta", {"id": "x", "delta": "y"}) is not None
