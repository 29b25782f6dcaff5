import subprocess
import sys

from surerec.reports import Heading, Paragraph, Picture, Strong, Table, to_html, to_markdown
from tests.reports.page import Page


def test_what_people_name_things_is_not_markup():
    table = Table("A | <b>", ("name", "n"), (("x_<y>|z", Strong("1")),))
    page = to_html("<t>", [Heading("A & B"), Paragraph("<script>"), table], {})
    assert "<script>" not in page
    assert "<b>1</b>" in page
    Page(page)
    text = to_markdown("t", [table])
    assert r"| x\_\<y\>\|z | **1** |" in text


def test_a_picture_says_what_it_shows():
    page = to_html("t", [Picture("p", "What it shows.")], {"p": b"<svg/>"})
    assert 'alt="What it shows."' in page


def test_matplotlib_is_imported_only_when_a_figure_is_drawn():
    code = (
        "import sys, surerec, surerec.audit, surerec.cli, surerec.experiments, surerec.reports; "
        "sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)  # noqa: S603
