//! Pages while the server is unreachable, while other clients change data, and on a small screen.

use serde_json::json;
use seriatim_env::Env;

use crate::browser::Browser;
use crate::server::Server;
use crate::{create_workspace, invoice, start_browser};

/// A browser on the console of its own server.
async fn open(env: &Env) -> Option<(Browser, Server)> {
    let mut browser = start_browser(env).await?;
    let server = Server::start(env).await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.wait_text(".readiness", "ready").await;
    Some((browser, server))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_could_not_be_loaded_is_loaded_when_the_server_is_back() {
    let env = Env::real();
    let Some((mut browser, mut server)) = open(&env).await else { return };
    server.post("/v1/series/acme.invoices/next", &json!({})).await;
    server.halt().await;
    browser.open_page("#/series").await;
    browser.wait_text("h1", "The page could not be loaded").await;
    browser.wait_text(".problem", "loaded again as soon as the server answers").await;
    server.resume(&env).await;
    browser.wait_text("tbody", "acme.invoices").await;
    assert_eq!(browser.value("document.querySelector('h1').textContent").await, "Series");
    assert_eq!(browser.value("document.querySelectorAll('.problem').length").await, 0);
    // What does not exist is not requested repeatedly.
    browser.open_page("#/series/none").await;
    browser.wait_text(".problem", "Series none does not exist").await;
    assert_eq!(
        browser.value("document.querySelector('.problem').textContent.includes('again')").await,
        false
    );
    browser.close().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_latest_numbers_include_those_before_a_raise() {
    let env = Env::real();
    let Some((mut browser, server)) = open(&env).await else { return };
    for _ in 0..3 {
        server.post("/v1/series/acme/next", &json!({})).await;
    }
    server.post("/v1/series/acme/raise", &json!({"next": 100, "reason": "import"})).await;
    browser.open_page("#/series/acme").await;
    let numbers =
        "[...document.querySelectorAll('tbody .chip.drawn')].map((chip) => chip.textContent).join()";
    browser.wait(&format!("{numbers} === '3,2,1'")).await;
    server.post("/v1/series/acme/next", &json!({})).await;
    server.post("/v1/series/acme/next", &json!({"count": 2})).await;
    browser.wait(&format!("{numbers} === '101+ 1,100,3,2,1'")).await;
    // A series that has given out its last number still shows its latest numbers.
    server
        .post("/v1/series/acme/raise", &json!({"next": 9_007_199_254_740_991_u64, "reason": "the end"}))
        .await;
    server.post("/v1/series/acme/next", &json!({})).await;
    browser.wait(&format!("{numbers} === '9007199254740991,101+ 1,100,3,2,1'")).await;
    browser.close().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raise_names_the_skipped_numbers_and_needs_a_second_click() {
    let env = Env::real();
    let Some((mut browser, server)) = open(&env).await else { return };
    server.post("/v1/series/acme/next", &json!({})).await;
    browser.open_page("#/series/acme").await;
    let next = async || {
        let state = server.get("/v1/series/acme").await.body;
        state["next"].as_u64().unwrap()
    };
    browser.fill("#raise [name=next]", "9007199254740991").await;
    browser.fill("#raise [name=cause]", "a slip").await;
    browser.click("#raise button").await;
    browser
        .wait_text("#raise", "9007199254740989 numbers, from 2 to 9007199254740990, will never be given out")
        .await;
    assert_eq!(next().await, 2, "nothing was raised yet");
    // After a change of the number the confirmation starts again.
    browser.fill("#raise [name=next]", "10").await;
    browser.wait("document.querySelector('#raise button').textContent === 'Raise'").await;
    browser.click("#raise button").await;
    browser.wait_text("#raise", "8 numbers, from 2 to 9, will never be given out").await;
    browser.click("#raise button").await;
    browser.wait_text(".figures", "next10").await;
    assert_eq!(next().await, 10);
    browser.close().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_lists_show_what_other_clients_create() {
    let env = Env::real();
    let Some((mut browser, server)) = open(&env).await else { return };
    browser.open_page("#/series").await;
    browser.wait_text(".empty", "No series yet").await;
    server.post("/v1/series/b/next", &json!({})).await;
    browser.wait_text("tbody", "b").await;
    // The focused element keeps the focus while rows are inserted before it and change.
    browser.value("document.querySelector('tbody a').focus()").await;
    server.post("/v1/series/a/next", &json!({"count": 6})).await;
    browser.wait("document.querySelectorAll('tbody tr').length === 2").await;
    browser.wait_text("tbody tr:first-child", "a7").await;
    assert_eq!(browser.value("document.activeElement.textContent").await, "b");
    server.post("/v1/series/b/next", &json!({})).await;
    browser.wait_text("tbody tr:last-child", "b3").await;
    assert_eq!(browser.value("document.activeElement.textContent").await, "b");

    browser.open_page("#/workflows").await;
    browser.wait_text(".empty", "No workflows yet").await;
    let order = json!({"type": "order", "id": "tea", "input": {"patience_ms": 3_600_000}});
    server.post("/v1/workflows", &order).await;
    browser.wait_text("tbody", "running").await;
    server.post("/v1/workflows/tea/signals/approve", &json!({"input": {"by": "Ada"}})).await;
    browser.wait_text("tbody", "completed").await;

    browser.open_page("#/apps/shop").await;
    browser.wait_text(".empty", "No workspaces yet").await;
    let workspace = create_workspace(&server, "corner").await;
    browser.wait_text("tbody", "corner").await;

    browser.open_page(&format!("#{}/records", workspace.trim_start_matches("/v1"))).await;
    browser.wait_text(".empty", "No Invoice yet").await;
    server.post(&format!("{workspace}/commands"), &invoice()).await;
    browser.wait_text("tbody", "9.50").await;
    let update = json!({"changes": [{"update": 322_680_000_131_072_u64, "fields": {"total": "11.00"}}]});
    server.post(&format!("{workspace}/commands"), &update).await;
    browser.wait_text("tbody", "11.00").await;
    browser.close().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_with_loaded_pages_keeps_them_and_stays_up_to_date() {
    let env = Env::real();
    let Some((mut browser, server)) = open(&env).await else { return };
    for number in 100..160 {
        server.post(&format!("/v1/series/s{number}/next"), &json!({})).await;
    }
    browser.open_page("#/series").await;
    browser.wait_text(".table-foot", "50 shown").await;
    browser.click(".table-foot .button").await;
    browser.wait_text(".table-foot", "60 in all").await;
    server.post("/v1/series/s100/next", &json!({})).await;
    server.post("/v1/series/s200/next", &json!({})).await;
    browser.wait_text("tbody tr:first-child", "s1003").await;
    browser.wait_text("tbody tr:last-child", "s200").await;
    browser.wait_text(".table-foot", "61 in all").await;
    browser.close().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_still_opening_is_not_paused() {
    let env = Env::real();
    let Some((mut browser, server)) = open(&env).await else { return };
    let hold = "(() => {
        const fetched = window.fetch;
        const held = new Promise((resolve) => { window.release = resolve; });
        window.fetch = async (asked, options) => {
            if (asked.includes('/events')) await held;
            return fetched(asked, options);
        };
    })()";
    browser.value(hold).await;
    browser.open_page("#/apps/shop/partitions/0").await;
    browser.wait_text(".log-tools", "opening").await;
    browser.press("p").await;
    browser.value("window.release()").await;
    browser.wait_text(".log-tools", "following live").await;
    assert_eq!(browser.errors(), Vec::<String>::new());
    browser.press("p").await;
    browser.wait_text(".log-tools", "paused").await;
    browser.close().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tab_of_a_workspace_is_fully_visible_on_a_phone() {
    let env = Env::real();
    let Some((mut browser, server)) = open(&env).await else { return };
    let workspace = create_workspace(&server, "corner").await;
    browser.open_page(&format!("#{}/events", workspace.trim_start_matches("/v1"))).await;
    for width in [320, 360, 380] {
        browser.size(width, 700).await;
        browser.wait(&format!("innerWidth === {width}")).await;
        let clipped = "[...document.querySelectorAll('.tabs a')].filter((tab) => {
            const [nav, box] = [tab.parentElement.getBoundingClientRect(), tab.getBoundingClientRect()];
            return box.right > nav.right + 0.5 || box.right > innerWidth || tab.scrollWidth > tab.clientWidth;
        }).map((tab) => `${tab.textContent} ${tab.getBoundingClientRect().right} of ${tab.parentElement.getBoundingClientRect().right}`).join()";
        assert_eq!(browser.value(clipped).await, "", "at {width}");
        assert_eq!(browser.value("document.querySelectorAll('.tabs a').length").await, 4);
    }
    browser.close().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headings_of_every_page_go_down_one_level_at_a_time() {
    let env = Env::real();
    let Some((mut browser, server)) = open(&env).await else { return };
    let workspace = create_workspace(&server, "corner").await;
    server.post(&format!("{workspace}/commands"), &invoice()).await;
    server.post("/v1/series/acme/next", &json!({})).await;
    server.post("/v1/workflows", &json!({"type": "greet", "id": "done", "input": "Ada"})).await;
    let order = json!({"type": "order", "id": "tea", "input": {"patience_ms": 3_600_000}});
    server.post("/v1/workflows", &order).await;
    let place = workspace.trim_start_matches("/v1/").to_owned();
    let tabs = ["events", "records", "sequences", "command"].map(|tab| format!("{place}/{tab}"));
    let pages =
        ["", "apps", "apps/shop", "apps/shop/partitions/0", "series", "series/acme", "blocks", "workflows"];
    let pages = pages.into_iter().chain(["workflows/done", "workflows/tea"]).map(str::to_owned);
    for page in pages.chain(tabs) {
        browser.open_page(&format!("#/{page}")).await;
        if page == "workflows/done" {
            browser.wait_text(".outcome", "Hello, Ada!").await;
        }
        let levels = "[...document.querySelectorAll('main :is(h1, h2, h3, h4, h5, h6)')].map((one) => Number(one.tagName[1]))";
        let levels = browser.value(levels).await;
        let levels: Vec<u64> =
            levels.as_array().unwrap().iter().map(|level| level.as_u64().unwrap()).collect();
        assert_eq!(levels.first(), Some(&1), "#/{page}: {levels:?}");
        let skips = levels.windows(2).any(|pair| pair[1] > pair[0] + 1);
        assert!(!skips, "#/{page}: {levels:?}");
    }
    browser.close().await;
    server.stop().await;
}
