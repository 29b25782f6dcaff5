import pytest


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On thousands of tiny profiles, starting threads is slower than counting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUREREC_THREADS", "1")
        yield
