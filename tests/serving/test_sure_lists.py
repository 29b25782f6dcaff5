"""Probabilities, precision and named lists over HTTP."""

import surerec as sr


def test_probabilities_precision_and_lists_over_http(start, tmp_path):
    films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=9000, seed=1)
    counts, some = sr.count_precedence(films), films.items.ids.to_list()[::2]
    model = sr.PopulationConformal("CM12").fit(counts, lists={"some": some})
    precise = sr.PopulationConformal("CM12", promise="precision").fit(counts)
    sr.recommenders.save_all(tmp_path / "model", {"sets": model, "lists": precise})
    with start(tmp_path / "model").client() as client:

        def ask(path="v1/recommendations", **body):
            answer = client.post(path, json={"user": 7, **body})
            return answer.status_code, answer.json()

        card = {each["name"]: each for each in client.get("v1/model").json()["recommenders"]}
        assert card["sets"]["lists"] == ["some"]
        assert card["lists"]["promises_precision"]

        status, told = ask(confidence=0.8, item_list="some")
        picks = model.recommend(7, confidence=0.8, item_list="some")
        assert status == 200
        assert [row["item_id"] for row in told["items"]] == picks.items
        said = [row["probability"] for row in told["items"]]
        assert said == picks.to_frame()["probability"].to_list()
        assert told["about_probability"] == picks.about_probability

        status, told = ask(recommender="lists", precision=0.2)
        picks = precise.recommend(7, precision=0.2)
        assert [row["item_id"] for row in told["items"]] == picks.items
        assert (told["precision"], told["guarantee"]) == (0.2, picks.guarantee.to_dict())
        assert all(row["entry_confidence"] is None for row in told["items"])
        assert told == {**picks.to_dict(), "recommender": "lists"}

        _, told = ask("v1/entry-confidences", recommender="lists", limit=5)
        assert (told["gives_confidence"], told["promises_precision"]) == (False, True)
        assert all(0 <= p <= 1 for p in told["items"]["probability"])

        likely = model.recommend(7, confidence=0.8, items=some, min_probability=0.3)
        told = ask(confidence=0.8, items=some, min_probability=0.3)[1]
        assert [row["item_id"] for row in told["items"]] == likely.items

        body = {"users": [7, 9], "k": 3, "item_list": "some", "confidence": 0.8}
        rows = client.post("v1/recommendations/batch", json=body).json()["items"]
        assert {row["item_id"] for row in rows} <= set(some)
        assert all(row["probability"] is not None for row in rows)

        top = model.recommend(7, k=4)
        _, told = ask(k=4)
        assert told == {**top.to_dict(), "recommender": "sets"}
        assert 0 < told["hit_probability"] == told["hit_probabilities"][0]
        left_out = {"k": 4, "exclude": [top.items[0]]}
        for more in (left_out, {"k": 101}):
            _, told = ask(**more)
            assert (told["hit_probability"], told["expected_hits"]) == (None, None)
            assert told["about_hit_probability"]
        _, told = ask(confidence=0.8)
        assert told["hit_probability"] is None

        for wrong, sentence in (
            ({"precision": 0.2}, "promises miss-rate, not precision"),
            ({"recommender": "lists", "precision": 0.995}, "cannot be promised"),
            ({"recommender": "lists"}, "This recommender promises precision"),
            ({"item_list": "none"}, "There is no list 'none'; there is 'some'."),
            ({"precision": 50}, "precision is 50"),
            ({"items": []}, "items is empty"),
        ):
            status, told = ask(**wrong)
            assert status in (409, 422)
            assert sentence in told["detail"]
