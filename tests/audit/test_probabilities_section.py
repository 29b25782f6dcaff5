"""The audit says whether items are taken as often as is said of them."""

import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit


@pytest.fixture(scope="module")
def found():
    films = sr.datasets.synthetic(n_users=300, n_items=80, n_rows=9000, sequels=0, seed=1)
    return audit(films, n_users=300)


def test_probabilities_are_audited_for_all_and_for_groups(found):
    table = found.probabilities
    assert set(table["by"]) == {"all", "top", "known items", "popularity", "rank"}
    everything = table.row(0, named=True)
    assert abs(everything["said"] - everything["happened"]) < 0.03
    assert everything["log_loss"] < everything["log_loss_by_rank"]
    bins = found.reliability.filter(pl.col("by") == "all")
    assert len(bins) == 15
    assert bins["n"].max() - bins["n"].min() <= 1
    weighted = ((bins["said"] - bins["happened"]).abs() * bins["n"]).sum() / bins["n"].sum()
    assert weighted == pytest.approx(everything["calibration_error"])


def test_the_diagram_is_on_the_page_and_in_the_folder(found, tmp_path):
    page = found.to_html()
    assert "Probabilities of items" in page
    found.write(tmp_path / "audit")
    for name in ("probabilities.png", "probabilities.csv", "reliability.csv", "audit.png"):
        assert (tmp_path / "audit" / name).stat().st_size > 100
