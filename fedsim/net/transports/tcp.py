"""Messages go over TCP and nothing else: a client listens, and works as soon as a message has arrived."""

from dataclasses import dataclass
from typing import ClassVar

from fedsim.net.transport import Transport


@dataclass(frozen=True)
class Tcp(Transport):
    """Adds nothing to the times of the links."""

    plain: ClassVar[bool] = True
