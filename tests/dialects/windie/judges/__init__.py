"""Judges of what a windie client hears, written from the contract alone: they know nothing of our server."""
