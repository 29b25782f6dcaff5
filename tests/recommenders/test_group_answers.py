import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.errors import NotSupportedError
from surerec.interactions import read_members
from surerec.recommenders import GROUP_GUARANTEE_KINDS, Aggregation
from tests.contracts.support import Careful, popular


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=150, n_rows=6000, random_state=4)


@pytest.fixture(scope="module")
def model(films):
    return sr.PopulationConformal("CM12").fit(films)


@pytest.fixture(scope="module")
def users(films):
    """People of whom enough is known, and not so much that nothing is left."""
    lengths = np.diff(films.offsets)
    return films.users.ids.filter(pl.Series((lengths >= 10) & (lengths <= 40))).to_list()


def test_a_groups_set_has_no_item_of_a_member(model, films, users):
    group = users[3:6]
    found = model.recommend(group=group, confidence=0.8)
    assert isinstance(found, sr.GroupSet)
    consumed = {item for user in group for item in films.consumed(films.users.code(user))}
    assert not consumed & set(films.items.codes(found.items).tolist())
    assert found.n_candidates == films.n_items - len(consumed)
    assert found.members == tuple(group)
    assert "random groups of 3" in str(found.guarantee)
    assert found.formed == "random groups of 3"
    larger = model.recommend(group=group, confidence=0.9)
    assert set(found.items) <= set(larger.items)
    assert len(found) < len(larger) <= found.n_candidates


def test_users_histories_and_names_go_together(model, films, users):
    items = films.items.ids[:7].to_list()
    frame = pl.DataFrame({"item_id": films.items.ids[20:27]})
    found = model.recommend(group=[users[5], items, frame], confidence=0.8)
    assert found.members == (users[5], "member 2", "member 3")
    named = model.recommend(group={"ann": users[5], "bob": items, "eve": frame}, confidence=0.8)
    assert (named.items, named.members) == (found.items, ("ann", "bob", "eve"))
    new = model.recommend(group=[items, [*items, "no such film"]], confidence=0.8)
    assert new.ignored == ("no such film",)


def test_a_group_is_served_without_its_own_futures(model, films):
    """A calibration group that holds a member does not count."""
    model.calibrate_groups(2)
    (calibration,) = (each for each in model.group_calibrations_ if each.size == 2)
    outcomes = calibration.outcomes
    members = outcomes.users[:2]
    strangers = model.recommend(group=[[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], confidence=0.8)
    own = model.recommend(group=films.users.ids.gather(members).to_list(), confidence=0.8)
    n = len(outcomes.curve(GROUP_GUARANTEE_KINDS["any"])[1])
    assert f"the {n:,} calibration groups" in str(strangers.guarantee)
    assert f"the {n - 1:,} calibration groups" in str(own.guarantee)
    across = outcomes.users[[0, 2]]  # of two groups
    both = model.recommend(group=films.users.ids.gather(across).to_list(), confidence=0.8)
    assert f"the {n - 2:,} calibration groups" in str(both.guarantee)


def test_satisfaction_is_the_share_of_a_members_own_best_items(model, films, users):
    group = users[10:13]
    found, (assessed, _, _) = (
        model.recommend(group=group, confidence=0.9),
        model.model_.assess_group(group),
    )
    shown = films.items.codes(found.items)
    ranks = assessed.member_ranks[:, np.searchsorted(assessed.candidates, shown)]
    np.testing.assert_array_equal(found.member_ranks, ranks)
    for ranked, satisfied in zip(assessed.member_ranks, found.satisfaction, strict=True):
        best = assessed.candidates[np.argsort(ranked)][: len(found)]
        assert satisfied == pytest.approx(np.isin(best, shown).mean())
    assert found.least_served == group[int(np.argmin(found.satisfaction))]


def test_frames_by_member(model, users):
    found = model.recommend(group=users[:3], confidence=0.8, k=4)
    frame = found.by_member()
    assert frame.columns == ["item_id", "member", "rank", "value"]
    assert len(frame) == 12
    assert frame["value"].is_between(0, 1).all()
    assert found.guarantee.full is not None
    assert repr(found).startswith("GroupSet(4 of")
    top = model.recommend(group=users[:3], k=5)
    assert (len(top), top.confidence, top.hit_probability) == (5, None, None)
    assert not top.guarantee.holds
    assert "Groups have no calibrated probability" in top.about_hit_probability


def test_group_explanations_leave_all_members_out(model, films, users):
    group = users[:3]
    item = model.recommend(group=group, confidence=0.8).items[0]
    why = model.explain_group(group, item=item)
    assert (why.rank, why.item, why.members) == (1, item, tuple(group))
    others = sr.count_precedence(films.without_users(films.users.codes(group)))
    row = why.reasons[1].to_frame().row(0, named=True)
    earlier, code = films.items.code(row["item_id"]), films.items.code(item)
    assert row["support"] == others.support[earlier]
    assert row["later"] == others.followers(earlier)[code]
    assert str(why).count("\n") == 3
    consumed = films.items[int(films.consumed(films.users.code(group[1]))[0])]
    with pytest.raises(sr.InputError, match="has already consumed"):
        model.explain_group(group, item=consumed)


def test_unsupported_models_are_refused(films, users):
    precise = sr.PopulationConformal(guarantee="precision").fit(films)
    with pytest.raises(NotSupportedError, match="no precision guarantee for groups"):
        precise.calibrate_groups(2)
    with pytest.raises(NotSupportedError, match="has no sets for groups"):
        sr.PrecedenceMining().fit(films).recommend(group=users[:2])

    fitted = sr.PopulationConformal(popular(sr.count_precedence(films))).fit(films)
    with pytest.raises(NotSupportedError, match="cannot leave their members out"):
        fitted.recommend(group=users[:2], confidence=0.8)
    assert fitted.model_.offers_group_guarantee() == ()
    with pytest.raises(NotSupportedError, match="one user at a "):
        sr.PopulationConformal(Careful).fit(films).recommend(group=users[:2], confidence=0.8)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"group": []}, "empty"),
        ({"group": [5]}, "group has one member"),
        ({"group": [5, 7, 5]}, "User 5 is in the group twice"),
        ({"group": [5, 999]}, "There is no user 999"),
        ({"group": [5, []]}, "The history of member 2 is empty"),
        ({"group": {"ann": 5, "bob": ["x"]}}, "No item in the history of bob is in the data"),
        ({"group": [5, pl.DataFrame({"film": [1]})]}, "column 'item_id'"),
        ({"group": "DE"}, "for a segment pass segment="),
        ({"group": [5, 7], "user": 5}, "Pass all members"),
        ({"group": [5, 7], "group_guarantee": "some"}, "choose one of any, most"),
        ({"user": 5, "group_guarantee": "any"}, "group="),
        ({"group": [5, 7, 9], "group_guarantee": "all"}, "up to 2, and this one has 3"),
        ({"group": list(range(1, 10))}, "9 members"),
        ({"group": [5, 7], "min_probability": 0.1}, "no probabilities"),
    ],
)
def test_invalid_groups(model, asked, said):
    with pytest.raises(sr.InputError, match=said):
        model.recommend(**asked, confidence=0.8)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sizes": 9}, "size is 9"),
        ({"sizes": 2, "formed": "alike"}, "similar"),
        ({"sizes": 2, "aggregation": "borda"}, "least-misery"),
        ({"groups": {"a": [5, 7], "b": [7, 9]}}, "in two groups, 'a' and 'b'"),
        ({"groups": {"a": [5]}}, "two members or more"),
        ({"groups": {"a": "ann"}}, "must be a list"),
    ],
)
def test_groups_that_cannot_calibrate_are_refused(model, asked, said):
    with pytest.raises(sr.InputError, match=said):
        model.calibrate_groups(**asked)


def test_too_few_groups_and_too_little_known_say_so(model, films, users):
    found = model.recommend(group=users[:2], confidence=0.999)
    assert found.everything_qualifies
    assert "needs at least 999 calibration groups" in str(found.guarantee)
    short = model.recommend(group=[users[0], films.items.ids[:2].to_list()], confidence=0.8)
    assert str(short.guarantee).startswith(
        "No guarantee: the history of member 2 has fewer than 5 items"
    )


def test_given_groups_of_any_size(films, users):
    model = sr.PopulationConformal("CM12").fit(films)
    sizes = [2 + n % 9 for n in range(20)]
    ends = np.cumsum([0, *sizes])
    given = {f"g{n}": users[ends[n] : ends[n] + size] for n, size in enumerate(sizes)}
    rows = [(user, name) for name, members in given.items() for user in members]
    frame = pl.DataFrame(rows, schema=["user_id", "group"], orient="row")
    assert read_members(frame) == given
    model.calibrate_groups(groups=frame)
    found = model.recommend(group=users[-9:], confidence=0.7, group_guarantee="most")
    assert "groups like the given ones, of up to 10" in str(found.guarantee)
    with pytest.raises(NotSupportedError, match="11 members, but the largest"):
        model.recommend(group=users[-11:], confidence=0.7)
    short = films.users.ids.filter(pl.Series(np.diff(films.offsets) < 5))[0]
    with pytest.warns(sr.LeftOutWarning, match="1 of the 2 given groups do not calibrate"):
        model.calibrate_groups(groups={"a": users[:3], "b": [users[5], short]})
    with pytest.raises(sr.InputError, match="No given group can calibrate"):
        model.calibrate_groups(groups={"b": [users[5], short]})


def test_saved_and_loaded(films, users, tmp_path):
    model = sr.PopulationConformal("CM12").fit(films)
    model.calibrate_groups([2, 3], formed="similar", aggregation="least-misery")
    model.save(tmp_path / "model")
    back = sr.load(tmp_path / "model")
    assert back.model_.groups.sizes == (2, 3)
    for group in (users[:2], users[4:7]):
        one, other = (m.recommend(group=group, confidence=0.8) for m in (model, back))
        assert (one.items, one.guarantee) == (other.items, other.guarantee)
        assert "similar groups of" in str(other.guarantee)
    assert model.fit(films).model_.groups.sizes == ()
    model.calibrate_groups(groups={"a": users[:3], "b": users[3:5]})
    model.save(tmp_path / "given")
    assert sr.load(tmp_path / "given").model_.groups.sizes == (2, 3)

    mine = Aggregation("mine", "what the first member says", lambda values: values[0])
    model.fit(films).calibrate_groups(2, aggregation=mine)
    with pytest.raises(sr.InputError, match="custom aggregation 'mine' cannot be saved"):
        model.save(tmp_path / "mine")


@pytest.mark.parametrize("measure", ["als", "learned"])
def test_folds(films, users, measure):
    """Members of one fold are covered by a guarantee, members of several are not."""
    model = sr.PopulationConformal(measure, n_calibration=60).fit(films)
    folds = model.scorer_.fold_of(np.arange(films.n_users))
    enough = np.isin(np.arange(films.n_users), films.users.codes(users))
    first, second = (np.flatnonzero((folds == fold) & enough)[:2] for fold in np.unique(folds)[:2])
    names = films.users.ids
    model.calibrate_groups(2)
    for group in model.group_calibrations_[0].outcomes.users.reshape(-1, 2):
        assert folds[group[0]] == folds[group[1]]
    same = model.recommend(group=names.gather(first).to_list(), confidence=0.7)
    assert str(same.guarantee).startswith(
        "Recall of at least 70% on average over random groups of 2"
    )
    mixed = names.gather([int(first[0]), int(second[0])]).to_list()
    across = model.recommend(group=mixed, confidence=0.7)
    assert str(across.guarantee).startswith(f"No guarantee: {measure} was trained in folds")
    new = model.recommend(group=[mixed[0], films.items.ids[:6].to_list()], confidence=0.7)
    assert str(new.guarantee).startswith(
        "Recall of at least 70% on average over random groups of 2"
    )
    why = model.explain_group(names.gather(first).to_list(), item=same.items[0])
    assert all(reason.contributions for reason in why.reasons)


def test_merged_p_values(films, users):
    model = sr.InductiveConformal("CM12").fit(films)
    group = users[:3]
    codes = films.users.codes(group)
    found = {
        rule: model.recommend(group=group, confidence=0.5, group_guarantee=rule)
        for rule in ("mean", "geometric", "harmonic", "bonferroni", "maximum")
    }
    others = sr.InductiveConformal("CM12").fit(films.without_users(codes))
    histories = [films.items.ids.gather(films.consumed(int(code))).to_list() for code in codes]
    everything = model.recommend(group=group, confidence=0.999)
    p_values = []
    for history in histories:
        frame = others.p_values(history=history, items=everything.items)
        p_values.append(frame["p_value"].to_numpy())
    p_values = np.array(p_values)
    np.testing.assert_allclose(
        everything.to_frame()["p_value"], np.minimum(2 * p_values.mean(axis=0), 1)
    )
    largest = dict(zip(everything.items, p_values.max(axis=0), strict=True))
    some = {item for item, p in largest.items() if p > 0.5 + 1e-9}
    assert set(found["maximum"].items) == some
    assert "every member of this group" in str(found["mean"].guarantee)
    assert "some member of this group" in str(found["maximum"].guarantee)
    assert all("drift" in str(each.guarantee) for each in found.values())
    assert found["mean"].to_frame()["p_value"].is_sorted(descending=True)
    assert model.explain_group(group, item=found["mean"].items[0]).members == tuple(group)
    few = model.recommend(group=group, confidence=0.999)
    assert few.everything_qualifies == ("every item qualifies" in few.guarantee.reason)
    with pytest.raises(sr.InputError, match="choose one of mean"):
        model.recommend(group=group, confidence=0.7, group_guarantee="any")


def test_many_groups(model, users, tmp_path):
    groups = {"a": users[:2], "b": users[5:8]}
    found = model.recommend_groups(groups, confidence=0.8, k=3)
    assert found["group"].to_list() == ["a"] * 3 + ["b"] * 3
    one = model.recommend(group=users[5:8], confidence=0.8, k=3)
    assert found.filter(pl.col("group") == "b")["item_id"].to_list() == one.items
    assert set(found.filter(pl.col("group") == "b")["least_served"]) == {str(one.least_served)}
    rows = [(user, name) for name, members in groups.items() for user in members]
    path = tmp_path / "groups.csv"
    pl.DataFrame(rows, schema=["user", "group"], orient="row").write_csv(path)
    assert model.recommend_groups(path, confidence=0.8, k=3).equals(found)
    with pytest.raises(sr.InputError, match="Group 'c': group has one member"):
        model.recommend_groups({"c": users[:1]}, confidence=0.8)
    with pytest.raises(sr.InputError, match="groups is empty"):
        model.recommend_groups({}, confidence=0.8)
