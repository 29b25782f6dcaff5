"""The page in a real browser: search, build, slide, why, share, wrong input, no server."""

import json
import re
import shutil

import pytest

import surerec as sr
from surerec.live import Live, SqliteStore, Window
from tests.serving.serving_server import ACCENT, NASTY, Server, made_up, save, someone

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
    """Open the page; whatever its console calls an error fails the test."""
    contexts, errors = [], []

    def open_one(address, *, allow=(), **how):
        contexts.append(browser.new_context(**how))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda said: (
                errors.append(said.text)
                if said.type in {"error", "warning"} and not any(x in said.text for x in allow)
                else None
            ),
        )
        page.goto(address)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture(scope="module")
def known(model_folder):
    return someone(model_folder)


def slide(page, percent):
    page.locator("#confidence").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }",
        percent,
    )


def titles(page):
    return page.locator("#items .title").all_text_contents()


def test_a_known_users_set_is_the_librarys_at_every_confidence(open_page, server, known):
    model, user = known
    page = open_page(f"{server.url}#user={user}&confidence=0.8")
    page.wait_for_selector("#items li")
    for percent in (80, 50, 72.5, 95, 60):
        slide(page, percent)
        picks = model.recommend(user, confidence=percent / 100)
        expect(page.locator("#size")).to_have_text(f"{len(picks):,}")
        expect(page.locator("#confidence-value")).to_have_text(f"{percent:g} %")
        assert titles(page) == picks.to_frame()["title"].to_list()[:50]
        expect(page.locator("#guarantee")).to_have_text(str(picks.guarantee))
    expect(page.locator("#known-title")).to_contain_text("Took")


def test_the_slider_never_waits_for_the_server(open_page, server, known):
    model, user = known
    page = open_page(f"{server.url}#user={user}&confidence=0.8")
    page.wait_for_selector("#items li")
    expect(page.locator("#curve .main-svg").first).to_be_visible()
    page.route("**/v1/**", lambda _: None)  # from now on no request gets an answer
    slide(page, 66)
    size = len(model.recommend(user, confidence=0.66))
    assert page.locator("#size").text_content() == f"{size:,}"
    milliseconds = page.evaluate(
        """() => { const slider = document.getElementById("confidence");
        const begin = performance.now();
        for (let at = 50; at <= 99; at += 0.5) {
          slider.value = at; slider.dispatchEvent(new Event("input")); }
        return (performance.now() - begin) / 99; }"""
    )
    assert milliseconds < 16, "a move must fit into a frame"


def test_a_history_is_built_by_searching_with_the_keyboard_alone(open_page, server, known):
    model, _ = known
    page = open_page(server.url)
    page.wait_for_selector(".chip")
    page.locator("#search").focus()
    for words in ("amelie", "onerror", "film 7"):
        page.keyboard.type(words)
        page.wait_for_selector("#found li[aria-selected=true]")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(page.locator("#found")).to_be_hidden()
    expect(page.locator("#known-list li")).to_have_count(3)
    shown = page.locator("#known-list li span").all_text_contents()
    assert shown[:2] == [ACCENT, NASTY]
    page.wait_for_selector("#items li")
    interactions = model.statistics_.interactions
    history = [interactions.items[interactions.titles.to_list().index(title)] for title in shown]
    slide(page, 50)
    picks = model.recommend(history=history, confidence=0.5)
    expect(page.locator("#size")).to_have_text(f"{len(picks):,}")
    expect(page.locator("#support-text")).to_contain_text("at most")
    page.get_by_role("button", name=f"Remove {ACCENT}").press("Enter")
    expect(page.locator("#known-list li")).to_have_count(2)
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#items li")).to_have_count(0)


def test_why_opens_the_counts_in_words_and_bars(open_page, server, known):
    model, user = known
    page = open_page(f"{server.url}#user={user}&confidence=0.9")
    button = page.locator(".ask").first
    button.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    page.wait_for_selector(".reasons li")
    why = model.explain(user, item=model.recommend(user, confidence=0.9).items[0]).to_frame()
    row = why.row(0, named=True)
    first = page.locator(".reasons li").first.text_content()
    assert f"{row['later']:,} of {row['support']:,}" in first
    assert row["title"] in first
    assert page.locator(".reasons .bar").count() == min(6, len(why))
    button.click()
    expect(page.locator(".why").first).to_be_hidden()


def test_why_never_sticks(open_page, server, known):
    page = open_page(f"{server.url}#user={known[1]}&confidence=0.9", allow=["Failed to load"])
    page.wait_for_selector("#items li")
    page.route("**/v1/explanations", lambda route: route.abort())
    button = page.locator(".ask").first
    button.click()
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".why").first).to_be_hidden()
    page.unroute("**/v1/explanations")
    expect(page.locator("#notice")).to_be_hidden()  # the server answers again: the page begins anew
    button.click()
    page.wait_for_selector(".reasons li")


def test_on_a_phone_the_set_comes_before_the_history(open_page, server, known):
    address = f"{server.url}#user={known[1]}&confidence=0.8"
    page = open_page(address, viewport={"width": 390, "height": 844})
    page.wait_for_selector("#items li")
    assert page.locator("#items li").first.bounding_box()["y"] < 844
    fold = page.locator("#fold")
    expect(fold).to_have_text(
        re.compile(rf"^For user {known[1]}, who took [\d,]+ items by icrs12$")
    )
    expect(page.locator("#user")).to_be_hidden()
    fold.click()
    expect(page.locator("#user")).to_be_focused()
    page.select_option("#recommender", "icrs3")  # it stays open while something is changed
    page.wait_for_function("location.hash.includes('icrs3')")
    expect(page.locator("#known-title")).to_contain_text("Took")
    expect(page.locator("#known-list")).to_be_hidden()
    page.locator("#known > summary").click()
    expect(page.locator("#known-list")).to_be_visible()
    wide = open_page(address)
    wide.wait_for_selector("#items li")
    expect(wide.locator("#known-list")).to_be_visible()
    expect(wide.locator("#user")).to_be_visible()
    expect(wide.locator("#fold")).to_be_hidden()


def test_where_an_item_comes_in_is_said_as_the_dial_says_it(open_page, server, known):
    page = open_page(f"{server.url}#user={known[1]}&confidence=0.99")
    page.wait_for_selector("#items li")
    said = page.locator("#items .number").all_text_contents()
    assert said[0] == "in every set"
    assert all(re.fullmatch(r"in every set|in above (\d\d|\d\d\.\d) %", words) for words in said)
    assert any(words.startswith("in above") for words in said)
    label = page.locator("#items .bar").first.get_attribute("aria-label")
    assert re.fullmatch(r"comes in above a confidence of [\d.]+ %, p-value [\d.]+", label)
    assert page.evaluate(
        """() => [...document.querySelectorAll("#items .item")].every((row) => {
          const [words, ask] = [row.querySelector(".number"), row.querySelector(".ask")];
          return words.getBoundingClientRect().right <= ask.getBoundingClientRect().left;
        })"""
    )


def test_nothing_stays_lit_where_there_is_no_mouse(open_page, server, known):
    page = open_page(
        f"{server.url}#user={known[1]}&confidence=0.8",
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
    )
    ask = page.locator(".ask").first
    ask.tap()
    page.wait_for_selector(".reasons li")
    ask.tap()
    expect(ask).to_have_attribute("aria-expanded", "false")
    expect(ask).to_have_css("background-color", "rgba(0, 0, 0, 0)")


def test_recommenders_are_named_by_what_they_promise_at_this_confidence(open_page, server, known):
    page = open_page(f"{server.url}#user={known[1]}&confidence=0.8")
    page.wait_for_selector("#items li")
    chosen = page.locator("#recommender option:checked")
    kept = r"^icrs12: keeps 80\s% of items new to the user that they will consume"
    words = kept + ", if their taste stands still$"
    expect(chosen).to_have_text(re.compile(words))
    expect(page.locator("#recommender")).to_have_attribute("title", re.compile(words))  # on hover
    expect(page.locator("#recommender-kind")).to_have_text("icrs12: InductiveConformal with CM12")
    expect(page.locator("#dial")).not_to_have_class(re.compile("nothing-promised"))
    expect(page.locator("#headline")).to_have_text(
        re.compile(r"^Keeps 80\s% of items new to the user")
    )
    page.select_option("#recommender", "precedence-mining")
    expect(page.locator("#headline")).to_have_text("Only ranks, and promises nothing.")
    expect(page.locator("#dial")).to_have_class(re.compile("nothing-promised"))


def test_two_recommenders_stand_side_by_side(open_page, server, known, model_folder):
    model, user = known
    page = open_page(f"{server.url}#user={user}&confidence=0.8")
    page.wait_for_selector("#items li")
    expect(page.locator("#beside-card")).to_be_hidden()
    page.select_option("#beside", "icrs3")
    other = sr.load(model_folder, "icrs3")
    for percent in (80, 60):
        slide(page, percent)
        mine, theirs = (each.recommend(user, confidence=percent / 100) for each in (model, other))
        expect(page.locator("#beside-head .big")).to_have_text(f"{len(theirs):,}")
        expect(page.locator("#set-head .big")).to_have_text(f"{len(mine):,}")
        expect(page.locator("#beside-head .guarantee")).to_have_text(str(theirs.guarantee))
        expect(page.locator("#set-head .guarantee")).to_have_text(str(mine.guarantee))
        both = set(mine.items) & set(theirs.items)
        expect(page.locator("#overlap")).to_have_text(
            f"{len(both)} items in both sets, {len(mine) - len(both)} only in the first, "
            f"{len(theirs) - len(both)} only in the second."
        )
        shown = page.locator("#beside-items > li")
        marked = [str(item) for item in theirs.items[:50] if item not in both]
        assert shown.evaluate_all("all => all.map((li) => li.dataset.id)") == [
            str(item) for item in theirs.items[:50]
        ]
        expect(page.locator("#beside-items > li.only")).to_have_count(len(marked))
    page.locator("#beside-items .ask").first.click()
    page.wait_for_selector("#beside-items .reasons li")
    page.wait_for_function("location.hash.includes('beside=icrs3')")
    page.select_option("#beside", "precedence-mining")
    expect(page.locator("#beside-head")).to_have_class(re.compile("nothing-promised"))
    page.select_option("#beside", "")
    expect(page.locator("#beside-card")).to_be_hidden()
    expect(page.locator("#guarantee")).to_be_visible()
    expect(page.locator("#items > li.only")).to_have_count(0)


@pytest.mark.parametrize("chosen", ["#beside", "#recommender"])
def test_a_promise_is_asked_of_who_gave_the_answer(open_page, server, known, chosen):
    _, user = known
    page = open_page(f"{server.url}#user={user}&confidence=0.8&beside=icrs3")
    page.wait_for_selector("#beside-items > li")
    held, holds, promises = [], True, []
    page.on(
        "request", lambda it: promises.append(it.post_data_json) if "recommend" in it.url else 0
    )

    def hold(route):
        return held.append(route) if holds else route.continue_()

    page.route("**/v1/entry-confidences", hold)
    page.evaluate(  # the promise is asked for a moment later, when another is chosen already
        """(id) => { const [slider, select] = ["#confidence", id].map((x) =>
          document.querySelector(x));
        slider.value = 60; slider.dispatchEvent(new Event("input"));
        select.value = "precedence-mining"; select.dispatchEvent(new Event("change")); }""",
        chosen,
    )
    page.wait_for_timeout(600)
    holds = False
    for route in held:
        route.continue_()
    head = {"#beside": "#beside-head", "#recommender": "#set-head"}[chosen]
    expect(page.locator(head)).to_have_class(re.compile("nothing-promised"))
    assert len(promises) > 2
    assert all(
        "confidence" in asked for asked in promises if asked["recommender"] != "precedence-mining"
    )
    assert not any(
        "confidence" in asked for asked in promises if asked["recommender"] == "precedence-mining"
    )


def test_items_with_one_title_are_told_apart_by_their_ids(open_page, server):
    page = open_page(server.url)

    def twins(route):
        answer = route.fetch().json()
        for item in answer["items"][:2]:
            item["title"] = "Twin"
        route.fulfill(json=answer)

    page.route("**/v1/items?*", twins)
    page.locator("#search").fill("film")
    page.wait_for_selector("#found li")
    shown = page.locator("#found li > span:first-child > span:first-child").all_text_contents()
    assert all(re.fullmatch(r"Twin \(\d+\)", text) for text in shown[:2])
    assert len(set(shown)) == len(shown)


def test_genres_stand_below_the_titles_that_have_them(open_page, server, known):
    model, user = known
    page = open_page(f"{server.url}#user={user}&confidence=0.8")
    page.wait_for_selector("#items li")
    interactions = model.statistics_.interactions
    codes = interactions.items.codes(model.recommend(user, confidence=0.8).items[:50])
    genres = [text for text in interactions.genres.gather(codes) if text is not None]
    assert genres
    assert page.locator("#items .genres").all_text_contents() == genres
    page.locator("#search").evaluate("input => input.closest('#mode-history').hidden = false")
    page.locator("#search").fill("film 3")
    expect(page.locator("#found .genres").first).to_contain_text("Genre")


def test_the_address_holds_the_state_and_can_be_shared(open_page, server, known):
    _, user = known
    page = open_page(f"{server.url}#user={user}&confidence=0.8")
    page.wait_for_selector("#items li")
    slide(page, 70)
    page.select_option("#recommender", "icrs3")
    expect(page.locator("#guarantee")).to_contain_text("0.3")
    page.wait_for_function("location.hash.includes('icrs3') && location.hash.includes('0.7')")
    other = open_page(page.url)
    other.wait_for_selector("#items li")
    assert titles(other) == titles(page)
    assert other.locator("#confidence-value").text_content() == "70 %"
    assert other.locator("#recommender").input_value() == "icrs3"
    other.evaluate("location.hash = 'item=1&item=2&item=nowhere&confidence=0.6'")
    expect(other.locator("#known-list li")).to_have_count(3)
    expect(other.locator("#ignored")).to_contain_text("nowhere")


def test_a_malformed_link_does_not_break_the_page(open_page, server, known):
    # Nobody knows the items that the link names: the answer is 404, and the page goes on.
    link = f"{server.url}#member=items:%25&member=items:%25zz,50&confidence=0.8"
    page = open_page(link, allow=["404"])
    expect(page.locator("#recommender option").first).to_be_attached()
    page.evaluate(f"location.hash = 'user={known[1]}&confidence=0.8'")
    page.wait_for_selector("#items li")


def test_a_ranking_is_shown_without_a_confidence_and_says_so(open_page, server, known):
    page = open_page(f"{server.url}#user={known[1]}&recommender=precedence-mining")
    page.wait_for_selector("#items li")
    expect(page.locator("#confidence")).to_be_disabled()
    expect(page.locator("#guarantee")).to_contain_text("No guarantee: this recommender ranks")
    assert page.locator("#items .bar").count() == 0
    page.select_option("#recommender", "icrs12")
    expect(page.locator("#confidence")).to_be_enabled()
    expect(page.locator("#items .bar").first).to_be_visible()


def test_wrong_input_is_said_beside_the_field(open_page, server):
    page = open_page(server.url, allow=["404"])
    page.get_by_role("radio", name="A user").check()
    page.locator("#user").fill("nobody")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#user-error")).to_have_text("There is no such user.")
    expect(page.locator("#user")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#items li")).to_have_count(0)
    page.locator("#user").fill("")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#user-error")).to_have_text("Type the id of a user.")


def test_titles_are_text_and_never_markup(open_page, server):
    page = open_page(server.url)
    page.locator("#search").fill("onerror")
    page.wait_for_selector("#found li")
    page.keyboard.press("Enter")
    page.locator("#search").fill("amelie")
    page.wait_for_selector("#found li")
    page.keyboard.press("Enter")
    page.wait_for_selector("#items li")
    assert page.locator("main img").count() == 0
    assert page.title() == "surerec"


def test_without_a_server_it_says_so_and_recovers_by_itself(open_page, tmp_path, known):
    folder = save(tmp_path / "films")
    first = Server(folder, tmp_path / "log-1", "--workers", "1")
    port = re.search(r":(\d+)/", first.url)[1]
    page = open_page(f"{first.url}#user={known[1]}", allow=["Failed to load", "ERR_CONNECTION"])
    page.wait_for_selector("#items li")
    first.stop()
    page.select_option("#recommender", "icrs3")
    expect(page.locator("#notice")).to_contain_text("The server does not answer")
    second = Server(folder, tmp_path / "log-2", "--workers", "1", "--port", port)
    expect(page.locator("#notice")).to_be_hidden(timeout=20_000)
    expect(page.locator("#recommender")).to_have_value("icrs3")
    page.wait_for_selector("#items li")
    second.stop()


def test_a_key_is_asked_for_and_kept_in_this_tab_only(open_page, tmp_path, known):
    from surerec.serving import KeyFile  # noqa: PLC0415

    keys = KeyFile(tmp_path / "keys.json")
    key = keys.create("visitor")
    running = Server(
        save(tmp_path / "films"), tmp_path / "log", "--workers", "1", "--keys", str(keys.path)
    )
    page = open_page(f"{running.url}#user={known[1]}", allow=["401"])
    expect(page.locator("#key-dialog")).to_be_visible()
    page.locator("#key-value").fill(key)
    page.get_by_role("button", name="Use it").click()
    page.wait_for_selector("#items li")
    assert key not in page.url
    assert page.evaluate("JSON.stringify({...localStorage})") == "{}"
    running.stop()


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("beside", ["", "&beside=icrs3"])
def test_it_fits_every_screen_and_reads_well_in_light_and_dark(
    open_page, server, known, width, scheme, beside
):
    page = open_page(
        f"{server.url}#user={known[1]}&confidence=0.8{beside}",
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
    )
    page.wait_for_selector("#beside-items li" if beside else "#items li")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []


# Text whose contrast with what is behind it is below WCAG's 4.5 : 1.
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


def test_it_names_everything_for_a_screen_reader(open_page, server, known):
    page = open_page(f"{server.url}#user={known[1]}&confidence=0.8")
    page.wait_for_selector("#items li")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, a[href], [role=img]")]
        .filter((e) => e.checkVisibility())
        .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
        .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    value = page.locator("#confidence").get_attribute("aria-valuetext")
    assert re.fullmatch(r"80 %, [\d,]+ of [\d,]+ items", value)
    expect(page.locator("#said")).to_contain_text("80 % confidence.")
    expect(page.locator("#curve")).to_have_attribute("aria-label", re.compile("A curve from"))
    page.locator("#confidence").press("ArrowRight")
    expect(page.locator("#confidence-value")).to_have_text("80.5 %")


def test_a_click_on_the_curve_sets_the_confidence(open_page, server, known):
    page = open_page(f"{server.url}#user={known[1]}&confidence=0.95")
    page.wait_for_selector("#curve .draglayer .drag")
    box = page.locator("#curve .draglayer .drag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.9)
    page.wait_for_selector("#curve .hoverlayer .hovertext")
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#confidence-value")).not_to_have_text("95 %")


def test_the_local_cut_has_the_librarys_border(open_page, server):
    """The page's own function, on entry confidences as the library makes them."""
    page = open_page(server.url)
    for levels in (2, 3, 7, 10, 11, 20, 101):
        entries = [(levels - count) / levels for count in range(levels, 0, -1)]
        asked = [c / 1000 for c in range(500, 991, 5)]
        script = f"""async () => {{
          const {{ isIn }} = await import("./static/cut.js");
          const entries = {json.dumps(entries)};
          return {json.dumps(asked)}.map((c) => entries.filter((e) => isIn(e, c)).length);
        }}"""
        counts = list(range(1, levels + 1))
        expected = [int(sr.conformal.in_set(counts, levels, 1 - c).sum()) for c in asked]
        assert page.evaluate(script) == expected


def test_the_reference_describes_every_operation(open_page, server):
    page = open_page(f"{server.url}docs")
    page.wait_for_selector("details")
    paths = page.locator("summary code").all_text_contents()
    assert "/v1/recommendations" in paths
    page.locator("summary").first.click()
    assert "curl" in page.locator("pre").first.text_content()


def test_a_live_model_shows_promised_and_delivered(open_page, start, tmp_path):
    fitted = sr.PopulationConformal("CM12", n_calibration=100).fit(made_up())
    Live.create(tmp_path / "shop", fitted).close()
    store = SqliteStore(tmp_path / "shop" / "events.sqlite")
    with store.writing() as transaction:  # as if 4,000 events had been judged
        for number, missed in enumerate((200, 203)):
            window = Window(0, 0, {"all": [2000, missed, 400, 600]}, [missed + 90, 450, 700])
            transaction.put(f"window {number:09d}", window)
        transaction.put("alarm 000000000", {"at": "2024-05-01T12:00", "says": NASTY})
    store.close()
    server = start(tmp_path / "shop", "--workers", "1")
    hint = "No event has been judged yet. Counted on 20"
    expect(open_page(server.url).locator("#promise-hint")).to_contain_text(hint)
    with server.client() as client:
        best = client.post("v1/recommendations", json={"user": 7, "confidence": 0.9}).json()
        item = best["items"][0]["item_id"]
        sent = {"events": [{"user": 7, "item": item, "time": 1_700_000_000}]}
        assert client.post("v1/events", json=sent).json()["judged"] == 1
    page = open_page(server.url)
    expect(page.locator("#promise-hint")).to_contain_text("with each of 1 user days counted once")
    expect(page.locator("#promise-facts")).to_contain_text("90 % promised100 %")
    expect(page.locator("#promise-lines svg")).to_have_attribute(
        "aria-label", re.compile("90 % promised; delivered window by window: 90 %, 89.8 %")
    )
    expect(page.locator("#promise-alarms li")).to_contain_text(NASTY)
    page.screenshot(path=tmp_path / "panel.png", full_page=True)


def test_other_models_show_no_promise_panel(open_page, server):
    page = open_page(server.url)
    expect(page.locator("#promise")).to_be_hidden()
