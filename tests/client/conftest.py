"""The servers that the client is tested against are the hub dialect's own test rig."""

from tests.dialects.hub.conftest import make_rig, rig

__all__ = ["make_rig", "rig"]
