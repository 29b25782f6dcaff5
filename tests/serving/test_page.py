"""Tests of the web page in a real browser."""

import json
import re
import shutil

import numpy as np
import pytest

import surerec as sr
from surerec.live import SqliteStore, Window
from surerec.serving import KeyFile
from tests.serving.serving_server import ACCENT, NASTY

playwright = pytest.importorskip("playwright.sync_api", reason="the page needs playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium to open the page in: apt-get install chromium"
)
expect = playwright.expect


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        # As root, as in a container, chromium cannot use its sandbox; the page is our own.
        running = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def open_page(browser):
    """Return a function that opens the page; console errors fail the test."""
    contexts, errors = [], []

    def open_one(address, *, allow=(), **how):
        def note(text):
            if not any(each in text for each in allow):
                errors.append(text)

        contexts.append(browser.new_context(**how))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: note(str(error)))
        page.on("console", lambda m: note(m.text) if m.type in {"error", "warning"} else None)
        page.goto(address)
        if "#user" in address:
            page.wait_for_selector("#items li")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture(scope="module")
def at_80(server, known):
    return f"{server.url}#user={known[1]}&confidence=0.8"


def slide(page, percent):
    page.locator("#confidence").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }",
        percent,
    )


def texts(page, selector):
    return page.locator(selector).all_text_contents()


def test_the_set_equals_that_of_the_library_at_every_confidence(open_page, at_80, known):
    model, user = known
    page = open_page(at_80)
    for percent in (80, 50, 72.5, 95, 60):
        slide(page, percent)
        picks = model.recommend(user, confidence=percent / 100)
        expect(page.locator("#size")).to_have_text(f"{len(picks):,}")
        expect(page.locator("#confidence-value")).to_have_text(f"{percent:g}%")
        assert texts(page, "#items .title") == picks.to_frame()["title"].to_list()[:50]
        expect(page.locator("#guarantee")).to_have_text(str(picks.guarantee))
    slide(page, 99)
    shown = texts(page, "#items .number")
    assert shown[0] == "in every set"
    assert all(re.fullmatch(r"in every set|above (\d\d|\d\d\.\d)%", text) for text in shown)
    interactions = model.statistics_.interactions
    codes = interactions.items.codes(model.recommend(user, confidence=0.99).items[:50])
    genres = [text for text in interactions.genres.gather(codes) if text is not None]
    assert texts(page, "#items .genres") == genres
    expect(page.locator("#live")).to_be_hidden()  # not a live model


def test_the_slider_never_waits_for_the_server(open_page, at_80, known):
    page = open_page(at_80)
    expect(page.locator("#curve .main-svg").first).to_be_visible()
    page.route("**/v1/**", lambda _: None)  # from now on no request gets an answer
    slide(page, 66)
    size = len(known[0].recommend(known[1], confidence=0.66))
    assert page.locator("#size").text_content() == f"{size:,}"
    milliseconds = page.evaluate(
        """() => { const slider = document.getElementById("confidence");
        const begin = performance.now();
        for (let at = 50; at <= 99; at += 0.5) {
          slider.value = at; slider.dispatchEvent(new Event("input")); }
        return (performance.now() - begin) / 99; }"""
    )
    assert milliseconds < 16, "a move must fit into a frame"


def test_the_keyboard_suffices_to_build_a_history(open_page, server, known):
    model, _ = known
    page = open_page(server.url)
    page.wait_for_selector(".chip")
    page.locator("#search").focus()
    for words in ("amelie", "onerror", "film 7"):
        page.keyboard.type(words)
        page.wait_for_selector("#found li[aria-selected=true]")
        for key in ("ArrowDown", "ArrowUp", "Enter"):
            page.keyboard.press(key)
        expect(page.locator("#found")).to_be_hidden()
    expect(page.locator("#history-list li")).to_have_count(3)
    shown = texts(page, "#history-list li span")
    assert shown[:2] == [ACCENT, NASTY]
    page.wait_for_selector("#items li")
    assert page.locator("main img").count() == 0  # titles are text and never markup
    assert page.title() == "surerec"
    interactions = model.statistics_.interactions
    history = [interactions.items[interactions.titles.to_list().index(title)] for title in shown]
    slide(page, 50)
    picks = model.recommend(history=history, confidence=0.5)
    expect(page.locator("#size")).to_have_text(f"{len(picks):,}")
    page.get_by_role("button", name=f"Remove {ACCENT}").press("Enter")
    expect(page.locator("#history-list li")).to_have_count(2)
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#items li")).to_have_count(0)


def test_explanations_show_counts_and_recover_from_errors(open_page, at_80, known):
    model, user = known
    page = open_page(at_80, allow=["Failed to load"])
    page.route("**/v1/explanations", lambda route: route.abort())
    button = page.locator(".ask").first
    button.click()
    expect(button).to_have_attribute("aria-expanded", "false")
    page.unroute("**/v1/explanations")
    expect(
        page.locator("#notice")
    ).to_be_hidden()  # the server answers again, and the page restarts
    button.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    page.wait_for_selector(".reasons li")
    why = model.explain(user, item=model.recommend(user, confidence=0.8).items[0]).to_frame()
    row, first = why.row(0, named=True), page.locator(".reasons li").first.text_content()
    assert f"{row['later']:,} of {row['support']:,}" in first
    assert row["title"] in first
    assert page.locator(".reasons .bar").count() == min(6, len(why))
    button.click()
    expect(page.locator(".why").first).to_be_hidden()


def test_on_a_phone_the_set_is_on_the_first_screen(open_page, at_80):
    page = open_page(at_80, viewport={"width": 390, "height": 844})
    assert page.locator("#items li").first.bounding_box()["y"] < 844
    expect(page.locator("#user")).to_be_hidden()
    page.locator("#fold").click()
    expect(page.locator("#user")).to_be_focused()
    page.select_option("#recommender", "icrs3")  # the panel stays open
    page.wait_for_function("location.hash.includes('icrs3')")
    expect(page.locator("#history-list")).to_be_hidden()
    page.locator("#history > summary").click()
    expect(page.locator("#history-list")).to_be_visible()


def test_recommenders_are_labelled_by_their_guarantee_and_compared(
    open_page, at_80, known, model_folder
):
    model, user = known
    page = open_page(at_80)
    label = f"icrs12: {model.model_.calibration.headline(0.8)}"
    expect(page.locator("#recommender option:checked")).to_have_text(label)
    expect(page.locator("#second-card")).to_be_hidden()
    page.select_option("#compare", "icrs3")
    other = sr.load(model_folder, "icrs3")
    for percent in (80, 60):
        slide(page, percent)
        mine, theirs = (each.recommend(user, confidence=percent / 100) for each in (model, other))
        for place, picks in (("#set-head", mine), ("#second-head", theirs)):
            expect(page.locator(f"{place} .big")).to_have_text(f"{len(picks):,}")
            expect(page.locator(f"{place} .guarantee")).to_have_text(str(picks.guarantee))
        both = set(mine.items) & set(theirs.items)
        expect(page.locator("#overlap")).to_have_text(
            f"{len(both)} items in both sets, {len(mine) - len(both)} only in the first, "
            f"{len(theirs) - len(both)} only in the second."
        )
        only = [item for item in theirs.items[:50] if item not in both]
        expect(page.locator("#second-items > li.only")).to_have_count(len(only))
    page.locator("#second-items .ask").first.click()
    page.wait_for_selector("#second-items .reasons li")
    page.wait_for_function("location.hash.includes('compare=icrs3')")
    page.select_option("#compare", "")
    expect(page.locator("#second-card")).to_be_hidden()
    page.select_option("#recommender", "precedence-mining")  # a ranking
    expect(page.locator("#dial")).to_have_class(re.compile("no-guarantee"))
    expect(page.locator("#confidence")).to_be_disabled()
    expect(page.locator("#guarantee")).to_contain_text("No guarantee: this recommender ranks")
    assert page.locator("#items .bar").count() == 0


def test_the_guarantee_is_that_of_the_recommender_that_answered(open_page, at_80):
    page = open_page(f"{at_80}&compare=icrs3")
    page.wait_for_selector("#second-items > li")
    held, sent, holds = [], [], True

    def hold(route):
        return held.append(route) if holds else route.continue_()

    page.on("request", lambda it: sent.append(it.post_data_json) if "recommend" in it.url else 0)
    page.route("**/v1/entry-confidences", hold)
    page.evaluate(  # the guarantee is requested after another recommender is selected
        """() => { const [slider, select] = ["confidence", "recommender"].map((id) =>
          document.getElementById(id));
        slider.value = 60; slider.dispatchEvent(new Event("input"));
        select.value = "precedence-mining"; select.dispatchEvent(new Event("change")); }"""
    )
    page.wait_for_timeout(600)
    holds = False
    for route in held:
        route.continue_()
    expect(page.locator("#set-head")).to_have_class(re.compile("no-guarantee"))
    ranks = [each["recommender"] == "precedence-mining" for each in sent]
    assert len(ranks) > 2
    assert ranks == ["confidence" not in each for each in sent]


def test_equal_titles_are_shown_with_their_ids(open_page, server):
    page = open_page(server.url)

    def twins(route):
        answer = route.fetch().json()
        for item in answer["items"][:2]:
            item["title"] = "Twin"
        route.fulfill(json=answer)

    page.route("**/v1/items?*", twins)
    page.locator("#search").fill("film")
    page.wait_for_selector("#found li")
    shown = texts(page, "#found li > span:first-child > span:first-child")
    assert all(re.fullmatch(r"Twin \(\d+\)", text) for text in shown[:2])
    assert len(set(shown)) == len(shown)


def test_the_address_contains_the_state(open_page, server, at_80):
    page = open_page(at_80)
    slide(page, 70)
    page.select_option("#recommender", "icrs3")
    page.wait_for_function("location.hash.includes('icrs3') && location.hash.includes('0.7')")
    expect(page.locator("#guarantee")).to_contain_text("30%")
    other = open_page(page.url)
    assert texts(other, "#items .title") == texts(page, "#items .title")
    assert other.locator("#confidence-value").text_content() == "70%"
    assert other.locator("#recommender").input_value() == "icrs3"
    other.evaluate("location.hash = 'item=1&item=2&item=nowhere&confidence=0.6'")
    expect(other.locator("#history-list li")).to_have_count(3)
    expect(other.locator("#ignored")).to_contain_text("nowhere")
    # The items of a malformed link are unknown: the response is 404, and the page still works.
    page = open_page(f"{server.url}#member=items:%25&member=items:%25zz,50", allow=["404"])
    expect(page.locator("#recommender option").first).to_be_attached()
    page.evaluate(f"location.hash = '{at_80.partition('#')[2]}'")
    page.wait_for_selector("#items li")


def test_input_errors_are_shown_at_the_field(open_page, server):
    page = open_page(server.url, allow=["404"])
    page.get_by_role("radio", name="User id").check()
    for typed, message in (("nobody", "There is no such user."), ("", "The user id is empty.")):
        page.locator("#user").fill(typed)
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#user-error")).to_contain_text(message)
        expect(page.locator("#user")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#items li")).to_have_count(0)


def test_the_page_asks_for_a_key_and_recovers_from_a_restart(
    open_page, start, model_folder, tmp_path, known
):
    keys = KeyFile(tmp_path / "keys.json")
    key, options = keys.create("visitor"), ("--workers", "1", "--keys", str(keys.path))
    first = start(model_folder, *options)
    allowed = ["401", "Failed to load", "ERR_CONNECTION"]
    page = open_page(first.url, allow=allowed)
    expect(page.locator("#key-dialog")).to_be_visible()
    page.locator("#key-value").fill(key)
    page.get_by_role("button", name="Use key").click()
    page.evaluate(f"location.hash = 'user={known[1]}'")
    page.wait_for_selector("#items li")
    assert key not in page.url
    assert page.evaluate("JSON.stringify({...localStorage})") == "{}"
    first.stop()
    page.select_option("#recommender", "icrs3")
    expect(page.locator("#notice")).to_contain_text("The server does not answer")
    start(model_folder, *options, "--port", re.search(r":(\d+)/", first.url)[1])
    expect(page.locator("#notice")).to_be_hidden(timeout=20_000)
    expect(page.locator("#recommender")).to_have_value("icrs3")
    page.wait_for_selector("#items li")


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (768, "dark"), (1440, "light")])
def test_the_page_fits_every_screen_with_enough_contrast(open_page, at_80, width, scheme):
    how = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    page = open_page(f"{at_80}&compare=icrs3", **how)
    page.wait_for_selector("#second-items li")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []


# Text with a contrast below the 4.5 : 1 of WCAG.
CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const over = (top, under) => {
    const a = top[3] ?? 1;
    return [0, 1, 2].map((i) => a * top[i] + (1 - a) * under[i]);
  };
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      layers.push(parse(getComputedStyle(e).backgroundColor));
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const light = (rgb) => rgb
    .map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const bad = [];
  const kinds = "p, li, span, h1, h2, h3, label, button, dt, dd, a, output, strong";
  for (const element of document.querySelectorAll(kinds)) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest(".skip, .unseen, #curve")) continue;
    const behind = ground(element);
    const [x, y] = [light(over(parse(getComputedStyle(element).color), behind)), light(behind)];
    const ratio = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    if (ratio < 4.5) bad.push(`${element.id || element.className}: ${ratio.toFixed(2)}`);
  }
  return bad;
}"""


def test_controls_have_accessible_names_and_the_curve_is_clickable(open_page, at_80):
    page = open_page(at_80)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, a[href], [role=img]")]
        .filter((e) => e.checkVisibility())
        .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
        .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    value = page.locator("#confidence").get_attribute("aria-valuetext")
    assert re.fullmatch(r"80%, [\d,]+ of [\d,]+ items", value)
    expect(page.locator("#curve")).to_have_attribute("aria-label", re.compile("A curve from"))
    page.locator("#confidence").press("ArrowRight")
    expect(page.locator("#confidence-value")).to_have_text("80.5%")
    page.wait_for_selector("#curve .draglayer .drag")
    box = page.locator("#curve .draglayer .drag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.9)
    page.wait_for_selector("#curve .hoverlayer .hovertext")
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#confidence-value")).not_to_have_text("80.5%")


def test_the_local_threshold_equals_that_of_the_library(open_page, server):
    """Compare the function of the page with the library."""
    page = open_page(server.url)
    confidences = [c / 1000 for c in range(500, 991, 5)]
    for levels in (2, 3, 7, 10, 11, 20, 101):
        entries = [(levels - count) / levels for count in range(levels, 0, -1)]
        script = f"""async () => {{
          const {{ isIn }} = await import("./static/threshold.js");
          const entries = {json.dumps(entries)};
          return {json.dumps(confidences)}.map((c) => entries.filter((e) => isIn(e, c)).length);
        }}"""
        counts = list(range(1, levels + 1))
        expected = [int(sr.conformal.in_set(counts, levels, 1 - c).sum()) for c in confidences]
        assert page.evaluate(script) == expected


def test_the_reference_describes_every_operation(open_page, server):
    page = open_page(f"{server.url}docs")
    page.wait_for_selector("details")
    assert "/v1/recommendations" in texts(page, "summary code")
    page.locator("summary").first.click()
    assert "curl" in page.locator("pre").first.text_content()


def test_static_files_are_cached_by_etag(client):
    first = client.get("static/plotly.min.js")
    assert first.headers["content-type"].startswith("text/javascript")
    assert len(first.content) > 1_000_000
    again = client.get("static/plotly.min.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in ("static/..%2f_keys.py", "static/../_keys.py", "static/_keys.py", "static/"):
        assert client.get(path).status_code == 404


def test_a_live_model_shows_nominal_and_observed_coverage(open_page, start, shop):
    store = SqliteStore(shop / "events.sqlite")
    with store.writing() as transaction:  # as after 4,000 evaluated events
        for number, missed in enumerate((200, 203)):
            window = Window(0, 0, 2000, [missed, 400, 600], [missed + 90, 450, 700])
            transaction.put(f"window {number:09d}", window)
        transaction.put("alert 000000000", {"at": "2024-05-01T12:00", "message": NASTY})
    store.close()
    server = start(shop, "--workers", "1")
    hint = "No event has been evaluated yet. Fitted on 20"
    expect(open_page(server.url).locator("#live-hint")).to_contain_text(hint)
    with server.client() as client:
        best = client.post("v1/recommendations", json={"user": 7, "confidence": 0.9}).json()
        item = best["items"][0]["item_id"]
        sent = {"events": [{"user": 7, "item": item, "time": 1_700_000_000}]}
        assert client.post("v1/events", json=sent).json()["evaluated"] == 1
    page = open_page(server.url)
    expect(page.locator("#live-hint")).to_contain_text("over 1 user days, each counted once")
    expect(page.locator("#live-facts")).to_contain_text("Nominal 90%100%")
    expect(page.locator("#live-lines svg")).to_have_attribute(
        "aria-label", re.compile("90% nominal; observed by window: 90%, 89.8%")
    )
    expect(page.locator("#live-alerts li")).to_contain_text(NASTY)


def test_a_group_of_three(open_page, start, films):
    model, data = films.models["sets"], films.data
    lengths = np.diff(data.offsets)
    users = [data.users[int(u)] for u in np.flatnonzero((lengths >= 10) & (lengths < 30))[:2]]
    page = open_page(start(films.folder, "--workers", "1").url)
    page.locator("#mode-group-label").click()
    for user in users:
        page.fill("#member-user", str(user))
        page.click("#add-user button")
    page.click("#add-new")
    history = model.items_.ids[5:10].to_list()
    for item in history:
        title = data.title(model.items_.code(item))
        page.fill("#search", title)
        option = page.locator("#found li span:first-child").get_by_text(title, exact=True)
        option.dispatch_event("pointerdown")
        expect(page.locator("#members li").nth(2)).to_contain_text(title)
    picks = model.recommend(group=[*users, history], confidence=0.9)
    expect(page.locator("#size")).to_have_text(f"{len(picks):,}")
    expect(page.locator("#guarantee")).to_have_text(str(picks.guarantee))
    expect(page.locator("#served-list li")).to_have_count(3)
    expect(page.locator("#served-list .least")).to_contain_text(str(picks.least_served))
    assert texts(page, "#items .title") == picks.to_frame()["title"].to_list()[:50]
    expect(page.locator("#items > li").first.locator(".worth .bar")).to_have_count(3)
    page.locator(".ask").first.click()
    expect(page.locator(".by-member")).to_have_count(3)
    assert re.search(r"member=user.*member=items", page.url)
    other = open_page(page.url)  # the address contains the group
    expect(other.locator("#size")).to_have_text(f"{len(picks):,}")
    expect(other.locator("#members li")).to_have_count(3)
