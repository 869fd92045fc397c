"""Policies: whom to let in, as front matter says (onion, spec §5).

---
allow: [whitelisted, contact]     who is let in: whitelisted, contact, admin
deny: [blocked]                   who is not
onboard:
  invite_code: [$CO_INVITE_CODE]  codes; a name with $ is read from the environment, and unset is none
  payment: 10                     what a stranger pays; needs somebody who verifies it
default: ask                      everybody else: allow, deny, or ask
---
What follows is for people.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

import msgspec

from dragoman.hub.events import Json
from dragoman.services.workspace.files import FileProblem, read_whole

from .settings import LEVEL_NAMES

log = logging.getLogger("dragoman.trust")

Default = Literal["allow", "deny", "ask"]
"""What becomes of a caller that no rule names. ``ask``: onboarding, where there is any."""

_DEFAULTS: tuple[Default, ...] = get_args(Default)
_ALLOWED = ("whitelisted", "contact", "admin")
_DENIED = ("blocked",)
_KEYS = ("allow", "deny", "onboard", "default")
_DOORS = ("invite_code", "payment")


class PolicyProblem(Exception):
    """The policy cannot be used. The message says where, and what may stand there; it quotes no code."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to let in. ``name`` is a level, or ``custom``; ``codes`` are those that open the door now."""

    name: str
    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset(_DENIED)
    codes: tuple[str, ...] = ()
    payment: float | int | None = None
    default: Default = "deny"

    def __repr__(self) -> str:
        return f"Policy({self.name!r})"


_LEVELS = (
    Policy(name="open", default="allow"),
    Policy(name="careful", allow=frozenset({"whitelisted", "contact"}), default="ask"),
    Policy(name="strict", allow=frozenset({"whitelisted"}), default="deny"),
)

LEVELS: Mapping[str, Policy] = dict(zip(LEVEL_NAMES, _LEVELS, strict=True))
"""The policies that come with the server. None of them holds a code or a price."""


def policy_of(said: str, environment: Mapping[str, str], *, loopback: bool, most: int) -> Policy:
    """The policy that the settings name: see ``TrustSettings.policy``. ``most``: bytes of a file. Blocks.

    Raises ``PolicyProblem``.
    """
    name = said.strip()
    if not name:
        return LEVELS["open" if loopback else "careful"]
    if name.lower() in LEVELS:
        return LEVELS[name.lower()]
    if name.startswith("---"):
        return _read(name, "", environment)
    return _read(_text_of(Path(name).expanduser(), most), name, environment)


def _text_of(file: Path, most: int) -> str:
    try:
        data = read_whole(file, most)
        text = None if data is None else data.decode().removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    except FileProblem as problem:
        raise PolicyProblem(f"trust.policy: {file}: {problem}") from None
    except UnicodeDecodeError:
        raise PolicyProblem(f"trust.policy: {file}: it is not UTF-8 text") from None
    if text is None:
        raise PolicyProblem(
            f"trust.policy: {str(file)!r} is no level (open, careful, strict) and no file;"
            " the text of a policy begins with ---"
        )
    return text


def _read(text: str, file: str, environment: Mapping[str, str]) -> Policy:
    reader = _Reader(file, environment)
    given = reader.front_matter(text)
    onboard = reader.mapping(given, "onboard")
    codes, payment = reader.codes(onboard.get("invite_code")), reader.payment(onboard.get("payment"))
    # Whoever came through a door is a contact, and would stand before it again.
    onboarded = frozenset({"contact"} if codes or payment is not None else ())
    return Policy(
        name="custom",
        allow=reader.words(given, "allow", _ALLOWED) | onboarded,
        deny=reader.words(given, "deny", _DENIED, closed=True) if "deny" in given else frozenset(_DENIED),
        codes=codes,
        payment=payment,
        default=reader.default(given.get("default", "deny")),
    )


class _Reader:
    """Reads what a policy says. ``file`` is where it stands, if it does not stand in the settings."""

    def __init__(self, file: str, environment: Mapping[str, str]) -> None:
        self._where = f"{file}: " if file else ""
        self._environment = environment

    def front_matter(self, text: str) -> dict[str, Json]:
        lines = text.splitlines()
        if not lines or lines[0].strip() != "---":
            raise self._problem("it does not begin with a line ---")
        ends = [number for number, line in enumerate(lines) if number and line.strip() == "---"]
        if not ends:
            raise self._problem("no second line --- ends its rules")
        return self._yaml("\n".join(lines[1 : ends[0]]))

    def _yaml(self, text: str) -> dict[str, Json]:
        import yaml  # noqa: PLC0415  wanted by policies of one's own only

        try:
            given = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            # Where, but not what: its own words may quote a code.
            line = f" at line {error.problem_mark.line + 2}" if error.problem_mark else ""
            raise self._problem(f"no YAML{line}") from None
        except (yaml.YAMLError, ValueError, RecursionError):
            raise self._problem("no YAML") from None
        if given is None:
            return {}
        if not isinstance(given, dict):
            raise self._problem("its rules are no mapping (key: value)")
        self._note_unknown(given, _KEYS, "")
        return given

    def mapping(self, given: Mapping[str, Json], key: str) -> dict[str, Json]:
        found = given.get(key)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise self._problem(f"{key} is no mapping (invite_code, payment)")
        self._note_unknown(found, _DOORS, f"{key}.")
        return found

    def words(
        self, given: Mapping[str, Json], key: str, known: tuple[str, ...], *, closed: bool = False
    ) -> frozenset[str]:
        """A list of words. One that is unknown is passed over, or with ``closed`` refused: it would leave a hole."""
        found = given.get(key)
        found = [] if found is None else [found] if isinstance(found, str) else found
        if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
            raise self._problem(f"{key} is no list of words ({', '.join(known)})")
        unknown = sorted(set(found) - set(known))
        if unknown and closed:
            raise self._problem(f"{key}: {unknown[0]!r} is unknown (known: {', '.join(known)})")
        if unknown:
            log.warning("trust.policy: %s%s: %s lets nobody in", self._where, key, ", ".join(map(repr, unknown)))
        return frozenset(found) & frozenset(known)

    def codes(self, found: Json) -> tuple[str, ...]:
        found = [] if found is None else found if isinstance(found, list) else [found]
        if not all(isinstance(code, str | int) and not isinstance(code, bool) for code in found):
            raise self._problem("onboard.invite_code is no list of codes")
        codes = (self._meant(str(code)) for code in found)
        return tuple(dict.fromkeys(code for code in codes if code))

    def payment(self, found: Json) -> float | int | None:
        if isinstance(found, str) and found.strip().startswith("$"):
            return self._from_environment(found.strip())
        if found is None or found == 0:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float) or not _is_price(found):
            raise self._problem("onboard.payment is no number above 0")
        return found

    def default(self, found: Json) -> Default:
        for known in _DEFAULTS:
            # YAML before 1.2 takes some words for true and false, but none of these.
            if isinstance(found, str) and found.strip().lower() == known:
                return known
        raise self._problem("default is none of allow, deny, ask")

    def _from_environment(self, name: str) -> float | int | None:
        said = self._meant(name)
        if not said:
            return None
        try:
            price = float(said)
        except ValueError:
            price = math.nan
        if not _is_price(price):
            log.warning("trust.policy: %sonboard.payment: %s is no number above 0: nobody can pay", self._where, name)
            return None
        return int(price) if price.is_integer() else price

    def _meant(self, said: str) -> str:
        """A value, or the environment's, of which an unset one is nothing: never the name, which all may read."""
        return self._environment.get(said[1:], "").strip() if said.startswith("$") else said.strip()

    def _note_unknown(self, given: Mapping[Json, Json], known: tuple[str, ...], prefix: str) -> None:
        unknown = sorted(str(key) for key in given if key not in known)
        if unknown:
            log.warning(
                "trust.policy: %s%s: unknown, passed over", self._where, ", ".join(prefix + key for key in unknown)
            )

    def _problem(self, what: str) -> PolicyProblem:
        return PolicyProblem(f"trust.policy: {self._where}{what}")


def _is_price(number: float) -> bool:
    return math.isfinite(number) and number > 0
