"""What an agent's hooks are answered: pure functions of the session's settings and state."""
