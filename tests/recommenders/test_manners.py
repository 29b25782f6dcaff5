"""scikit-learn manners."""

import pytest

import surerec as sr
from tests.recommenders.small_profiles import read

ROWS = [(user, item, (user * item) % 5) for user in range(1, 7) for item in range(1, 8)]


def answer(model):
    promise = {} if isinstance(model, sr.PrecedenceMining) else {"confidence": 0.6}
    return model.recommend(history=[2, 4, 6], **promise).to_frame()


@pytest.mark.parametrize(
    "make", [sr.PrecedenceMining, sr.TransductiveConformal, sr.InductiveConformal]
)
def test_what_is_learned_ends_in_an_underscore(make):
    fitted = make().fit(read(ROWS))
    learned = {name for name in vars(fitted) if not name.startswith("_")} - set(fitted.get_params())
    assert learned
    assert all(name.endswith("_") for name in learned)


def test_settings_can_be_changed_and_chained():
    model = sr.InductiveConformal(measure="CM3").fit(read(ROWS))
    assert model.set_params(measure="NCM16", train_share=0.7) is model
    assert model.get_params()["measure"] == "NCM16"
    fresh = sr.InductiveConformal(measure="NCM16", train_share=0.7).fit(read(ROWS))
    assert answer(model.fit(read(ROWS))).equals(answer(fresh))
    with pytest.raises((sr.InputError, ValueError), match=r"colour.*measure"):
        model.set_params(colour="red")


def test_impossible_settings_are_refused_and_change_nothing():
    model = sr.InductiveConformal("CM3")
    with pytest.raises(sr.InputError, match="train_share is 7"):
        model.set_params(train_share=7)
    assert model.train_share == 0.5
