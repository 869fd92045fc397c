"""The onion dialect: ConnectOnion's protocol."""

from .dialect import OnionDialect

__all__ = ["OnionDialect"]
