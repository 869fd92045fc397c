"""Writes docs/settings.md from the settings tree: names, defaults, and the sentence below each field.

    python tools/settings_reference.py > docs/settings.md

A test holds the page to the code.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import get_args, get_origin

import msgspec

from dragoman.server.settings import Settings

HEAD = """# Settings

One tree, filled in this order: defaults, the settings file (TOML; `--config FILE`, `DRAGOMAN_CONFIG`, or
`~/.config/dragoman/config.toml`), the environment, flags. In the environment a setting is `DRAGOMAN_SECTION__KEY`
(`DRAGOMAN_HUB__QUEUE_PROMPTS=20`, `DRAGOMAN_DIALECTS__COOP__OPEN_READS=false`); short forms are `DRAGOMAN_HOST`,
`_PORT`, `_TOKEN`, `_DIALECT`, `_DATA`, `_LOG_LEVEL` and `_LOG_JSON`. `dragoman config` prints what holds, secrets
masked. An unknown name is an error, not a silence.

This page is made by `tools/settings_reference.py` from the code.
"""


def sentences(struct: type) -> dict[str, str]:
    """Field name -> the docstring that stands below it."""
    body = ast.parse(inspect.getsource(struct)).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def sections(struct: type, path: str = "") -> Iterator[tuple[str, type]]:
    """Every section with its dotted path, parents first."""
    for field in msgspec.structs.fields(struct):
        inner, dotted = field.type, f"{path}.{field.name}".lstrip(".")
        named = get_args(inner)[-1] if get_origin(inner) is dict else None
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield dotted, inner
            yield from sections(inner, dotted)
        elif isinstance(named, type) and issubclass(named, msgspec.Struct):
            yield f"{dotted}.NAME", named


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for path, struct in sections(Settings):
        rows = list(_rows(struct))
        if not rows:
            continue
        title = (inspect.getdoc(struct) or "").split("\n\n")[0].replace("\n", " ")
        parts.append(f"\n## [{path}]\n\n{title}\n\n| setting | default | |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "".join(parts)


def _rows(struct: type) -> Iterator[str]:
    said = sentences(struct)
    for field in msgspec.structs.fields(struct):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            continue
        made = field.default_factory() if callable(field.default_factory) else field.default
        default = msgspec.json.encode(made).decode()
        yield f"| `{field.name}` | `{default}` | {said.get(field.name, '')} |"


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201
