import logging

from fedsim.core import logbook


def test_messages_go_to_the_file_and_not_to_the_terminal(tmp_path, capsys):
    with logbook.keep(tmp_path / "run.log"):
        logging.getLogger("algorithms.power").warning("2 prototypes skipped")
        logging.getLogger("fedsim.point.run").info("client 0: {0,1}")
        logging.getLogger("fedsim.point.run").debug("not this")
        logging.getLogger("elsewhere").info("nor this")
    assert (tmp_path / "run.log").read_text() == (
        "WARNING algorithms.power: 2 prototypes skipped\nINFO fedsim.point.run: client 0: {0,1}\n"
    )
    assert capsys.readouterr() == ("", "")


def test_the_loggers_are_left_as_they_were(tmp_path):
    loggers = [logging.getLogger(name) for name in logbook.SOURCES]
    before = [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    with logbook.keep(tmp_path / "run.log"):
        assert [len(logger.handlers) for logger in loggers] == [len(handlers) + 1 for *_, handlers in before]
    assert [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers] == before
