//! The pages of workflows, in a browser.

use serde_json::json;
use seriatim_env::Env;

use crate::browser::Browser;
use crate::server::Server;

/// Starts, follows, signals and stops workflows, all from the pages. Afterwards `tea` has completed, and `patient` waits.
pub(crate) async fn work_with_workflows(browser: &mut Browser, server: &Server) {
    greet(browser).await;
    approve_an_order(browser).await;
    let started = json!({"type": "order", "id": "patient", "input": {"patience_ms": 3_600_000}});
    server.post("/v1/workflows", &started).await;
    time_out_and_fail(browser, server).await;
    stop_orders(browser, server).await;
    fill_a_basket(browser).await;
    repair_a_vase(browser, server).await;
    filter(browser).await;
    browser.wait_text("tbody", "tea.ship").await;
    screenshot_in_both_themes(browser, "workflows").await;
}

/// On a server without workflows the console says so, and everything else works.
pub(crate) async fn visit_a_server_without_workflows(browser: &mut Browser, env: &Env) {
    let server = Server::start_without_workflows(env).await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.wait_text(".readiness", "ready").await;
    browser.wait("document.querySelector('.nav [href=\"#/workflows\"]').offsetParent === null").await;
    browser.open_page("#/workflows").await;
    browser.wait_text(".empty", "This server runs no workflows").await;
    server.stop().await;
}

async fn start(browser: &mut Browser, kind: &str, id: &str, input: &str) {
    browser.fill("#start-workflow [name=type]", kind).await;
    browser.fill("#start-workflow [name=id]", id).await;
    browser.fill("#start-workflow [name=input]", input).await;
    browser.click("#start-workflow button").await;
}

async fn greet(browser: &mut Browser) {
    browser.open_page("#/workflows").await;
    browser.wait_text(".nav a:not([hidden])", "Workflows").await;
    browser.wait_text(".empty", "No workflows yet").await;
    browser.wait_text(".code-line", "'{\"type\": \"greet\", \"input\": \"Ada\"}'").await;
    screenshot_in_both_themes(browser, "workflows-empty").await;
    start(browser, "greet", "", "Ada").await;
    browser.wait_text(".problem", "The input is not JSON").await;
    start(browser, "greet", "", "\"Ada\"").await;
    browser.wait_text(".run .status", "completed").await;
    browser.wait_text(".outcome .json", "\"Hello, Ada!\"").await;
    browser.wait_text(".timeline li:first-child", "started").await;
}

/// An order waits for a signal; the page shows that, sends the signal, and shows the result.
async fn approve_an_order(browser: &mut Browser) {
    browser.open_page("#/workflows").await;
    start(browser, "order", "tea", "{\"patience_ms\": 600000}").await;
    browser.wait_text("h1", "tea").await;
    browser.wait_text(".run .status", "running").await;
    browser.wait_text(".waits", "the signal approve").await;
    browser.wait_text(".waits", "the response to timer 1, due in").await;
    browser.wait_text("[data-operation='activity 1'].done", "995 cents for tea").await;
    browser.wait_text("[data-operation='timer 1'].waiting", "no response yet").await;
    browser.wait("document.querySelector('[data-operation=\"timer 1\"] .bar').offsetWidth > 100").await;
    assert_eq!(browser.value("document.querySelector('#tell [name=name]').value").await, "approve");
    browser.fill("#tell [name=input]", "{\"by\": \"<b>Ada</b>\"}").await;
    screenshot_in_both_themes(browser, "order-waits").await;
    // Details that the reader has opened stay open when the page is updated.
    browser.value("document.querySelector('[data-operation=\"activity 1\"] summary').click()").await;
    browser.wait_text("[data-operation='activity 1'] .json", "\"schedule_activity\"").await;
    browser.click("#tell button").await;
    browser.wait_text(".run .status", "completed").await;
    browser.wait_text(".outcome .json", "\"approved_by\": \"signal\"").await;
    browser.wait_text(".timeline .mark", "signal approve{\"by\":\"<b>Ada</b>\"}").await;
    browser.wait_text("[data-operation='activity 1'].done", "completed after").await;
    browser.wait_text("[data-operation='timer 1'].done", "cancelled after").await;
    browser.wait_text("[data-operation='child_workflow 1'].done", "a parcel of tea").await;
    browser.wait("document.querySelector('[data-operation=\"activity 1\"] details').open").await;
    browser.wait("document.querySelector('.stops').offsetParent === null").await;
    browser.wait("document.querySelector('#tell [name=way]').value === 'queries'").await;
    browser.value("document.querySelector('[data-operation=\"activity 1\"] summary').click()").await;
    screenshot_in_both_themes(browser, "order-done").await;
    browser.click("[data-operation='child_workflow 1'] a").await;
    browser.wait_text("h1", "tea.ship").await;
    browser.click(".run a").await;
    browser.wait("document.querySelector('h1').textContent === 'tea'").await;
}

/// Delays the page's requests for this path, by less than its poll interval, until another document is opened.
async fn delay_requests(browser: &mut Browser, path: &str) {
    let script = format!(
        "(() => {{
           const fetched = window.fetch;
           window.fetch = async (asked, options) => {{
             if (asked === {path}) await new Promise((resolve) => setTimeout(resolve, 700));
             return fetched(asked, options);
           }};
         }})()",
        path = json!(path)
    );
    browser.value(&script).await;
}

/// An order that is not approved in time, and one that fails.
async fn time_out_and_fail(browser: &mut Browser, server: &Server) {
    // The run ends between the first two requests of the page. The page does not poll a run that has ended, so it needs the
    // whole history by then.
    delay_requests(browser, "/v1/workflows/hasty").await;
    let hasty = json!({"type": "order", "id": "hasty", "input": {"patience_ms": 300}});
    server.post("/v1/workflows", &hasty).await;
    browser.open_page("#/workflows/hasty").await;
    browser.wait_text("[data-operation='timer 1'].done", "fired after").await;
    browser.wait_text(".outcome .json", "\"approved_by\": \"timer\"").await;
    let free = json!({"type": "order", "id": "free", "input": {"amount": 0}});
    server.post("/v1/workflows", &free).await;
    browser.open_page("#/workflows/free").await;
    browser.wait_text(".run .status", "failed").await;
    browser.wait_text("[data-operation='activity 1'].bad", "an order has to cost something").await;
    browser.screenshot("order-failed").await;
}

async fn stop_orders(browser: &mut Browser, server: &Server) {
    for (id, clicks, status) in
        [("cancelled", vec![1], "cancelled"), ("terminated", vec![2, 2], "terminated")]
    {
        server
            .post("/v1/workflows", &json!({"type": "order", "id": id, "input": {"patience_ms": 600_000}}))
            .await;
        browser.open_page(&format!("#/workflows/{id}")).await;
        browser.wait_text(".waits", "timer 1").await;
        for button in clicks {
            browser.click(&format!(".stops button:nth-of-type({button})")).await;
        }
        browser.wait_text(".run .status", status).await;
    }
    browser.wait_text("[data-operation='timer 1']", "no response: the run has ended").await;
}

async fn send(browser: &mut Browser, way: &str, name: &str, input: &str) {
    let choose = format!(
        "(() => {{ const way = document.querySelector('#tell [name=way]'); way.value = '{way}'; way.dispatchEvent(new Event('change')); }})()"
    );
    browser.value(&choose).await;
    browser.fill("#tell [name=name]", name).await;
    browser.fill("#tell [name=input]", input).await;
    browser.click("#tell button").await;
}

/// The form sends an update, a query and a signal to a run. Then there is a second run, and the first can still be opened.
async fn fill_a_basket(browser: &mut Browser) {
    browser.open_page("#/workflows").await;
    start(browser, "basket", "basket", "").await;
    browser.wait_text(".waits", "the signal buy").await;
    send(browser, "updates", "add", "\"milk\"").await;
    browser.wait_text(".answered", "add answers").await;
    browser.wait_text(".answered .json", "\"milk\"").await;
    send(browser, "updates", "add", "\"\"").await;
    browser.wait_text(".tools-card .problem", "there is nothing to add").await;
    send(browser, "queries", "count", "").await;
    browser.wait_text(".answered", "count answers1").await;
    screenshot_in_both_themes(browser, "basket").await;
    send(browser, "signals", "buy", "").await;
    browser.wait_text(".outcome .json", "\"milk\"").await;
    browser.wait("document.querySelector('.chooser') === null").await;
    // A run that has ended still answers queries.
    send(browser, "queries", "count", "").await;
    browser.wait_text(".answered", "count answers1").await;
    browser.open_page("#/workflows").await;
    start(browser, "basket", "basket", "").await;
    browser.wait_text(".chooser option:checked", "2, running").await;
    choose(browser, "run", "1").await;
    browser.wait_text("h1", "basket, run 1").await;
    browser.wait_text(".outcome .json", "\"milk\"").await;
    browser.wait_text(".chooser option:checked", "1, completed").await;
    browser.wait("document.querySelector('#tell').offsetParent === null").await;
    screenshot_in_both_themes(browser, "basket-earlier").await;
    choose(browser, "run", "2").await;
    browser.wait_text(".run .status", "running").await;
}

/// A stuck run is in the list of stuck runs. Its page says why, has a button that retries it, and shows its memo.
async fn repair_a_vase(browser: &mut Browser, server: &Server) {
    let vase = json!({"type": "vase", "id": "vase", "memo": {"room": "hall"}});
    server.post("/v1/workflows", &vase).await;
    browser.open_page("#/workflows").await;
    choose(browser, "status", "stuck").await;
    browser.wait("document.querySelectorAll('tbody tr').length === 1").await;
    browser.click("tbody a").await;
    browser.wait_text(".problem", "the vase is broken").await;
    browser.wait_text(".memo .json", "\"hall\"").await;
    // The cause remains: the run is still stuck.
    browser.click(".run .problem button").await;
    browser.wait_text(".problem", "the vase is broken").await;
    browser.wait("!document.querySelector('.run .problem button').disabled").await;
    assert_eq!(browser.value("document.querySelector('.run .status').textContent").await, "running");
    screenshot_in_both_themes(browser, "stuck").await;
    server.is_whole.store(true, std::sync::atomic::Ordering::Relaxed);
    browser.click(".run .problem button").await;
    browser.wait_text(".run .status", "completed").await;
    browser.wait_text(".outcome .json", "\"flowers\"").await;
}

async fn choose(browser: &mut Browser, name: &str, value: &str) {
    let chooser = format!("document.querySelector('.chooser [name={name}]')");
    browser.wait(&format!("{chooser} !== null")).await;
    let choose = format!(
        "(() => {{ const chooser = {chooser}; chooser.value = '{value}'; chooser.dispatchEvent(new Event('change')); }})()"
    );
    browser.value(&choose).await;
}

/// The list shows only workflows with the chosen status.
async fn filter(browser: &mut Browser) {
    browser.open_page("#/workflows").await;
    choose(browser, "status", "terminated").await;
    browser.wait("document.querySelectorAll('tbody tr').length === 1").await;
    browser.wait_text("tbody", "terminated").await;
    choose(browser, "status", "timed_out").await;
    browser.wait_text(".empty", "No workflow has timed out").await;
    choose(browser, "status", "stuck").await;
    browser.wait_text(".empty", "No workflow is stuck").await;
    choose(browser, "status", "running").await;
    browser.wait_text("tbody", "basket").await;
    browser.wait("document.querySelectorAll('tbody tr').length === 2").await;
    choose(browser, "status", "").await;
}

async fn screenshot_in_both_themes(browser: &mut Browser, name: &str) {
    for scheme in ["dark", "light"] {
        browser.set_colour_scheme(scheme).await;
        browser.screenshot(&format!("{name}-{scheme}")).await;
    }
}
