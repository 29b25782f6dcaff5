"""Made-up data by a text."""

from __future__ import annotations

import pytest

from surerec.cli import _options as opt
from surerec.datasets import synthetic, synthetic_of
from surerec.errors import InputError


def test_a_text_makes_what_the_arguments_make() -> None:
    text = "synthetic:n_users=60, n_items=30,n_rows=9_00,drift=0.5,seed=4"
    same = synthetic(60, 30, 900, drift=0.5, seed=4)
    assert synthetic_of(text).to_frame().equals(same.to_frame())
    assert opt.read(text).to_frame().equals(same.to_frame())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("synthetic:drif=1", "no setting 'drif'.*drift"),
        ("synthetic:drift=much", "drift is 'much'; it must be a number"),
        ("synthetic:seed=1,seed=2", "seed is there twice"),
        ("synthetic:n_users=1.5", "n_users"),
    ],
)
def test_what_is_no_setting_is_refused_in_a_sentence(text, says) -> None:
    with pytest.raises(InputError, match=says):
        synthetic_of(text)


def test_how_to_read_a_file_says_nothing_of_what_is_made_up() -> None:
    with pytest.raises(InputError, match="--threshold says how a file is read"):
        opt.read("synthetic:seed=1", threshold=3.0)
