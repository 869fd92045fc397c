"""The coworker dialect seen from outside."""
