"""Messages go over TCP and nothing else: a client listens, and works as soon as a message has arrived."""

from dataclasses import dataclass
from typing import ClassVar

from fedsim.net.transport import Transport


@dataclass(frozen=True)
class Tcp(Transport):
    """Adds nothing to the times of the links."""

    plain: ClassVar[bool] = True

    def polling(self) -> float:
        """Return 0: the server sends at once."""
        return 0.0

    def before(self, upload: bool) -> float:
        """Return 0."""
        return 0.0

    def after(self, upload: bool) -> float:
        """Return 0."""
        return 0.0
