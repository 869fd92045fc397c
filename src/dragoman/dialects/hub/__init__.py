"""Our own full-fidelity protocol: every session, its whole log by cursor, its terminal by offset.

``docs/dialects/hub.md`` writes the protocol down; ``dragoman.client.hub`` speaks it.
"""

from .dialect import HubDialect
from .settings import HubDialectSettings

__all__ = ["HubDialect", "HubDialectSettings"]
