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
        assert all(len(logger.handlers) > len(handlers) for logger, (*_, handlers) in zip(loggers, before, strict=True))
    assert [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers] == before


def test_messages_that_were_collected_are_repeated_as_they_were(tmp_path):
    with logbook.keep(tmp_path / "first.log") as messages:
        logging.getLogger("algorithms.power").warning("%d of 100 %% skipped", 2)
        logging.getLogger("fedsim.learn").info("all well")
    assert [name for name, *_ in messages] == ["algorithms.power", "fedsim.learn"]
    with logbook.keep(tmp_path / "second.log"):
        logbook.repeat(messages)
    assert (tmp_path / "second.log").read_bytes() == (tmp_path / "first.log").read_bytes()
    logging.getLogger("algorithms.power").warning("afterwards")
    assert len(messages) == 2


def test_what_is_set_aside_goes_nowhere_else_and_is_repeated_as_it_was(tmp_path, caplog):
    logger = logging.getLogger("fedsim.data")
    before = (logger.parent.level, logger.parent.propagate, logger.parent.handlers)
    with logbook.set_aside() as messages:  # of level INFO also where no point runs
        logger.info("client %d: labels", 3)
        logger.debug("not this")
    assert (logger.parent.level, logger.parent.propagate, logger.parent.handlers) == before
    assert caplog.records == []
    with logbook.keep(tmp_path / "run.log"):
        with logbook.set_aside() as more:
            logger.warning("set aside")
        logbook.repeat([*messages, *more])
    assert (tmp_path / "run.log").read_text() == (
        "INFO fedsim.data: client 3: labels\nWARNING fedsim.data: set aside\n"
    )
