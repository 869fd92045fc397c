"""Reading OSC 7501 reports by the protocol's rules."""

from __future__ import annotations

from base64 import b64encode

import pytest

from dragoman.agents.terminal.program_status import StatusReport, parse_report


def text(value: str) -> str:
    return b64encode(value.encode()).decode()


@pytest.mark.parametrize(
    ("payload", "report"),
    [
        ("state=idle", StatusReport("idle")),
        ("state=working:app=codex:progress=40", StatusReport("working", app="codex", progress=40)),
        (
            f"state=blocked:kind=permission:app=claude-code:msg={text('Bash: ls é')}",
            StatusReport("blocked", kind="permission", app="claude-code", msg="Bash: ls é"),
        ),
        (f"state=done:id=a/b.c:title={text('Build')}", StatusReport("done", id="a/b.c", title="Build")),
        ("state=clear", StatusReport("clear")),
        ("state=idle:state=error", StatusReport("error")),
        ("nonsense:=x:UP=1:future=1:state=idle:a=?", StatusReport("idle")),
        ("state=idle:kind=permission:progress=5", StatusReport("idle")),
        ("state=working:kind=question", StatusReport("working")),
        ("state=blocked:kind=other:progress=101:app=", StatusReport("blocked")),
        ("state=working:progress=1x", StatusReport("working")),
        (f"state=idle:msg={text('ab').rstrip('=')}", StatusReport("idle", msg="ab")),
        (" state = idle ", StatusReport("idle")),
    ],
)
def test_reports(payload: str, report: StatusReport) -> None:
    assert parse_report(payload) == report


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "app=codex",
        "state=",
        "state=sleeping",
        "state=idle:msg=!!!!:msg=Q",
        "state=idle:msg=/w==",
        f"state=idle:msg={text('a' + chr(7))}",
        f"state=idle:title={text('x' * 193)}",
        f"state=idle:msg={text('x' * 2049)}",
        "state=idle:id=",
        "state=idle:id=a//b",
        "state=idle:id=" + "/".join("abcdefghi"),
        "state=idle:id=" + "x" * 33,
        "state=idle:id=" + "/".join(["x" * 30] * 5),
        "state=idle:app=" + "x" * 33,
        "state=idle:" + "k" * 17 + "=1",
        "state=idle:x=" + "y" * 4096,
    ],
)
def test_void_reports(payload: str) -> None:
    assert parse_report(payload) is None
