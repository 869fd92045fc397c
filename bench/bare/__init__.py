"""Ceilings: the bare libraries doing the same work, with nothing of ours. Each module is a process of its own."""
