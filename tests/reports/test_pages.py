import subprocess
import sys

from surerec.reports import Heading, Paragraph, Picture, Strong, Table, to_html
from tests.reports.page import Page


def test_texts_are_escaped():
    table = Table("A | <b>", ("name", "n"), (("x_<y>|z", Strong("1")),))
    page = to_html("<t>", [Heading("A & B"), Paragraph("<script>"), table], {})
    assert "<script>" not in page
    assert "<b>1</b>" in page
    Page(page)


def test_a_page_is_self_contained_and_describes_its_figures():
    text = to_html("t", [Heading("A & B"), Picture("p", "What it shows.")], {"p": b"<svg/>"})
    assert 'alt="What it shows."' in text
    page = Page(text)
    assert [link for link in page.links if not link.startswith("data:image/svg+xml;base64,")] == [
        "#a-b"
    ]
    assert {"a-b", "p"} <= page.ids
    assert not any(word in text for word in ("<script", "@import"))
    assert all(word in text for word in ('name="viewport"', "prefers-color-scheme: dark"))


def test_matplotlib_is_imported_only_when_a_figure_is_drawn():
    code = (
        "import sys, surerec, surerec.audit, surerec.cli, surerec.experiments, surerec.reports; "
        "sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)  # noqa: S603
