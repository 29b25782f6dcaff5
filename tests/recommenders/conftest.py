import pytest


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On thousands of tiny profiles, starting threads would take longer than all the counting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUREREC_THREADS", "1")
        yield
