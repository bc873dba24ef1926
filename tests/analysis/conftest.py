"""What tests of reports share."""

import pytest

from analysis import material


@pytest.fixture
def undrawn(monkeypatch):
    """Reports name their figures and draw none, which is what takes them most of their time."""

    def name_only(spec, path):
        path.with_suffix(".svg").write_text("<svg></svg>")
        return "<svg></svg>"

    monkeypatch.setattr(material, "draw", name_only)
