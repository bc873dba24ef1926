"""Energy and money: published figures of what devices, links, networks and servers draw, and what they are charged.

Each figure is an estimate (low, typical, high).  Where a source has a single figure, the others are half and
twice it, chosen here; they are marked "chosen".  Results of other devices and contracts may lie outside: give
your own figures.

Devices, watts while computing:

* phone: peaks of CPUs and GPUs of three phones from 2.0 W (a GPU) to 5.6 W (a CPU), the CPU of the slowest 3.6 W.  Kim
  and Wu, AutoFL, MICRO 2021 (arXiv 2107.08147).
* laptop: base power of Intel's mobile processors of the series U, P and H: 15, 28 and 45 W (Intel, product
  specifications).  Screen and memory are not in it.
* jetson: power modes of the Jetson Orin Nano, 7, 15 and 25 W (NVIDIA, Jetson Linux Developer Guide).
* server: mean maximum of servers with one and with two sockets, 118 and 365 W (Shehabi et al., United States Data
  Center Energy Usage Report, LBNL-1005775, 2016); high: one H100 SXM, 700 W (NVIDIA, data sheet).

Devices, watts while idle:

* phone: 0.069 W suspended, 0.27 W idle with a dark screen (Carroll and Heiser, An Analysis of Power Consumption in a
  Smartphone, USENIX ATC 2010); high chosen.
* laptop: 8 W (Mahesri and Vardhan, Power Consumption Breakdown on a Modern Laptop, PACS 2004); low and high chosen.
* jetson: 2.6 W, a stripped-down Orin Nano with its board as measured by a user (NVIDIA's developer forum, thread
  348662); typical chosen, high: its lowest power mode, 7 W.
* server: half of its maximum (Barroso and Hölzle, The Case for Energy-Proportional Computing, IEEE Computer 40(12),
  2007).

Links of clients, joules a byte and watts while a message is under way:

* wifi, lte: power grows linearly with throughput: 283.17 (up), 137.01 (down) mW per Mbit/s and 132.86 mW for Wi-Fi,
  438.39, 51.97 and 1288.04 for LTE (Huang et al., A Close Examination of Performance and Power Characteristics of 4G
  LTE Networks, MobiSys 2012), of one phone of 2011; low and high chosen.
* ethernet: nothing on top, because a wired adapter draws nearly the same whatever it carries (Christensen et al., IEEE
  802.3az: The Road to Energy Efficient Ethernet, IEEE Communications Magazine 48(11), 2010).

Networks, kWh a GB on the way between a client and the server:

* wifi, ethernet (fixed line): 0.06 in 2015, halved every two years (Aslan et al., Electricity Intensity of Internet
  Data Transmission, Journal of Industrial Ecology 22(4), 2018), so 0.00375 in 2023 if that has gone on; typical: 0.03,
  the European Commission's ICT Impact Study of 2020.
* lte (mobile): 0.14, the same study; low and high, 0.06 and 0.23: radio access of 5G and 4G, as compared from bottom-up
  models in methodology.scope3.com/data_transfer.

Money, US dollars:

* electricity: residential prices of 2023 in Idaho, the whole country and Hawaii, 0.1105, 0.16 and 0.4239 a kWh (U.S.
  Energy Information Administration, Electric Power Annual).
* data of clients: nothing on fixed lines (flat rates); mobile 0.02 (Israel), 2.59 (mean of countries) and 6 (USA) a GB
  (Cable.co.uk, Worldwide Mobile Data Pricing 2023).
* server, an hour: 0.0416 (t3.medium), 0.192 (m5.xlarge), 3.06 (p3.2xlarge), electricity included (Amazon EC2, list
  prices on demand, us-east-1).
* server, a GB sent: 0.09 (Amazon EC2, to the Internet, first 10 TB) and 0.12 (Google Cloud, premium tier); low: 0.001
  (Hetzner, one euro a TB).  What it receives is free.

`PUE` is what a data centre draws over what its computers draw: 1.10 (Google, 2023), 1.58 (Uptime Institute,
Global Data Center Survey 2023) and 1.98 (the same survey of 2011).

Not modelled: power that changes with load or clock rate, batteries and chargers, the energy of making the
devices.
"""

from collections.abc import Mapping
from typing import NamedTuple

BITS = 8e-9  # from milliwatts per Mbit/s to joules a byte
KWH = 3.6e6  # joules
GB = 1e9


class Figure(NamedTuple):
    """An estimate: a low, a typical and a high value."""

    low: float
    typical: float
    high: float

    def times(self, factor: float) -> "Figure":
        """Return the estimate in another unit."""
        return Figure(*(value * factor for value in self))


def about(value: float) -> Figure:
    """Return a single figure with half and twice of it."""
    return Figure(value / 2, value, value * 2)


class DevicePower(NamedTuple):
    """What a class of devices draws (W), and the link that it is on unless a scenario says otherwise."""

    watts: Figure
    idle_watts: Figure
    link: str


class LinkEnergy(NamedTuple):
    """What a byte on a kind of link takes (J), the radio during a message (W), the network (J a byte) and money."""

    up: Figure
    down: Figure
    watts: Figure
    network: Figure
    usd: Figure


DEVICES: Mapping[str, DevicePower] = {
    "phone": DevicePower(Figure(2.0, 3.6, 5.6), Figure(0.069, 0.27, 0.54), "wifi"),
    "laptop": DevicePower(Figure(15.0, 28.0, 45.0), about(8.0), "wifi"),
    "jetson": DevicePower(Figure(7.0, 15.0, 25.0), Figure(2.6, 5.2, 7.0), "ethernet"),
    "server": DevicePower(Figure(118.0, 365.0, 700.0), Figure(59.0, 182.5, 350.0), "ethernet"),
}
NOTHING = Figure(0.0, 0.0, 0.0)
FIXED = Figure(0.00375, 0.03, 0.06).times(KWH / GB)
DATA = Figure(0.02, 2.59, 6.0).times(1 / GB)  # USD a byte
MOBILE = Figure(0.06, 0.14, 0.23).times(KWH / GB)
LINKS: Mapping[str, LinkEnergy] = {
    "wifi": LinkEnergy(about(283.17 * BITS), about(137.01 * BITS), about(0.13286), FIXED, NOTHING),
    "lte": LinkEnergy(about(438.39 * BITS), about(51.97 * BITS), about(1.28804), MOBILE, DATA),
    "ethernet": LinkEnergy(NOTHING, NOTHING, NOTHING, FIXED, NOTHING),
}  # fmt: skip
ELECTRICITY = Figure(0.1105, 0.16, 0.4239).times(1 / KWH)  # USD a joule
PUE = Figure(1.1, 1.58, 1.98)
HOUR = Figure(0.0416, 0.192, 3.06)  # USD
SENT = Figure(0.001, 0.09, 0.12).times(1 / GB)  # USD a byte
