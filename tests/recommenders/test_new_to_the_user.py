"""Until repeats are supported, every guarantee and headline says that items are new to the user."""

import pytest

import surerec as sr
from surerec.audit import audit
from surerec.recommenders import make_recommender

NAMES = ("population-cm3", "hit-cm3", "precision-cm3", "icrs3", "crs-max")


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=200, n_items=50, n_rows=5000, sequels=0, seed=1)


@pytest.fixture(scope="module")
def population(films):
    return sr.PopulationConformal("CM3").fit(films)


@pytest.mark.parametrize("name", NAMES)
def test_the_guarantee_of_every_recommender_says_it(films, name):
    model = make_recommender(name).fit(films)
    assert "new to the user" in model.headline()
    asked = {"precision": 0.1} if name.startswith("precision") else {"confidence": 0.7}
    user = films.users[3]
    assert "new to the user" in str(model.recommend(user, **asked).guarantee)
    assert "new to the user" in str(model.guarantee_to_all(model.options(**asked)))


def test_short_lists_item_lists_and_probabilities_say_it(films, population):
    assert (
        "new to the user"
        in population.recommend(history=films.items.ids[:9].to_list(), k=5).about_hit_probability
    )
    population.allow("tonight", films.items.ids[:20].to_list())
    listed = population.recommend(films.users[3], confidence=0.7, item_list="tonight")
    assert "the list 'tonight' in the last 40% of items new to the user" in str(listed.guarantee)
    picks = population.recommend(films.users[3], confidence=0.7)
    assert "new to the user" in picks.about_probability


@pytest.mark.parametrize("together", ["any", "most", "worst", "hit-any"])
def test_guarantees_to_groups_say_it(films, together):
    model = sr.PopulationConformal("CM3").fit(films).calibrate_groups([3])
    picks = model.recommend(group=films.users.ids[:3].to_list(), together=together, confidence=0.7)
    assert "new to every member" in str(picks.guarantee)


def test_merged_p_values_say_it(films):
    model = sr.InductiveConformal("CM3").fit(films)
    picks = model.recommend(group=films.users.ids[:3].to_list(), confidence=0.4)
    assert "new to every member" in str(picks.guarantee)


def test_live_says_it(films, population, tmp_path):
    with sr.Live.create(tmp_path / "live", population) as live:
        assert "Of items new to the user that they consume, with each user and day" in str(
            live.recommend(films.users[3], confidence=0.9).guarantee
        )


def test_every_sentence_of_an_audit_says_it(films):
    found = audit(films, "CM3", n_users=120)
    assert found.overall.startswith("Of items new to the user, ")
    assert found.verdicts
    assert all("of items new to the user" in each.sentence for each in found.verdicts)
