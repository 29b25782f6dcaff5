"""A few of each kind of hostile input, the same ones every time; `make fuzz` tries thousands."""

import pytest

pytest.importorskip("fastapi", reason="serving needs the extra: pip install 'surerec[serve]'")
pytest.importorskip("lightgbm", reason="learning needs the extra: pip install 'surerec[learn]'")

from fuzz import folders, kills, requests

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("kind", "n"), [(folders, 15), (requests, 120), (kills, 2)])
def test_nothing_fails(kind, n):
    tally = kind.run(n, random_state=5)
    assert not tally.failures, tally.examples
    assert tally.tried >= n
