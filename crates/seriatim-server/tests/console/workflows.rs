//! The pages of workflows, in a browser.

use serde_json::json;
use seriatim_env::Env;

use crate::browser::Browser;
use crate::server::Server;

/// Starts, watches, tells and stops workflows, all from the pages. Leaves `tea`, which has completed, and `patient`, which waits.
pub(crate) async fn work_with_workflows(browser: &mut Browser, server: &Server) {
    greet(browser).await;
    approve_an_order(browser).await;
    let started = json!({"type": "order", "id": "patient", "input": {"patience_ms": 3_600_000}});
    server.post("/v1/workflows", &started).await;
    wait_in_vain(browser, server).await;
    stop_orders(browser, server).await;
    browser.turn("#/workflows").await;
    browser.wait_text("tbody", "tea.ship").await;
    shoot_twice(browser, "workflows").await;
}

/// A server that runs none says so, and everything else of the console works.
pub(crate) async fn do_without_workflows(browser: &mut Browser, env: &Env) {
    let server = Server::start_without_workflows(env).await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.wait_text(".readiness", "ready").await;
    browser.wait("document.querySelector('.nav [href=\"#/workflows\"]').offsetParent === null").await;
    browser.turn("#/workflows").await;
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
    browser.turn("#/workflows").await;
    browser.wait_text(".nav a:not([hidden])", "Workflows").await;
    browser.wait_text(".empty", "No workflows yet").await;
    browser.wait_text(".code-line", "'{\"type\": \"greet\", \"input\": \"Ada\"}'").await;
    shoot_twice(browser, "workflows-empty").await;
    start(browser, "greet", "", "Ada").await;
    browser.wait_text(".problem", "The input is not JSON").await;
    start(browser, "greet", "", "\"Ada\"").await;
    browser.wait_text(".run .status", "completed").await;
    browser.wait_text(".outcome .json", "\"Hello, Ada!\"").await;
    browser.wait_text(".timeline li:first-child", "started").await;
}

/// An order waits for a signal; the page says so, sends it, and shows what came of it.
async fn approve_an_order(browser: &mut Browser) {
    browser.turn("#/workflows").await;
    start(browser, "order", "tea", "{\"patience_ms\": 600000}").await;
    browser.wait_text("h1", "tea").await;
    browser.wait_text(".run .status", "running").await;
    browser.wait_text(".waits", "the signal approve").await;
    browser.wait_text(".waits", "the response to timer 1, due in").await;
    browser.wait_text("[data-operation='activity 1'].done", "995 cents for tea").await;
    browser.wait_text("[data-operation='timer 1'].waiting", "no response yet").await;
    browser.wait("document.querySelector('[data-operation=\"timer 1\"] .bar').offsetWidth > 100").await;
    assert_eq!(browser.value("document.querySelector('#send-signal [name=signal]').value").await, "approve");
    browser.fill("#send-signal [name=input]", "{\"by\": \"<b>Ada</b>\"}").await;
    shoot_twice(browser, "order-waits").await;
    // What the reader has opened stays open when something happens.
    browser.value("document.querySelector('[data-operation=\"activity 1\"] summary').click()").await;
    browser.wait_text("[data-operation='activity 1'] .json", "\"schedule_activity\"").await;
    browser.click("#send-signal button").await;
    browser.wait_text(".run .status", "completed").await;
    browser.wait_text(".outcome .json", "\"approved_by\": \"signal\"").await;
    browser.wait_text(".timeline .mark", "signal approve{\"by\":\"<b>Ada</b>\"}").await;
    browser.wait_text("[data-operation='activity 1'].done", "completed after").await;
    browser.wait_text("[data-operation='timer 1'].done", "cancelled after").await;
    browser.wait_text("[data-operation='child_workflow 1'].done", "a parcel of tea").await;
    browser.wait("document.querySelector('[data-operation=\"activity 1\"] details').open").await;
    browser.wait("document.querySelector('#send-signal').offsetParent === null").await;
    browser.value("document.querySelector('[data-operation=\"activity 1\"] summary').click()").await;
    shoot_twice(browser, "order-done").await;
    browser.click("[data-operation='child_workflow 1'] a").await;
    browser.wait_text("h1", "tea.ship").await;
    browser.click(".run a").await;
    browser.wait("document.querySelector('h1').textContent === 'tea'").await;
}

/// An order that nobody approves in time, and one that fails.
async fn wait_in_vain(browser: &mut Browser, server: &Server) {
    let hasty = json!({"type": "order", "id": "hasty", "input": {"patience_ms": 1}});
    server.post("/v1/workflows", &hasty).await;
    browser.turn("#/workflows/hasty").await;
    browser.wait_text("[data-operation='timer 1'].done", "fired after").await;
    browser.wait_text(".outcome .json", "\"approved_by\": \"timer\"").await;
    let free = json!({"type": "order", "id": "free", "input": {"amount": 0}});
    server.post("/v1/workflows", &free).await;
    browser.turn("#/workflows/free").await;
    browser.wait_text(".run .status", "failed").await;
    browser.wait_text("[data-operation='activity 1'].bad", "an order has to cost something").await;
    browser.shoot("order-failed").await;
}

async fn stop_orders(browser: &mut Browser, server: &Server) {
    for (id, clicks, status) in
        [("cancelled", vec![1], "cancelled"), ("terminated", vec![2, 2], "terminated")]
    {
        server
            .post("/v1/workflows", &json!({"type": "order", "id": id, "input": {"patience_ms": 600_000}}))
            .await;
        browser.turn(&format!("#/workflows/{id}")).await;
        browser.wait_text(".waits", "timer 1").await;
        for button in clicks {
            browser.click(&format!(".stops button:nth-of-type({button})")).await;
        }
        browser.wait_text(".run .status", status).await;
    }
    browser.wait_text("[data-operation='timer 1']", "no response: the run has ended").await;
}

async fn shoot_twice(browser: &mut Browser, name: &str) {
    for scheme in ["dark", "light"] {
        browser.prefer(scheme).await;
        browser.shoot(&format!("{name}-{scheme}")).await;
    }
}
