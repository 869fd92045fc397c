"""Tools that a user might pick instead. They run in a virtual environment of their own (``--peers DIR``)."""
