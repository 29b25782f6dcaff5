"""The whole API from its own description: whatever fits it is answered, whatever does not refused."""

import pytest
from hypothesis import HealthCheck, Phase, settings

schemathesis = pytest.importorskip("schemathesis")


@pytest.fixture(scope="module")
def described(server):
    """The API's description, as a client would load it."""
    loaded = schemathesis.openapi.from_url(f"{server.url}openapi.json")
    loaded.config.generation.update(modes=list(schemathesis.GenerationMode))
    return loaded


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_keep_to_the_description(case):
    case.call_and_validate()
