"""Check 7: nothing that makes the network worse makes a lone transfer faster.

Limits of the reckoned start: with less rate in sight slow start leaves less of it idle, so a rival that goes away
at once, or a lower rate where losses soon set another ceiling anyway, can make a transfer slightly faster.  Hence
rivals here outlast the transfer, and lower rates come without loss.  And of the reckoned mean: one packet more puts
off the mean first loss by up to a packet, which can save more than it costs where losses are not drawn.  And of losses
themselves: among the last packets one costs up to a round trip, since it is sent again after all others; with more loss
the first comes earlier, where a queue can hide it.  And the longer the trip, the more bytes are under way at full rate
until the first loss is noticed.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from netlab import access, down, fluid, up, world

from fedsim.net.effects.jitter import Jitter
from fedsim.net.effects.loss import Loss
from fedsim.net.tcp import congestion_avoidance
from fedsim.net.tcp import laws as tcp

nbytes, latency, rate = st.integers(1, 10**8), st.floats(0, 0.5), st.floats(1e5, 1e9)
losses = st.floats(0, 0.4) | st.floats(0, 0.05)
models = st.builds(fluid, congestion_control=st.sampled_from(["cubic", "reno", "bbr"]), deterministic=st.booleans())
worse = st.tuples(st.integers(0, 10**7), st.floats(0, 0.5), st.floats(0, 0.3), st.floats(0, 0.2))


def arrival(direction, nbytes, latency, loss, rate, model, jitter=0.0, rivals=0):
    here = world(
        latency, rate, rate, 1 + rivals, model=model, effects=[Loss(loss), Jitter(jitter)], server=access(2 * rate)
    )
    here.network.send(direction(0, nbytes))
    for rival in range(rivals):
        here.network.send(direction(1 + rival, 10**12))
    while not any(row.nbytes == nbytes for row in here.rows):
        here.env.step()
    return here.env.now


@settings(max_examples=100)
@given(st.sampled_from([up, down]), nbytes, latency, losses, rate, models, worse)
def test_more_bytes_trips_losses_or_jitter_are_never_faster(direction, nbytes, latency, loss, rate, model, worse):
    bytes_more, latency_more, loss_more, jitter = worse
    plain = arrival(direction, nbytes, latency, loss, rate, model)
    more_loss = loss + loss_more * (1 - loss)
    if model.constants.deterministic and loss:
        bytes_more = 0
    for other in (
        arrival(direction, nbytes + bytes_more, latency, loss, rate, model),
        arrival(direction, nbytes, latency + latency_more, loss, rate, model)
        + under_way(model, 2 * latency, 2 * latency_more, loss, rate),
        arrival(direction, nbytes, latency, more_loss, rate, model) + (2 * latency if loss else 0.0),
        arrival(direction, nbytes, latency, loss, rate, model, jitter)
        + under_way(model, 2 * latency, jitter, loss, rate),
    ):
        assert other >= plain * (1 - 1e-9)


def under_way(model, trip, more, loss, rate):
    """Seconds that the bytes take after a loss which a longer trip lets pass before it is noticed, at full rate."""
    if not loss:
        return 0.0
    return (
        congestion_avoidance.FILLED
        * more
        * rate
        / 8
        / min(rate / 8, tcp.steady_rate_of(model.constants, trip + more, loss))
    )


@given(st.sampled_from([up, down]), nbytes, latency, rate, st.floats(0.1, 1))
def test_less_rate_is_never_faster(direction, nbytes, latency, rate, part):
    plain = arrival(direction, nbytes, latency, 0.0, rate, fluid())
    assert arrival(direction, nbytes, latency, 0.0, rate * part, fluid()) >= plain * (1 - 1e-9)


@given(st.sampled_from([up, down]), nbytes, latency, rate, st.integers(0, 6), st.integers(1, 4))
def test_more_rivals_that_stay_are_never_faster(direction, nbytes, latency, rate, rivals, more):
    few = arrival(direction, nbytes, latency, 0.0, rate, fluid(), rivals=rivals)
    many = arrival(direction, nbytes, latency, 0.0, rate, fluid(), rivals=rivals + more)
    assert many >= few * (1 - 1e-9)
