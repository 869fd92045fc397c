"""The windie dialect: WindieOS's protocol."""
