from tests.postgres import postgres  # noqa: F401  # a fixture
