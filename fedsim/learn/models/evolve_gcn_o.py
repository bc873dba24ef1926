"""EvolveGCN-O (Pareja et al., AAAI 2020, section 3.2): weights evolve by themselves, whatever the graph."""

from dataclasses import dataclass

from fedsim.learn.evolving import Evolving


@dataclass(frozen=True)
class EvolveGCNO(Evolving):
    """The gates' input is the weight itself; the original's recurrence is an LSTM's, its published code's this one."""

    def summary(self, params, h, graph):
        """Return the weight."""
        return params["weight"]
