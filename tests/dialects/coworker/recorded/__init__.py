"""The original's 61 recorded conversations, played against our server: what it says is compared field by field."""
