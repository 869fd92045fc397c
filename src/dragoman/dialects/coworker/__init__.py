"""The coworker dialect: agent-coworker protocol 3.0."""
