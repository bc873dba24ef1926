"""What stands behind the tickets of a built point, for tests that look at what was learned."""

from typing import Any

from fedsim.learner.client import Client
from fedsim.learner.ticket import Ticket
from fedsim.point.assemble import Built


def value_of(built: Built, ticket: Ticket) -> Any:
    """Return what a ticket stands for, which somebody still holds."""
    return ticket.value


def server_state(built: Built) -> Any:
    """Return the server's state."""
    return value_of(built, built.world.server.state)


def state_of(built: Built, client: int) -> Any:
    """Return the state that a client's predictions come from."""
    return value_of(built, built.world.state_of(client))


def client_of(built: Built, client: int) -> Client:
    """Return what a client holds and remembers."""
    return built.learner.trained.clients[client]
