"""The windie dialect in a whole server, over real sockets, judged by what the contract says of what is heard."""
