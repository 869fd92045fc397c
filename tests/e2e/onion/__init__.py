"""ConnectOnion's real clients, in front of the real server."""

import pytest

pytest.register_assert_rewrite("tests.e2e.onion.people", "tests.e2e.onion.host")
