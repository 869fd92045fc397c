"""The original's recorded conversations, held with our server: what it says is compared field by field."""
