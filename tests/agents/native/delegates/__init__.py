"""Programs that run whole turns: fake ones as real children, and what the log says of them."""
