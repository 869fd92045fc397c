"""One folder per wire protocol. Each is a projection of the hub's facts and a decoder into its commands.

``base`` is what a dialect is to the server, ``frames`` how a WebSocket message is put into bytes once for every link.
"""
