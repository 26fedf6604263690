"""Files of plots."""

import pytest

pytest.importorskip("matplotlib")

from toolkit.analysis.plots.style import new_plot, save_plot


def test_pdf_has_true_type_fonts(tmp_path):
    fig = new_plot(2.0, 2.0)
    fig.add_subplot().set_xlabel("update")
    save_plot(fig, str(tmp_path / "plot.pdf"))
    written = (tmp_path / "plot.pdf").read_bytes()
    assert b"/CIDFontType2" in written and b"/Type3" not in written
