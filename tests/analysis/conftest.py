"""What tests of reports share."""

import pytest

from analysis.report import report_context


@pytest.fixture
def undrawn(monkeypatch):
    """Reports name their figures and draw none, which is what takes them most of their time."""

    def name_only(spec, path):
        path.with_suffix(".svg").write_text("<svg></svg>")
        return "<svg></svg>"

    monkeypatch.setattr(report_context, "draw", name_only)
