"""Parts that installed packages offer, by the entry points of their metadata.

A package that says, in its pyproject.toml,

    [project.entry-points."fedsim.algorithms"]
    prox_decay = "fedsim_more.prox_decay"

gives the module `fedsim_more.prox_decay` the name `prox_decay` in scenarios and in `--list`.  There is a group for each
kind of part, called like the package that fedsim's own lie in.  What comes with fedsim, or lies beside the scenario,
is found first; entry points are read where a name is neither, and never while a run goes on.

Not covered: parts of a package that is not installed, which have dotted names; which versions of fedsim a part fits.
"""

from importlib.metadata import EntryPoint, entry_points

from fedsim.core.asking import once
from fedsim.core.errors import UserError


@once
def offered(package: str) -> dict[str, EntryPoint]:
    """Return the parts of a kind by name; `package` is where fedsim's own lie, such as `fedsim.net.effects`.

    Raises UserError where two packages offer the same name.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"fedsim.{package.rpartition('.')[2]}"):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            message = f"{point.name!r} is offered by {owner(other)} and by {owner(point)}"
            raise UserError(f"{message}: uninstall one, or name the part by its module, {point.module}")
    return found


def module_of(package: str, name: str) -> str | None:
    """Return the module that a package offers under a name, None if none does."""
    point = offered(package).get(name)
    return point.module if point else None


def owner_of(package: str, name: str, module: str | None) -> str:
    """Return the distribution that the module of a name comes from, "" where no package offers it."""
    point = offered(package).get(name)
    return owner(point) if point and point.module == module else ""


def owner(point: EntryPoint) -> str:
    """Return the distribution of an entry point with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "a package without a name"
