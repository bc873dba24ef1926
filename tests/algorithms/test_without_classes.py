"""Algorithms of classes of nodes: they refuse a task without any before it begins."""

from functools import partial

import pytest
from contexts import within
from learnlab import drawn_task

from algorithms.fed_cvae import FedCVAE
from algorithms.fed_ego import FedEgo
from algorithms.fed_proto import FedProto
from algorithms.fed_sd2c import FedSD2C
from algorithms.fed_tad import FedTAD
from algorithms.feddgl import FedDGL
from algorithms.fedgta import FedGTA
from algorithms.fens import FENS
from algorithms.fgssl import FGSSL
from algorithms.ghost import Ghost
from algorithms.glfc import GLFC
from algorithms.lander import Lander
from algorithms.llcg import LLCG
from algorithms.o_pfgl import OPFGL
from algorithms.oasis import Oasis
from algorithms.target import Target
from fedsim.core.errors import ScenarioError
from fedsim.learn.models.gcn import GCN
from fedsim.learn.tasks.link_prediction import LinkPrediction

OF_CLASSES = [
    FedCVAE,
    FedEgo,
    FedProto,
    FedSD2C,
    FedTAD,
    FedDGL,
    FedGTA,
    FENS,
    FGSSL,
    Ghost,
    GLFC,
    Lander,
    partial(LLCG, corrections=0),
    OPFGL,
    Oasis,
    Target,
]


@pytest.mark.parametrize("of", OF_CLASSES)
def test_links_are_not_what_it_learns(of):
    algorithm = of()
    with pytest.raises(ScenarioError, match="take task: node_classification"):
        within(algorithm, drawn_task(algorithm.backbone(GCN()), task=LinkPrediction())).start()
