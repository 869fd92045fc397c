"""The onion dialect seen from outside."""
