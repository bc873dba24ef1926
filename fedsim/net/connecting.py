"""Connecting: which messages open a connection of their own, and which use one that is open.

- `fresh`: each message opens its own.
- `exchange`: one for each request and its reply, which goes back on the connection that the request has opened.
- `kept`: connections stay open between messages (`connection.py`).

A download is requested by its client (`pull`), which takes half a round trip: on a new connection the request travels
with the last packet of the handshake, on an open one by itself.  On a kept connection the server can send at once
instead (`push`).

Not modelled: the bytes of a request, and that a client has to learn that there is something to request.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Connecting:
    """`kind` is fresh, exchange or kept, `request` pull or push.

    Without `idle_restart` the window of a kept connection stays open however long it idles.
    """

    kind: str = "fresh"
    request: str = "pull"
    idle_restart: bool = True

    @property
    def keeps(self) -> bool:
        """Whether connections stay open between messages."""
        return self.kind == "kept"

    @property
    def on_open(self) -> bool:
        """Whether a reply goes back on its request's connection, which then closes."""
        return self.kind == "exchange"
