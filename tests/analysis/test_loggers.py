"""What other tools are told of a point is what its tables say, and its tables do not know of it."""

import json
from pathlib import Path

import numpy as np
import pytest
import small_points
import yaml
from calling import QUICK

from analysis import logger
from analysis.loggers.tensorboard import Tensorboard
from analysis.measures.course import MOVED, course, milliseconds
from analysis.measures.frontier import curve
from analysis.read import stored
from fedsim.sweep.arguments import LOGGERS

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def point(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logged") / "0123456789ab"
    row = small_points.run_in(folder)
    (folder / "row.json").write_text(json.dumps(row, default=float))
    return logger.Finished("small", folder.name, folder, {"algorithm": "fedavg"})


def test_a_course_has_every_score_and_the_bytes(point):
    tables = stored.tables(point.folder)
    found = course(tables)
    names = {f"{m}/{o}/{s}" for m in ("accuracy", "macro_f1") for o in ("global", "local") for s in ("test", "val")}
    assert {*found} == names | {MOVED}
    expected = curve(tables["scores"], tables["transfers"], "local", "macro_f1", "val")
    assert found["macro_f1/local/val"]["value"].tolist() == expected["score"].tolist()
    assert found["macro_f1/local/val"]["moved"].tolist() == expected["moved"].tolist()
    assert found[MOVED]["value"].iloc[-1] == tables["transfers"]["wire_bytes"].sum()


def test_tensorboard_reads_back_the_tables(point):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    from tensorboard.plugins.hparams import metadata
    from tensorboard.util import tensor_util

    one = Tensorboard()
    assert not one.logged(point)
    one.log(point)
    assert one.logged(point)
    expected = course(stored.tables(point.folder))
    files = {path.parent.name: path for path in (point.folder / "tensorboard").glob("*/events*")}
    for way in ("by_time", "by_bytes"):
        found, settings = {}, {}
        for event in loader.EventFileLoader(str(files[way])).Load():
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "hparams":
                    start = metadata.parse_session_start_info_plugin_data(value.metadata.plugin_data.content)
                    settings = {key: one.WhichOneof("kind") and getattr(one, one.WhichOneof("kind"))
                                for key, one in start.hparams.items()}  # fmt: skip
                else:
                    told = tensor_util.make_ndarray(value.tensor).item()
                    found.setdefault(value.tag, []).append((event.wall_time, event.step, told))
        assert {*found} == {*expected} - ({MOVED} if way == "by_bytes" else set())
        for name, rows in found.items():
            times, steps, values = zip(*rows, strict=True)
            assert list(times) == expected[name]["time"].tolist()
            moments = [milliseconds(time) for time in expected[name]["time"]]
            assert list(steps) == (moments if way == "by_time" else expected[name]["moved"].tolist())
            assert values == pytest.approx(np.float32(expected[name]["value"]).tolist(), rel=0, abs=0)
        if way == "by_time":
            assert settings["training.lr"] == 0.05
            assert settings["algorithm"] == "fedavg"
    before = {way: path.read_bytes() for way, path in files.items()}
    for path in [*files.values(), *(path.parent for path in files.values())]:
        path.unlink() if path.is_file() else path.rmdir()
    (point.folder / "tensorboard").rmdir()
    one.log(point)
    assert {way: path.read_bytes() for way, path in files.items()} == before  # neither host nor hour is in them


@pytest.mark.filterwarnings("ignore")  # what MLflow and its database say to one another
def test_mlflow_has_the_tables(point):
    pytest.importorskip("mlflow", reason='MLflow is not installed: pip install -e ".[mlflow]"')
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{point.folder.parent / 'mlflow.db'}"
    one = logger.build("mlflow")
    assert not one.logged(point)
    one.log(point)
    assert one.logged(point)
    assert logger.build("mlflow", uri).logged(point)
    client = MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("small").experiment_id])
    assert run.info.run_name == "algorithm fedavg"
    assert run.data.params["training.lr"] == "0.05"
    assert run.data.metrics["sim_seconds"] == json.loads((point.folder / "row.json").read_text())["sim_seconds"]
    for name, rows in course(stored.tables(point.folder)).items():
        times = [milliseconds(time) for time in rows["time"]]
        for way, steps in (("by_time", times), ("by_bytes", rows["moved"].tolist())):
            history = client.get_metric_history(run.info.run_id, f"{name.replace(' ', '_')}.{way}")
            told = sorted((metric.step, metric.timestamp, metric.value) for metric in history)
            assert told == sorted(zip(steps, times, rows["value"], strict=True))


def test_every_logger_has_a_flag():
    files = {path.stem for path in Path(logger.__file__).with_name("loggers").glob("*.py")}
    assert files == {*LOGGERS, "timeline", "__init__"}
    assert [type(one).__name__ for one in logger.asked_for([], True, None)] == ["Timeline"]


@pytest.mark.parametrize("name", LOGGERS)
def test_a_missing_package_is_one_message_before_anything_runs(name, call, tmp_path, monkeypatch):
    monkeypatch.setattr(logger, "find_spec", lambda package: None)
    code, _, told = call("scenario.yaml", "--log", name)
    assert code == 2
    mend = f'pip install "fedgraphsim[{name}]", or pip install -e ".[{name}]" in a checkout'
    assert told == f"fedsim: --log {name} needs {name}, which is not installed: {mend}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--log-to", "sqlite:///x.db"], "--log-to is the address for --log mlflow; add --log mlflow"),
        (["--log", "wandb"], "invalid choice: 'wandb'"),
        (["--log", "tensorboard", "--tune", "2"], "--trace and --log record the runs of a scenario"),
    ],
)
def test_what_cannot_be_logged_is_reported(words, message, call):
    code, _, told = call("scenario.yaml", *words)
    assert code == 2
    assert message in told


def test_logging_is_no_part_of_a_point(call, tmp_path):
    pytest.importorskip("tensorboard")
    text = QUICK.replace("rounds: 3", "rounds: 1").replace("[0, 1]", "[0]")
    assert call("scenario.yaml", "--jobs", "1", "--no-report", text=text)[0] == 0
    (first,) = (tmp_path / "runs" / "small").glob("points/*/row.json")
    before = {path.name: path.read_bytes() for path in first.parent.iterdir()}
    assert call("scenario.yaml", "--jobs", "1", "--no-report", "--log", "tensorboard", text=text)[0] == 0
    after = {path.name: path.read_bytes() for path in first.parent.iterdir() if path.is_file()}
    assert after == before
    assert (first.parent / "tensorboard").is_dir()  # a point that was finished before is logged when it is asked for
    assert "tensorboard" not in yaml.safe_dump(yaml.safe_load((first.parent / "scenario.yaml").read_text()))
