"""The cin dialect: one bridge for every coding agent on the machine (seed: WebSocket Interface Specification 1.0.0)."""
