"""The onion dialect: ConnectOnion's protocol."""
