"""Client libraries, one per protocol. They import nothing of the server."""
