"""Speed, measured: every figure of ours beside a ceiling from the same run. ``python -m bench`` (``make bench``)."""
