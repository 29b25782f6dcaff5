"""Times of a history, and the moment of a question, over HTTP."""

import numpy as np
import pytest

import surerec as sr
from tests.serving.serving_server import Server, problem


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=260, n_items=60, n_rows=6_000, drift=1.0, seed=8)


@pytest.fixture(scope="module")
def model(films, tmp_path_factory):
    folder = tmp_path_factory.mktemp("times") / "films"
    sr.PopulationConformal("learned").fit(films).calibrate_groups([2]).save(folder)
    return folder


@pytest.fixture(scope="module")
def fitted(model):
    return sr.load(model)


@pytest.fixture(scope="module")
def client(model, tmp_path_factory):
    running = Server(model, tmp_path_factory.mktemp("log") / "log", "--workers", "1")
    with running.client() as client:
        yield client
    assert running.stop() == 0
    assert "Traceback" not in running.text


@pytest.fixture(scope="module")
def history(films):
    return films.items.ids[:8].to_list()


@pytest.fixture(scope="module")
def early(films):
    return int(np.quantile(films.times, 0.2)) // 10**6


def post(client, path, **body):
    answer = client.post(f"v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_times_and_a_moment_are_those_of_python(client, fitted, history, early):
    iso = str(np.datetime64(early, "s"))
    plain = post(client, "recommendations", history=history)
    for given in ({"at": early}, {"at": iso}, {"times": [early] * 8}, {"times": [iso] * 8}):
        told = post(client, "recommendations", history=history, **given)
        expected = fitted.recommend(history=history, confidence=0.9, **given)
        assert [item["item_id"] for item in told["items"]] == expected.items
        assert told["guarantee"] == expected.guarantee.to_dict()
        assert (told["items"], told["guarantee"]) == (plain["items"], plain["guarantee"])


def test_times_sort_a_history(client, history, early):
    turned = history[::-1]
    times = {"times": [early + 7 - place for place in range(8)]}
    plain = post(client, "recommendations", history=history)["items"]
    assert post(client, "recommendations", history=turned, **times)["items"] == plain
    assert post(client, "recommendations", history=turned)["items"] != plain


def test_every_question_takes_times(client, fitted, films, history, early):
    given = {"history": history, "times": [early] * 8}
    item = films.items[40]
    why = post(client, "explanations", **given, item=item)
    assert why["score"] == pytest.approx(fitted.explain(**given, item=item).score)
    told = post(client, "recommendations", **given, k=5)
    top = fitted.recommend(**given, k=5)
    assert told["hit_probability"] == pytest.approx(top.hit_probability)
    told = post(client, "recommendations", **given, limit=0)["guarantee"]
    assert told == fitted.recommend(**given, confidence=0.9).guarantee.to_dict()
    values = post(client, "p-values", **given, items=[item])
    expected = fitted.p_values(**given, items=[item])["entry_confidence"][0]
    assert values["items"][0]["entry_confidence"] == pytest.approx(expected)
    all_items = post(client, "entry-confidences", **given)
    assert all_items["items"]["score"][0] == pytest.approx(
        fitted.recommend(**given, confidence=0.9).to_frame()["score"][0]
    )


def test_members_of_a_group_have_their_times(client, fitted, history, early):
    timed = [{"history": part, "times": [early] * len(part)} for part in (history, history[:5])]
    pairs = [[(item, early) for item in part] for part in (history, history[:5])]
    expected = fitted.recommend(group=pairs, confidence=0.9)
    told = post(client, "recommendations", group=timed)
    assert [each["item_id"] for each in told["items"]] == expected.items
    untimed = [{"history": history}, {"history": history[:5]}]
    again = post(client, "recommendations", group=untimed, at=early)
    assert again["items"] == told["items"]
    told = post(client, "recommendations", group=untimed, limit=0)["guarantee"]
    assert told == expected.guarantee.to_dict()
    for path, more in (("entry-confidences", {}), ("explanations", {"item": expected.items[0]})):
        post(client, path, group=untimed, at=early, **more)


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("recommendations", {"history": [1, 2], "times": [5]}, "times has 1 values and history"),
        ("recommendations", {"history": [1], "times": ["soon"]}, "times[0] is 'soon'; it must be"),
        ("recommendations", {"history": [1, 2], "times": [5, "2024-05-01"]}, "a list of dates, or"),
        ("recommendations", {"history": [1], "times": [None]}, "times[0] is None"),
        ("recommendations", {"history": [1], "times": [-5]}, "times[0] is -5"),
        ("recommendations", {"history": [1], "times": []}, "times is empty"),
        ("recommendations", {"history": [1], "times": [5] * 5001}, "at most 5000 are taken"),
        ("recommendations", {"history": [1], "times": ["9" * 41]}, "times[0] is"),
        ("recommendations", {"history": [1], "at": "soon"}, "at is 'soon'; it must be a date"),
        ("recommendations", {"history": [1], "at": True}, "at is True"),
        ("recommendations", {"history": [1], "times": [9], "at": 5}, "before the last time of"),
        ("recommendations", {"user": 1, "times": [5]}, "times is about a history"),
        ("recommendations", {"user": 1, "at": 5}, "at is about a history"),
        ("recommendations", {"group": [{"user": 1}, {"user": 2}], "at": 5}, "at is about a"),
        (
            "recommendations",
            {"group": [{"user": 1}, {"history": [1, 2], "times": [5]}]},
            "times has 1 values",
        ),
    ],
)
def test_wrong_times_are_refused_in_a_sentence(client, path, body, says):
    assert says in problem(client.post(f"v1/{path}", json=body), 422)


def test_times_are_described(client):
    described = client.get("openapi.json").json()["components"]["schemas"]
    for name in ("RecommendRequest", "PValuesRequest", "ExplanationRequest"):
        fields = described[name]["properties"]
        assert "one for each" in fields["times"]["description"]
        assert "moment" in fields["at"]["description"]
    assert "times" in described["Member"]["properties"]
