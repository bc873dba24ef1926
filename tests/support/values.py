"""What stands behind the tickets of a built point, for tests that look at what was learned."""

from typing import Any

from fedsim.learner.client import Client
from fedsim.point.build.assemble import Built


def server_state(built: Built) -> Any:
    """Return the server's state."""
    return built.world.server.state.value


def state_of(built: Built, client: int) -> Any:
    """Return the state that a client's predictions come from."""
    return built.world.state_of(client).value


def client_of(built: Built, client: int) -> Client:
    """Return what a client holds and remembers."""
    return built.learner.clients[client]
