"""The Coop dialect seen from outside: a real server process, its sockets, and the contract's page."""
