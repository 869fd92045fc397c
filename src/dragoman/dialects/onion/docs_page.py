"""``/docs``: the routes and frames on one page. It brings everything along and may load nothing."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape

from starlette.responses import Response

from .http_call import UNCACHED, Call

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
td, th { border-bottom: 1px solid #8884; padding: .4rem .6rem; text-align: left; vertical-align: top; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e6e6e6; } }
"""

_ROUTES = (
    ("WebSocket", "/ws", "The protocol: CONNECT to start or resume, INPUT to message."),
    ("POST", "/input", "One prompt; the answer comes when its turn has ended. Signed, or plain where that is allowed."),
    ("GET", "/sessions, /sessions/{id}", "What came of sessions. For the owner."),
    ("GET", "/health", "A sign of life."),
    ("GET", "/info", "Name, address, tools, model, trust, what is accepted."),
    ("GET", "/api/agents/{address}", "Where this server's agent is reached; clients may take this server for a relay."),
    (
        "POST",
        "/admin/trust/{promote,demote,block,unblock}",
        "Change whom the agent trusts. Signed by an administrator.",
    ),
    ("GET", "/admin/trust/level/{id}", "How far somebody is trusted. Signed by an administrator."),
    ("POST", "/superadmin/{add,remove}", "Make and unmake administrators. Signed by the host's own key."),
    ("GET", "/admin/logs, /admin/sessions", "Console lines and results. With the server's token."),
)

_SENT = (
    ("CONNECT", "session_id?, last_msg_id?, session?, payload, from, signature", "Who you are, and which session."),
    ("INPUT", "prompt, images?, files?, input_id?", "A prompt. While a turn runs it goes to that turn."),
    ("ASK_USER_RESPONSE", "answer, request_id?", "Answers ask_user."),
    ("APPROVAL_RESPONSE", "approved, scope?, feedback?, mode?, request_id?", "Answers approval_needed."),
    ("PLAN_REVIEW_RESPONSE", "message, request_id?", "Answers plan_review."),
    ("mode_change", "mode", "safe, plan, accept_edits or ulw."),
    ("INTERRUPT", "", "Ends the turn."),
    ("SESSION_STATUS", "session", "Asks how a session is."),
    ("ONBOARD_SUBMIT", "payload, from, signature", "Answers ONBOARD_REQUIRED."),
    ("PONG", "", "Answers PING."),
)

_HEARD = (
    ("CONNECTED", "session_id, status, server_newer?, session?, chat_items?", "You are in; new, connected or running."),
    ("OUTPUT", "result, session_id, duration_ms, session, chat_items", "The turn ended."),
    ("RUNTIME_INPUT_ACK", "session_id, id", "An INPUT was given to the running turn."),
    ("ERROR", "message", "Something was refused, or the turn failed. The socket stays open."),
    ("ONBOARD_REQUIRED", "identity, methods", "You are a stranger: show an invite code, or pay."),
    ("PING", "", "Every 30 seconds."),
    (
        "user_input, files_received, llm_call, llm_result, thinking, tool_call, tool_result",
        "id, ts, ...",
        "What happens.",
    ),
    ("assistant_delta, assistant, mode_changed, compact", "id, ts, ...", "What happens, too."),
    ("ask_user, approval_needed, plan_review", "id, ts, ...", "The agent asks, and waits."),
)


def _table(heads: tuple[str, ...], rows: tuple[tuple[str, str, str], ...]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    lines = (
        f"<tr><td><code>{escape(first)}</code></td><td><code>{escape(second)}</code></td><td>{escape(third)}</td></tr>"
        for first, second, third in rows
    )
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _page(name: str, address: str, trust: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(name)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(name)}</h1>
<p>An agent at <code>{escape(address)}</code>, trust <code>{escape(trust)}</code>.</p>
<h2>Addresses</h2>
{_table(("Method", "Path", ""), _ROUTES)}
<h2>What a client says</h2>
{_table(("Type", "Fields", ""), _SENT)}
<h2>What it hears</h2>
{_table(("Type", "Fields", ""), _HEARD)}
<h2>Signatures</h2>
<p>An address is <code>0x</code> and the 64 hexadecimal digits of an Ed25519 public key. A signature is over
<code>payload</code> as JSON with sorted keys and no spaces; its <code>timestamp</code> (seconds) may differ from ours
by 300. Who does not sign is anonymous, where that is allowed.</p>
</body>
</html>
"""


_HEADERS = {
    **UNCACHED,
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'",
    "referrer-policy": "no-referrer",
}


async def docs(call: Call) -> Response:
    """The page, for whoever looks at this address with a browser."""
    host = call.host
    page = _page(host.settings.name, host.address, host.trust.name)
    return Response(page, 200, _HEADERS, "text/html; charset=utf-8")
