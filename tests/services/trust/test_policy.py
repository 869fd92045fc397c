"""What a policy's text means, and that one which cannot be used stops the server before it starts."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from dragoman.services.trust import PolicyProblem
from dragoman.services.trust.policy import LEVELS, Policy, policy_of
from tests.services.trust.kit import HOST, Door

MOST = 10_000
ENVIRONMENT = {"CODE": "C1", "BLANK": "  ", "PRICE": "2.50", "DEAR": "inf"}


def policy(said: str) -> Policy:
    return policy_of(said, ENVIRONMENT, loopback=True, most=MOST)


def custom(**fields: object) -> Policy:
    return Policy(name="custom", **fields)  # type: ignore[arg-type]


BOTH = frozenset({"whitelisted", "contact"})
CONTACT = frozenset({"contact"})

TEXTS = {
    "nothing": ("---\n---", custom()),
    "only comments": ("---\n# nothing\n---", custom()),
    "everything": (
        "---\nallow: [whitelisted, contact]\nonboard: {invite_code: [A, B], payment: 10}\ndefault: ask\n---\nA\n---\n",
        custom(allow=BOTH, codes=("A", "B"), payment=10, default="ask"),
    ),
    "one word in place of a list": ("---\nallow: contact\n---", custom(allow=CONTACT)),
    "administrators": ("---\nallow: [admin]\n---", custom(allow=frozenset({"admin"}))),
    "nobody is denied": ("---\ndeny: []\n---", custom(deny=frozenset())),
    "nobody at all": ("---\ndeny:\n---", custom(deny=frozenset())),
    "in another case": ("---\ndefault: ALLOW\n---", custom(default="allow")),
    "one code": ("---\nonboard: {invite_code: abc}\n---", custom(allow=CONTACT, codes=("abc",))),
    "a code of digits": ("---\nonboard: {invite_code: [1234]}\n---", custom(allow=CONTACT, codes=("1234",))),
    "a code twice": ("---\nonboard: {invite_code: [a, a]}\n---", custom(allow=CONTACT, codes=("a",))),
    "codes of the environment": (
        "---\nonboard: {invite_code: [$CODE, $NO, $BLANK, x]}\n---",
        custom(allow=CONTACT, codes=("C1", "x")),
    ),
    "an empty code": ("---\nonboard: {invite_code: ['', ' ']}\n---", custom()),
    "a price of the environment": ("---\nonboard: {payment: $PRICE}\n---", custom(allow=CONTACT, payment=2.5)),
    "a price that is none": ("---\nonboard: {payment: $DEAR}\n---", custom()),
    "no onboarding": ("---\nonboard:\n---", custom()),
    "carriage returns": ("---\r\ndefault: ask\r\n---\r\n", custom(default="ask")),
    "spaces behind the fences": ("---  \ndefault: ask\n--- \n", custom(default="ask")),
}


@pytest.mark.parametrize(("text", "meant"), TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("how", ["inline", "file", "file with a mark"])
def test_texts(tmp_path: Path, how: str, text: str, meant: Policy) -> None:
    file = tmp_path / "policy.md"
    file.write_bytes((b"\xef\xbb\xbf" if how == "file with a mark" else b"") + text.encode())
    assert policy(text if how == "inline" else str(file)) == meant


BAD = {
    "no YAML": ("---\nallow: [a\n---", "no YAML at line 2"),
    "another kind of no YAML": ("---\na: \x01\n---", "no YAML"),
    "no mapping": ("---\n- allow\n---", "its rules are no mapping"),
    "a word": ("---\nallow\n---", "its rules are no mapping"),
    "never closed": ("---\ndefault: allow\n", "no second line --- ends its rules"),
    "more dashes": ("----\ndefault: allow\n----", "it does not begin with a line ---"),
    "an unknown default": ("---\ndefault: maybe\n---", "default is none of allow, deny, ask"),
    "a default that is true": ("---\ndefault: yes\n---", "default is none of allow, deny, ask"),
    "a default of nothing": ("---\ndefault:\n---", "default is none of allow, deny, ask"),
    "allow as a number": ("---\nallow: 1\n---", "allow is no list of words"),
    "allow with a number": ("---\nallow: [1]\n---", "allow is no list of words"),
    "deny as a mapping": ("---\ndeny: {a: b}\n---", "deny is no list of words"),
    "denying who is unknown": ("---\ndeny: [blocked, strangers]\n---", "deny: 'strangers' is unknown"),
    "onboard as a list": ("---\nonboard: [A]\n---", "onboard is no mapping"),
    "codes as a mapping": ("---\nonboard: {invite_code: {a: b}}\n---", "onboard.invite_code is no list of codes"),
    "codes with a list": ("---\nonboard: {invite_code: [[a]]}\n---", "onboard.invite_code is no list of codes"),
    "codes with a truth": ("---\nonboard: {invite_code: [yes]}\n---", "onboard.invite_code is no list of codes"),
    "a price in words": ("---\nonboard: {payment: ten}\n---", "onboard.payment is no number above 0"),
    "a price of less than nothing": ("---\nonboard: {payment: -1}\n---", "onboard.payment is no number above 0"),
    "a price that is true": ("---\nonboard: {payment: yes}\n---", "onboard.payment is no number above 0"),
    "a price without end": ("---\nonboard: {payment: .inf}\n---", "onboard.payment is no number above 0"),
    "a program": ("---\na: !!python/object/apply:os.getpid []\n---", "no YAML"),
}


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("how", ["inline", "file"])
def test_what_cannot_be_used_is_named(tmp_path: Path, how: str, text: str, problem: str) -> None:
    file = tmp_path / "policy.md"
    file.write_text(text)
    with pytest.raises(PolicyProblem) as refused:
        policy(text if how == "inline" else str(file))
    said = str(refused.value)
    assert said.startswith("trust.policy: ")
    assert problem in said
    assert (str(file) in said) is (how == "file")


def test_no_code_is_quoted() -> None:
    for said in ("{invite_code: [S3CRET", "{payment: S3CRET}", "{invite_code: *S3CRET}", "{invite_code: !S3CRET a}"):
        text = f"---\nonboard: {said}\n---"
        with pytest.raises(PolicyProblem) as refused:
            policy(text)
        assert "S3CRET" not in str(refused.value)
    assert "S3CRET" not in repr(policy("---\nonboard: {invite_code: S3CRET}\n---"))


def test_what_is_unknown_is_told_and_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dragoman.trust"):
        read = policy("---\nallow: [friends, contact]\ndefualt: allow\nonboard: {code: x}\n---")
    assert read == custom(allow=CONTACT)
    for word in ("'friends'", "defualt", "onboard.code"):
        assert word in caplog.text


@pytest.mark.parametrize("said", ["open", "careful", "strict", "OPEN", " Careful "], ids=str)
def test_levels(said: str) -> None:
    assert policy(said) == LEVELS[said.strip().lower()]


NO_POLICY = {
    "no level and no file": ("opne", "'opne' is no level (open, careful, strict) and no file"),
    "a text without its fence": ("default: allow", "the text of a policy begins with ---"),
    "a folder": ("/", "it is no regular file"),
    "what has no end": ("/dev/zero", "it is no regular file"),
}


@pytest.mark.parametrize(("said", "problem"), NO_POLICY.values(), ids=NO_POLICY.keys())
def test_an_unknown_policy_stops_the_server(tmp_path: Path, said: str, problem: str) -> None:
    with pytest.raises(PolicyProblem) as refused:
        Door(tmp_path, said)
    assert problem in str(refused.value)


@pytest.mark.parametrize("data", [b"---\n\xff\n---", b"-" * (MOST + 1)], ids=["not UTF-8", "too large"])
def test_files_that_are_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "policy").write_bytes(data)
    with pytest.raises(PolicyProblem, match=r"it is (not UTF-8 text|larger than 10000 bytes)"):
        policy(str(tmp_path / "policy"))


def test_a_policy_of_ones_own_does_not_show_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "policy.md").write_text("---\n---\n")
    trust = Door(tmp_path, str(tmp_path / "policy.md")).trust
    assert trust.name == "custom"
    assert trust.address == HOST.address


def test_its_codes_are_told_to_who_hides_them(tmp_path: Path) -> None:
    assert Door(tmp_path, "---\nonboard: {invite_code: [a, b]}\n---").trust.secrets == ("a", "b")
