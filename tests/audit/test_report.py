import polars as pl
import pytest

import surerec as sr
from surerec.errors import InputError
from tests.reports.page import Page

HOSTILE = "<img src=x onerror=alert(1)>[red]"


def test_the_page_has_the_verdicts_and_is_self_contained(drifted):
    html = drifted.to_html()
    assert drifted.overall.split("%")[0] in html
    assert all(link.startswith(("data:image", "#")) for link in Page(html).links)
    assert all(verdict.name in html for verdict in drifted.verdicts)


def test_the_folder_contains_report_figure_and_tables(drifted, tmp_path):
    drifted.write(tmp_path / "deep" / "audit")
    names = {path.name for path in (tmp_path / "deep" / "audit").iterdir()}
    assert names == {
        "report.html", "audit.png", "audit.svg", "audit.pdf", "coverage.csv", "drift.csv",
        "segments.csv", "windows.csv", "verdicts.csv", "probabilities.csv",
        "group_guarantees.csv", "support.csv",
    }  # fmt: skip
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["audit"]
    again = pl.read_csv(tmp_path / "deep" / "audit" / "coverage.csv")
    assert again["observed"].to_list() == pytest.approx(drifted.coverage["observed"].to_list())


def test_other_files_are_not_overwritten(drifted, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="files that are not an audit"):
        drifted.write(tmp_path, overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        drifted.write(tmp_path / "notes.txt")
    drifted.write(tmp_path / "audit")
    with pytest.raises(InputError, match="contains an audit"):
        drifted.write(tmp_path / "audit")
    drifted.write(tmp_path / "audit", overwrite=True)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with data of hostile names and ids, and a model of them."""
    folder = tmp_path_factory.mktemp("shop")
    films = sr.datasets.synthetic(
        n_users=60, n_items=40, n_rows=60 * 24, length_spread=0, random_state=3
    )
    rows = films.to_frame().with_columns(
        pl.format("<script>{}</script>", "user_id").alias("user_id"),
        pl.format("=cmd|{}<b>", "item_id").alias("item_id"),
    )
    rows.write_csv(folder / f"{HOSTILE}.csv")
    counts = sr.count_precedence(sr.read_interactions(folder / f"{HOSTILE}.csv"))
    sr.InductiveConformal("CM3").fit(counts).save(folder / "model")
    sr.PrecedenceMining().fit(counts).save(folder / "model")
    return folder


def test_hostile_names_are_escaped(shop, cli, monkeypatch):
    monkeypatch.chdir(shop)
    done = cli("audit", f"{HOSTILE}.csv", "--n-users", "40", "--output", "out")
    assert done.code == 0
    assert HOSTILE in done.out.replace("\n", "")
    html = (shop / "out" / "report.html").read_text()
    assert "<img src=x" not in html
    assert "&lt;img src=x" in html
    assert "cmd|" not in (shop / "out" / "coverage.csv").read_text()


def test_a_model_folder_is_audited_recommender_by_recommender(shop, cli, monkeypatch):
    monkeypatch.chdir(shop)
    done = cli("audit", "model", "--n-users", "40", "--output", "both")
    assert done.code == 0
    assert (shop / "both" / "icrs3" / "report.html").exists()
    assert "has no p-values" in done.out
    done = cli("audit", "model", "--recommender", "icrs3", "--n-users", "40")
    assert done.code == 0
    assert "icrs3 on " in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.csv",), "no such file"),
        (("model", "--measure", "CM3"), "--measure applies to data"),
        (("model", "--recommender", "icrs9"), "no recommender 'icrs9'"),
        (("DATA", "--recommender", "icrs3"), "--recommender applies to model folders"),
        (("DATA", "--n-users", "3"), "n_users is 3"),
    ],
)
def test_mistakes_print_one_error_and_exit_with_2(shop, cli, monkeypatch, arguments, message):
    monkeypatch.chdir(shop)
    given = [f"{HOSTILE}.csv" if word == "DATA" else word for word in arguments]
    cli("audit", *given).assert_refused(message)
