"""Providers that are agents themselves: programs on this machine that are given a whole turn, not one model call."""
