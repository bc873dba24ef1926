"""An ask: the server's request to one client, as an event.  What is exchanged is for the server to say."""

import simpy


class Ask(simpy.Event):
    """The server's request to one client; always ends, with a Reply, or with None if the client was lost."""

    def __init__(self, env: simpy.Environment, client: int, step: str) -> None:
        """Begin open: a reply counts until the ask is closed."""
        super().__init__(env)
        self.client, self.step = client, step
        self.open = True
