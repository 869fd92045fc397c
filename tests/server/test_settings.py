"""One tree from file, environment and flags; its page; its secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.settings_reference import page, sections, sentences

from dragoman.server.settings import Settings, SettingsError, load, printable, secrets_of

ROOT = Path(__file__).parents[2]


def written(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text)
    return file


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = written(tmp_path, "[server]\nport = 1\nhost = 'localhost'\n[hub]\nqueue_prompts = 7\n")
    settings = load(file, {"DRAGOMAN_PORT": "2", "DRAGOMAN_LOG_JSON": "true"}, {"server": {"port": 3, "host": None}})
    assert (settings.server.port, settings.server.host) == (3, "localhost")
    assert settings.hub.queue_prompts == 7
    assert settings.log.json
    assert load(file, {"DRAGOMAN_PORT": "2"}, {}).server.port == 2
    assert load(None, {}, {}).server.port == 7337


def test_every_setting_can_come_from_the_environment() -> None:
    settings = load(
        None,
        {
            "DRAGOMAN_DIALECTS__COOP__OPEN_READS": "false",
            "DRAGOMAN_TERMINAL__SCHEDULE__KILL": "1.5",
            "DRAGOMAN_SERVER__ALLOW_HOST": "a.example,b.example",
            "HOME": "/nowhere",
        },
        {},
    )
    assert settings.dialects.coop.open_reads is False
    assert settings.terminal.schedule.kill == 1.5
    assert settings.server.allow_host == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"DRAGOMAN_SERVER__PROT": "1"}, "prot"),
        ({"DRAGOMAN_PROT": "1"}, "DRAGOMAN_PROT"),
        ({"DRAGOMAN_PORT": "http"}, "server.port"),
        ({"DRAGOMAN_PORT": "70000"}, "server.port"),
        ({"DRAGOMAN_LOG_LEVEL": "loud"}, "log.level"),
        ({"DRAGOMAN_TOKEN": " "}, "server.token"),
        ({"DRAGOMAN_SERVER__ALLOW_ORIGIN": "null"}, "server.allow_origin: 'null'"),
        ({"DRAGOMAN_SERVER__ALLOW_ORIGIN": "file://,*"}, "server.allow_origin: '\\*'"),
        ({"DRAGOMAN_SERVER__ALLOW_ORIGIN": "ui.example"}, "SCHEME://HOST"),
        ({"DRAGOMAN_SERVER__ALLOW_ORIGIN": "https://ui.example/path"}, "server.allow_origin"),
        ({"DRAGOMAN_OBSERVABILITY__DEFAULT_WINDOW": "0"}, "observability.default_window"),
        ({"DRAGOMAN_OBSERVABILITY__EXPORT__BATCH": "0"}, "observability.export.batch"),
        ({"DRAGOMAN_OBSERVABILITY__METRICS_READERS": "all"}, "observability.metrics_readers"),
        ({"DRAGOMAN_HOST": "0.0.0.0"}, "0.0.0.0"),
        ({"DRAGOMAN_HOST": "::"}, "::"),
        ({"DRAGOMAN_HOST": "192.0.2.1"}, "192.0.2.1"),
    ],
)
def test_what_cannot_be_is_refused_by_name(environment: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named.replace(".", r"\.")):
        load(None, environment, {})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml"):
        load(tmp_path / "none.toml", {}, {})
    with pytest.raises(SettingsError, match="not TOML"):
        load(written(tmp_path, "port = "), {}, {})


def test_with_a_token_other_addresses_may_be_bound() -> None:
    assert load(None, {"DRAGOMAN_HOST": "0.0.0.0", "DRAGOMAN_TOKEN": "s3cret"}, {}).server.host == "0.0.0.0"


def test_the_token_is_not_printed() -> None:
    settings = load(None, {"DRAGOMAN_TOKEN": "s3cret"}, {})
    assert "s3cret" not in json.dumps(printable(settings))


def test_the_settings_page_is_the_codes() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == page()


def test_every_setting_has_a_sentence() -> None:
    for path, struct in sections(Settings):
        missing = {field for field in struct.__struct_fields__ if field not in sentences(struct)}
        nested = {name for name, _ in sections(struct)}
        assert not missing - nested - {"level", "json", "terminate", "kill", "give_up", "detached"}, path


def test_what_goes_with_spans_is_not_printed() -> None:
    settings = load(
        None,
        {
            "DRAGOMAN_OBSERVABILITY__HEADERS__AUTHORIZATION": "Bearer s3cret",
            "DRAGOMAN_OBSERVABILITY__METRICS_URL": "http://me:s3cret@host:1/path?key=s3cret",
        },
        {},
    )
    assert settings.observability.headers == {"authorization": "Bearer s3cret"}
    shown = printable(settings)
    assert "s3cret" not in json.dumps(shown)
    assert shown["observability"]["headers"] == {"authorization": "***"}
    assert shown["observability"]["metrics_url"] == "http://host:1/path"
    assert secrets_of(settings) == ["Bearer s3cret"]


def test_where_stores_are_as_folders_are_told_that_say_nothing() -> None:
    """The original's own defaults."""
    told = load(None, {}, {}).observability.observability()
    assert (told.enabled, told.otlp_endpoint, told.default_window) == (False, "http://127.0.0.1:4318", 300)
    stores = (told.queries.logs, told.queries.metrics, told.queries.traces)
    assert stores == tuple(f"http://127.0.0.1:{port}" for port in (9428, 8428, 10428))
