"""Where lists and keys lie, by the settings."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dragoman.services.trust import TrustSettings

CONFIG = Path("/home/ann/.config/dragoman")


def test_usual_places() -> None:
    settings = TrustSettings()
    assert settings.lists_folder(CONFIG) == CONFIG / "trust"
    assert settings.host_key(CONFIG) == CONFIG / "identity" / "host.key"
    assert settings.places(CONFIG) == (CONFIG / "trust", CONFIG / "identity" / "host.key")


def test_other_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/bob")
    monkeypatch.chdir(tmp_path)
    settings = TrustSettings(folder="~/lists", key_file="keys/mine", policy="~/policy.md")
    places = (Path("/home/bob/lists"), tmp_path / "keys" / "mine", Path("/home/bob/policy.md"))
    assert settings.places(CONFIG) == places


@pytest.mark.parametrize(
    "policy", ["", "open", " Strict ", "---\ndefault: ask\n---"], ids=["none", "open", "strict", "text"]
)
def test_a_policy_that_is_no_file_has_no_place(policy: str) -> None:
    assert len(TrustSettings(policy=policy).places(CONFIG)) == 2


@pytest.mark.parametrize(
    "given", [{"replay": "never"}, {"approvers": ["everybody"]}, {"whitelist": "0x"}, {"typo": 1}], ids=str
)
def test_what_is_no_setting_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, TrustSettings)
