"""Glossary of a report."""

from analysis.page import glossary, section
from analysis.quantity import MISSING

SCORE = "score"
TERMS = {
    "point": "one combination of the sweep's axes and one replicate: one training run",
    "replicate": "one of several runs of the same condition, which differ only in what was drawn at random: by `seed`, "
    "or by an axis whose name ends in seed, such as data.split.numpy_seed, which draws the split and the tasks' order",
    "simulated time": "seconds on the simulation's clock, network and computing included; not real time",
    "measured time": "of a deployed run: real seconds since the first question of the server",
    "update": "one aggregation of clients' replies into the server's model",
    "up, down": "payload bytes delivered to the server, and from the server to clients",
    "between peers": "payload bytes that clients delivered to one another, without a server",
    "overhead": "headers and retransmissions of what was delivered",
    "wasted": "what moved for nothing: aborted transfers, and replies that came too late or were discarded by the "
    "protocol's rule",
    "aborted": "of transfers that were cut short, or lost before a byte had moved",
    "moved on the wire": "everything that went over the links: delivered payload, overhead and what was wasted",
    "transfer time": "from the sending of a delivered message to the end of its transfer, with waiting for the link, "
    "the handshake and all retransmissions",
    "asked, aggregated, lost, late": "clients asked for a reply; replies that were used; clients that "
    "dropped out and replies that never arrived; replies that came too late to count",
    SCORE: "the one score of a run: the metric over all clients' test sets for each period, then averaged over all "
    "periods of the stream, arrived or not, so that the test is the same throughout (where that cannot be tested, "
    "over the periods that have arrived so far); a run's is the last one. Every chart and table has it under this "
    "name. Macro F1, AUC, average precision and MRR are of all clients' predictions as one test, or, with "
    "measure.over: clients and where periods arrive at each client at its own time, the mean of the clients' own",
    "AM": "shown where it differs from the score: the mean over the periods that clients have met, once each has "
    "learned its last one, in percentage points",
    "LA": "learning accuracy: the score on each period right after it was learned, mean over the periods, in "
    "percentage points; where snapshots are scored ahead, the mean over the snapshots trained on, while the score is "
    "that of the last one",
    "FM": "forgetting: how far the scores on earlier periods have fallen since each was learned, mean, in percentage "
    "points; negative if they rose",
    "prequential": "the score on a period at its arrival, before anything was trained on it: pooled over clients, mean "
    "over periods; what arrived at second 0 is left out",
    "updates per period": "the server's updates from a client's arrival of one period to the next, or to the end of "
    "the run, mean over all arrivals",
    "staleness": "how many versions aggregated replies were behind the server's, mean over replies; among peers, how "
    "many rounds a share was behind its receiver, negative where the sender was ahead",
    "worst tenth of clients": "the mean last score of the tenth of the clients, rounded up, that are served worst",
    "evenness of scores, of uploads": "Jain's index over clients of their last scores, and of their delivered uploads: "
    "100 % if all have the same, 1/n if one of n has everything",
    "clients that took part": "the share of clients with data that have delivered an upload",
    "classes that they hold": "the share of a label class's training vertices that clients hold which took part, mean "
    "over the classes",
    "target": "a score. Time and bytes to it count at the first scoring that meets it, even if it is lost again later; "
    "where the test grows with every arrival, only once every period of the run has arrived at every client",
    "computing per job, per update": "mean simulated seconds that a client computes for one job, and that the server "
    "and edge aggregators compute for one update, without waiting",
    "energy, CO2e, money": "estimates of what a run draws, emits and costs, computed from its messages and computing; "
    "the range has every figure at its low and at its high value",
    "participation": "the share of clients that take part in an update",
    "robustness": "the score as a share of its value at the easiest setting of an axis, "
    "in the same replicate; the area under it is 100 % if nothing is lost",
    "Pareto front": "the points for which no other has a better mean score at no more cost",
    "±": "one standard deviation over replicates (n - 1), as in the terminal; this page has it for five or more, and "
    "of fewer the least and the greatest value",
    "95 % interval": "Student's t, over the means of the orders where there are several, else over the seeds; none "
    "with fewer than five of them",
    MISSING: "does not apply, or never happened",
}


def words(score: str) -> str:
    """Return the glossary; `score` is what the page calls the score."""
    terms = {f"{score}, score" if term == SCORE and score != SCORE else term: said for term, said in TERMS.items()}
    return section("glossary", "Glossary", glossary(terms))
