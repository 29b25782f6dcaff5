"""A forgotten user is removed from counts, calibration, events and, after a refit, all files."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import surerec as sr
from surerec.errors import InputError, UnknownIdError
from surerec.live import Live

LATE = "2024-05-01T12:00:00Z"


@pytest.fixture(scope="module")
def orders() -> sr.Interactions:
    """Orders whose user ids are texts, which a file can be searched for."""
    films = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=1000, random_state=1)
    return sr.read_interactions(
        films.to_frame().with_columns(pl.format("buyer-{}-of-shop", "user_id").alias("user_id"))
    )


@pytest.mark.parametrize("measure", ["CM12", "learned"])
def test_no_data_of_a_forgotten_user_remain(orders, tmp_path, measure) -> None:
    model = sr.PopulationConformal(measure, n_calibration=30).fit(orders)
    model.add_item_list("stock", orders.items.ids[:20].to_list())
    calibrating = model.calibration_.users.tolist()
    ids = orders.users.ids.to_list()
    gone = [ids[code] for code in (*calibrating[:2], *(set(range(60)) - {*calibrating}))]
    gone = [*gone[:4], "buyer-x-of-shop"]
    kept = ids[calibrating[-1]]
    folder = tmp_path / "shop"
    with Live.create(folder, model, refit=False) as live:
        live.observe([{"user": user, "item": 900, "time": LATE} for user in (*gone, kept)])
        for n, user in enumerate(gone):
            receipt = live.forget(user)
            assert receipt.calibrated is (n < 2)
            assert receipt.n_events == 1
            with pytest.raises(UnknownIdError):
                live.recommend(user, confidence=0.9)
        before = live.recommend(kept, confidence=0.9).items
        assert len(live._state.growing.model.calibration.users) == 28
    with Live(folder, refit=False) as live:
        assert live.recommend(kept, confidence=0.9).items == before
        live.refit()
        assert str(folder / "models" / "000001") not in Path("/proc/self/maps").read_text()
        for file in (each for each in folder.rglob("*") if each.is_file()):
            content = file.read_bytes()
            assert not [user for user in gone if user.encode() in content], file
        assert kept in live._state.growing.profiles.users


def test_a_user_who_calibrates_only_groups_is_removed_from_them(orders, tmp_path) -> None:
    """Groups are drawn from all users, and calibrated at the first request for a group."""
    model = sr.PopulationConformal("CM12", n_calibration=5).fit(orders)
    with Live.create(tmp_path / "shop", model, refit=False) as live:
        live.recommend(group=orders.users.ids[:2].to_list())
        served = live._state.growing.model
        members = {*served.groups.by_size[2].outcomes.users.tolist()}
        only = sorted(members - {*served.calibration.users.users.tolist()})
        assert live.forget(orders.users[only[0]]).calibrated
        assert live._state.growing.model.groups.sizes == ()
        assert len(live._state.growing.model.calibration.users) == 5


def test_no_data_of_a_forgotten_user_remain_in_postgresql(orders, tmp_path, postgres) -> None:
    psycopg = pytest.importorskip("psycopg")
    model, address = sr.PopulationConformal("CM12").fit(orders), postgres()
    gone = orders.users[int(model.calibration_.users[0])]
    with Live.create(tmp_path / "shop", model, store=address, refit=False) as live:
        live.observe({"user": gone, "item": 900, "time": LATE})
        live.forget(gone)
        live.refit()
    with psycopg.connect(address) as connection:
        for table in ("surerec_events", "surerec_meta", "surerec_user_days"):
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608  # ours
            assert gone not in str(rows)


def test_all_users_may_be_forgotten(orders, tmp_path) -> None:
    model = sr.PopulationConformal("CM12").fit(orders)
    with Live.create(tmp_path / "shop", model, refit=False) as live:
        for user in orders.users.ids:
            live.forget(user)
        assert live.status().n_events == 0
        live.observe({"user": "buyer-new", "item": 5, "time": LATE})
        assert live.recommend("buyer-new", confidence=0.9) is not None


def test_no_message_names_a_forgotten_user(cli, orders, tmp_path) -> None:
    shop, gone = tmp_path / "shop", orders.users[0]
    Live.create(shop, sr.PopulationConformal("CM12").fit(orders), refit=False).close()

    def messages(live: Live) -> str:
        users = live._state.growing.profiles.users
        with pytest.raises(UnknownIdError) as one:
            live.recommend(f"{gone}x", confidence=0.9)
        with pytest.raises(InputError, match="ids of the data are text such as") as many:
            users.select(["x", "y", "z"])
        return f"{one.value} {many.value}"

    with Live(shop, refit=False) as live:
        assert repr(gone) in messages(live)  # while the user is known
        live.forget(gone)
        assert repr(gone) not in messages(live)
    with Live(shop, refit=False) as live:
        assert repr(gone) not in messages(live)
        live.observe({"user": gone, "item": 5, "time": LATE})  # a returning user is known again
        assert repr(gone) in messages(live)
        live.forget(gone)
    ran = cli("live", "forget", shop, f"{gone}x")
    ran.assert_refused("Did you mean")
    assert repr(gone) not in ran.err


def test_a_model_is_served_without_its_first_user(orders, tmp_path) -> None:
    pytest.importorskip("fastapi")
    from surerec.serving._models import load  # noqa: PLC0415  # of an extra

    model = sr.PopulationConformal("CM12").fit(orders)
    with Live.create(tmp_path / "shop", model, refit=False) as live:
        live.forget(orders.users[0])
    served = load(tmp_path / "shop")
    try:
        assert repr(orders.users[0]) not in str(served.card)
        assert (
            "at most 10% of evaluated events lie outside"
            in served.card["recommenders"][0]["guarantee"]["sentence"]
        )
    finally:
        served.close()
