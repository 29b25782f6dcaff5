"""Groups over HTTP and on the page."""

import re
import shutil

import numpy as np
import pytest

import surerec as sr
from surerec.conformal import MERGERS
from surerec.recommenders import save_all
from surerec.recommenders import GROUP_PROMISES
from tests.serving.serving_server import Server, made_up


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    statistics = sr.count_precedence(made_up())
    over_users = sr.PopulationConformal("CM12").fit(statistics).calibrate_groups([2, 3])
    by_items = sr.InductiveConformal("CM12").fit(statistics)
    ranking = sr.PrecedenceMining().fit(statistics)
    folder = tmp_path_factory.mktemp("groups") / "films"
    save_all(folder, {"over-users": over_users, "icrs12": by_items, "ranking": ranking})
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return sr.load(folder, "over-users")


@pytest.fixture(scope="module")
def people(model):
    """Users of whom enough is known, and not too much."""
    data = model.statistics_.interactions
    lengths = np.diff(data.offsets)
    return [data.users[int(u)] for u in np.flatnonzero((lengths >= 10) & (lengths < 30))]


@pytest.fixture(scope="module")
def server(folder, tmp_path_factory):
    running = Server(folder, tmp_path_factory.mktemp("log") / "log", "--workers", "1")
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.text


@pytest.fixture(scope="module")
def client(server):
    with server.client() as client:
        yield client


def test_a_set_is_the_librarys(client, model, people):
    history = model.items_.ids[5:12].to_list()
    members = [{"user": people[0]}, {"user": people[1]}, {"history": history, "name": "Eve"}]
    answer = client.post("/v1/recommendations", json={"group": members, "confidence": 0.8}).json()
    group = {people[0]: people[0], people[1]: people[1], "Eve": history}
    picks = model.recommend(group=group, confidence=0.8)
    assert [row["item_id"] for row in answer["items"]] == picks.items
    assert answer["guarantee"] == picks.guarantee.to_dict()
    assert [m["member"] for m in answer["members"]] == [people[0], people[1], "Eve"]
    assert [m["satisfaction"] for m in answer["members"]] == list(picks.satisfaction)
    assert answer["least_served"] == picks.least_served
    assert answer["items"][2]["member_ranks"] == picks.member_ranks[:, 2].tolist()
    assert answer == picks.to_dict()
    asked = {"group": members, "confidence": 0.8, "limit": 0}
    assert client.post("/v1/recommendations", json=asked).json() == {**answer, "items": []}
    short = client.post("/v1/recommendations", json={"group": members, "k": 3}).json()
    assert short["hit_probability"] is None
    assert "Groups have no calibrated probability of a hit" in short["about_hit_probability"]


def test_one_answer_for_every_confidence(client, model, people):
    members = [{"user": people[0]}, {"history": model.items_.ids[5:12].to_list()}]
    asked = {"group": members, "together": "all", "limit": 20}
    answer = client.post("/v1/entry-confidences", json=asked).json()
    assert answer["members"] == [people[0], "member 2"]
    assert len(answer["items"]["member_values"]) == 20
    assert sorted(answer["history"]["item_id"]) == sorted(members[1]["history"])
    group = [people[0], members[1]["history"]]
    for confidence in (0.6, 0.85):
        picks = model.recommend(group=group, together="all", confidence=confidence)
        inside = np.array(answer["curve"]["entry_confidence"]) < confidence - 1e-9
        sizes = [0, *answer["curve"]["size"]]
        assert sizes[int(inside.sum())] == len(picks)
        n = min(20, len(picks))
        assert answer["items"]["item_id"][:n] == picks.items[:n]


def test_reasons_by_member(client, model, people):
    item = model.recommend(group=people[:2], confidence=0.8).items[0]
    members = [{"user": user} for user in people[:2]]
    answer = client.post(
        "/v1/explanations", json={"group": members, "item": item, "limit": 3}
    ).json()
    why = model.explain_group(people[:2], item=item)
    assert [each["rank"] for each in answer["members"]] == list(why.ranks)
    assert answer == why.to_dict(3)


def test_merged_p_values(client, people):
    members = [{"user": user} for user in people[:5]]  # any size
    asked = {"group": members, "recommender": "icrs12", "together": "maximum", "confidence": 0.6}
    answer = client.post("/v1/recommendations", json=asked).json()
    assert "someone of this group" in answer["guarantee"]["sentence"]
    assert answer["items"][0]["p_value"] > 0.4


def test_the_card_says_what_groups_can_be_promised(client):
    over_users, by_items, ranking = client.get("/v1/model").json()["recommenders"]
    assert over_users["group_sizes"] == [2, 3]
    assert "worst" in over_users["together"]
    assert by_items["together"][0] == "mean"
    assert ranking["together"] == []


@pytest.mark.parametrize(
    ("members", "more", "status", "said"),
    [
        ([0, 0], {}, 409, "is in the group twice"),
        ([0, 99_999], {}, 404, "There is no such user."),
        ([0, 99_999, 99_998], {}, 404, "There are no users"),
        ([0, 1, 2, 3], {}, 409, "calibrated for groups of 2, 3"),
        ([0, 1, 2], {"together": "all"}, 409, "up to 2"),
        ([0, 1], {"together": "some"}, 422, "together"),
        ([0, 1], {"together": "mean"}, 409, "does not promise mean: any, most"),
        ([0, 1], {"recommender": "ranking"}, 409, "no sets for groups"),
        ([0, 1], {"recommender": "none"}, 404, "no such recommender"),
        ([0], {}, 422, "group"),
    ],
)
def test_refusals_are_one_sentence(client, people, members, more, status, said):
    who = [{"user": people[place] if place < 1000 else place} for place in members]
    answer = client.post("/v1/recommendations", json={"group": who, **more})
    assert answer.status_code == status
    assert said in answer.json()["detail"]


def test_a_member_is_a_user_or_a_history(client, people):
    both = {"user": people[0], "history": [1]}
    for member in (both, {}, {"name": "Eve"}):
        asked = {"group": [{"user": people[1]}, member]}
        answer = client.post("/v1/recommendations", json={**asked, "limit": 0})
        assert answer.status_code == 422
        assert "A member is a user, or a new user with a history" in answer.json()["detail"]


def test_the_promises_of_the_description_are_those_there_are(client):
    described = client.get("/openapi.json").json()["components"]["schemas"]
    named = described["RecommendRequest"]["properties"]["together"]["anyOf"][0]["enum"]
    assert named == [*GROUP_PROMISES, *MERGERS]


def test_the_page_with_a_group_of_three(server, model, people):
    playwright = pytest.importorskip("playwright.sync_api", reason="the page needs playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium to open the page in")
    expect, errors = playwright.expect, []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.goto(server.url)
        page.locator("#mode-group-label").click()
        for user in people[:2]:
            page.fill("#member-user", str(user))
            page.click("#add-user button")
        page.click("#add-new")
        taken = model.items_.ids[5:10].to_list()
        for item in taken:
            title = model.statistics_.interactions.title(model.items_.code(item))
            page.fill("#search", title)
            option = page.locator("#found li span:first-child").get_by_text(title, exact=True)
            option.dispatch_event("pointerdown")
            expect(page.locator("#members li").nth(2)).to_contain_text(title)
        picks = model.recommend(group=[*people[:2], taken], confidence=0.9)
        expect(page.locator("#size")).to_have_text(f"{len(picks):,}")
        expect(page.locator("#guarantee")).to_have_text(str(picks.guarantee))
        expect(page.locator("#served-list li")).to_have_count(3)
        least = page.locator("#served-list .least")
        expect(least).to_contain_text(str(picks.least_served))
        titles = page.locator("#items .title").all_text_contents()
        assert titles == picks.to_frame()["title"].to_list()[:50]
        expect(page.locator("#items > li").first.locator(".worth .bar")).to_have_count(3)
        page.locator(".ask").first.click()
        expect(page.locator(".by-member")).to_have_count(3)
        # The address tells it all, and opens the same again.
        address = page.url
        assert re.search(r"member=user.*member=items", address)
        again = browser.new_page()
        again.goto(address)
        expect(again.locator("#size")).to_have_text(f"{len(picks):,}")
        expect(again.locator("#members li")).to_have_count(3)
        browser.close()
    assert errors == []
