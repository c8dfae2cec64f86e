//! The console: its files over a socket, and its pages in a real browser.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basket;
mod browser;
mod faults;
#[path = "../http/server.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod http_server;
mod server;
mod workflows;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use browser::Browser;
use serde_json::{Value, json};
use seriatim_env::Env;
use server::Server;

/// The files that a file loads: quoted words that have the form of files of the console.
fn loads(text: &str) -> Vec<String> {
    let is_file = |word: &&str| {
        let begins = ["./", "../", "/console/"].iter().any(|begin| word.starts_with(begin));
        begins && [".js", ".css", ".svg"].iter().any(|end| word.ends_with(end))
    };
    text.split('"').filter(is_file).map(str::to_owned).collect()
}

fn resolve(base: &str, name: &str) -> String {
    if name.starts_with('/') {
        return name.to_owned();
    }
    let mut parts: Vec<&str> = base.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[tokio::test]
async fn every_file_that_the_console_loads_is_served_under_its_policy() {
    let server = Server::start(&Env::real()).await;
    let (mut waiting, mut seen) = (vec!["/".to_owned()], Vec::new());
    while let Some(path) = waiting.pop() {
        let reply = server.get(&path).await;
        assert_eq!(reply.status, 200, "{path}");
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert!(!reply.text.contains("https://") && !reply.text.contains("innerHTML"), "{path}");
        let known = [("If-None-Match", reply.header("etag").unwrap())];
        let again = server.send("GET", &path, &known, None).await;
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
        let names = loads(&reply.text).into_iter().map(|name| resolve(&path, &name));
        waiting.extend(names.filter(|name| !seen.contains(name)));
        seen.push(path);
    }
    seen.sort();
    seen.dedup();
    assert!(seen.len() > 30, "{seen:?}");
    assert_eq!(server.get("/console").await.header("location"), Some("/"));
    assert_eq!(server.get("/console/none.js").await.status, 404);
    server.stop().await;
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn files_for_the_checks_of_the_console_are_not_served() {
    let server = Server::start(&Env::real()).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
    let mut unserved = Vec::new();
    for file in files(&folder) {
        let name = file.strip_prefix(&folder).unwrap().to_str().unwrap();
        let is_loaded = [".js", ".css", ".svg"].iter().any(|end| name.ends_with(end));
        let status = server.get(&format!("/console/{name}")).await.status;
        assert_eq!(status, if is_loaded { 200 } else { 404 }, "{name}");
        if !is_loaded {
            unserved.push(name.to_owned());
        }
    }
    assert!(unserved.contains(&"types.d.ts".to_owned()), "{unserved:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_forecast_says_when_a_sequence_runs_out() {
    let server = Server::start(&Env::real()).await;
    let workspace = create_workspace(&server, "corner").await;
    server.post(&format!("{workspace}/commands"), &invoice()).await;
    let path = format!("{workspace}/sequences/InvoiceNumber/forecast");
    let forecast: Value = server.get(&path).await.body;
    assert_eq!((&forecast["drawn"], &forecast["remaining"]), (&json!(1), &json!(9_007_199_254_740_990_u64)));
    assert_eq!(server.get(&format!("{workspace}/sequences/None/forecast")).await.status, 404);
    server.stop().await;
}

async fn create_workspace(server: &Server, name: &str) -> String {
    let created = server.post("/v1/apps/shop/workspaces", &json!({"kind": "store", "name": name})).await;
    format!("/v1/apps/shop/workspaces/{}", created["id"])
}

fn invoice() -> Value {
    json!({"changes": [{"create": "Invoice", "id": 1, "fields": {"total": "9.50"}}]})
}

/// A browser; none if none is installed. That is printed, and it is a failure if `SERIATIM_REQUIRE_REAL` is set.
async fn start_browser(env: &Env) -> Option<Browser> {
    let browser = Browser::start(env).await;
    if browser.is_none() {
        let reason = "Chromium is not installed: apt-get install chromium";
        assert!(std::env::var_os("SERIATIM_REQUIRE_REAL").is_none(), "{reason}");
        // Not with a macro: the output of macros is hidden while a test passes.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "SKIPPED, the console was not tested in a browser: {reason}").unwrap();
    }
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_work_in_a_browser() {
    let env = Env::real();
    let Some(mut browser) = start_browser(&env).await else { return };
    let mut server = Server::start(&env).await;
    let base = format!("http://{}/", server.address);
    visit_an_empty_server(&mut browser, &base).await;
    let workspace = send_a_command(&mut browser).await;
    follow_the_log(&mut browser, &mut server, &env, &workspace).await;
    read_records_and_sequences(&mut browser, &workspace).await;
    number_a_series(&mut browser).await;
    allocate_a_block(&mut browser).await;
    show_markup_as_text(&mut browser, &server).await;
    workflows::work_with_workflows(&mut browser, &server).await;
    switch_themes(&mut browser, &base).await;
    fit_a_phone(&mut browser, &workspace).await;
    // A browser reports every error answer. Expected are: the invalid command, the refused update, and the requests that
    // were in progress when the server stopped.
    let expected =
        |error: &String| ["/commands", "/updates/add", "net::ERR_"].iter().any(|known| error.contains(known));
    let errors: Vec<String> = browser.errors().into_iter().filter(|one| !expected(one)).collect();
    assert_eq!(errors, Vec::<String>::new());
    // The policy also prevents markup made from strings.
    let refused = "(() => { try { document.createElement('p').innerHTML = '<b>x</b>'; } catch (error) { return error.name; } })()";
    assert_eq!(browser.value(refused).await, "TypeError");
    ask_for_a_token(&mut browser, &server).await;
    workflows::visit_a_server_without_workflows(&mut browser, &env).await;
    browser.close().await;
    server.stop().await;
}

async fn visit_an_empty_server(browser: &mut Browser, base: &str) {
    browser.open(base).await;
    browser.wait_text(".readiness", "ready").await;
    browser.wait_text(".empty", "Nothing has been numbered yet").await;
    browser.wait_text(".code-line", &format!("curl -X POST {base}v1/series/invoices/next")).await;
    browser.wait_text("table", "series").await;
    browser.screenshot("overview-empty").await;
    browser.press("Tab").await;
    assert_eq!(
        browser.value("document.activeElement.className").await,
        "skip",
        "the first stop skips navigation"
    );
    for key in ["g", "a"] {
        browser.press(key).await;
    }
    browser.wait_text("h1", "Applications").await;
    browser.press("?").await;
    browser.wait_text("dialog", "Pause or resume a log").await;
    browser.press("Escape").await;
    browser.wait("document.querySelector('dialog') === null").await;
}

/// Creates a workspace and sends commands to it, all with forms. Returns the workspace's path.
async fn send_a_command(browser: &mut Browser) -> String {
    browser.open_page("#/apps/shop").await;
    browser.wait_text(".empty", "No workspaces yet").await;
    browser.fill("#create-workspace [name=name]", "corner").await;
    browser.click("#create-workspace button").await;
    browser.wait_text(".log-tools", "following live").await;
    browser.fill("#send-command [name=key]", "first").await;
    browser.click("#send-command [type=submit]").await;
    browser.wait_text(".answer-number b", "1").await;
    browser.wait_text(".log li[data-offset='1'] .chip.drawn", "InvoiceNumber1").await;
    browser.screenshot("command").await;
    browser.click("#send-command [type=submit]").await;
    browser.wait_text(".result", "Done before").await;
    browser.fill("#send-command [name=body]", "{\"changes\": [").await;
    browser.wait_text("#body-state", "Not JSON yet").await;
    browser.fill("#send-command [name=body]", "null").await;
    browser.click("#send-command [type=submit]").await;
    browser.wait_text(".problem", "The body has to be a JSON object").await;
    browser.fill("#send-command [name=body]", "{\"changes\": []}").await;
    browser.click("#send-command [type=submit]").await;
    browser.wait_text(".problem", "The command changes nothing: send at least one change").await;
    browser.screenshot("command-problem").await;
    let hash = browser.value("location.hash").await;
    let path = hash.as_str().unwrap().trim_start_matches("#/").trim_end_matches("/command").to_owned();
    format!("/v1/{path}")
}

/// Sends commands while the page follows the log: no event is missing, none is shown twice, the page stays small.
async fn follow_the_log(browser: &mut Browser, server: &mut Server, env: &Env, workspace: &str) {
    let commands = format!("{workspace}/commands");
    browser.leave_input().await;
    browser.press("1").await;
    browser.wait_text(".tabs [aria-current]", "Events").await;
    browser.wait_text(".log-tools", "following live").await;
    for _ in 0..5 {
        server.post(&commands, &invoice()).await;
    }
    browser.wait("document.querySelector('.log li').dataset.offset === '6'").await;
    browser.press("p").await;
    browser.wait_text(".log-tools", "paused").await;
    server.post(&commands, &invoice()).await;
    browser.press("p").await;
    browser.wait("document.querySelector('.log li').dataset.offset === '7'").await;
    let offsets = "[...document.querySelectorAll('.log li')].map((row) => row.dataset.offset).join()";
    assert_eq!(browser.value(offsets).await, "7,6,5,4,3,2,1");
    // The server restarts: the page continues after the last event that it has shown.
    server.interrupt(env).await;
    server.post(&commands, &invoice()).await;
    browser.wait("document.querySelector('.log li').dataset.offset === '8'").await;
    browser.wait_text(".log-tools", "following live").await;
    assert_eq!(browser.value(offsets).await, "8,7,6,5,4,3,2,1");
    for _ in 0..249 {
        server.post(&commands, &invoice()).await;
    }
    browser.wait("document.querySelector('.log li').dataset.offset === '257'").await;
    assert_eq!(browser.value("document.querySelectorAll('.log li').length").await, 200);
    browser.value("document.querySelector('.log summary').click()").await;
    browser.wait_text(".log .json", "\"workspace_offset\": 257").await;
    browser.screenshot("events").await;
    // Opened again, the page finds the end of a log that is longer than one page.
    browser.open_page("#/").await;
    browser.open_page(&format!("#{}/events", workspace.trim_start_matches("/v1"))).await;
    browser.wait("document.querySelector('.log li').dataset.offset === '257'").await;
    browser.click(".table-foot .button").await;
    browser.wait("document.querySelector('.log li:last-child').dataset.offset === '158'").await;
}

async fn read_records_and_sequences(browser: &mut Browser, workspace: &str) {
    let place = format!("#{}", workspace.trim_start_matches("/v1"));
    browser.open_page(&format!("{place}/records")).await;
    browser.wait("document.querySelectorAll('tbody tr').length === 50").await;
    browser.click(".table-foot .button").await;
    browser.wait("document.querySelectorAll('tbody tr').length === 100").await;
    browser.screenshot("records").await;
    browser.click("tbody a").await;
    browser.wait_text("h1", "Invoice 322680000131072").await;
    browser.open_page(&format!("{place}/sequences")).await;
    browser.wait_text("[data-sequence=InvoiceNumber] .figures", "next258").await;
    browser.wait_text("[data-sequence=InvoiceNumber] .outlook", "a day").await;
    browser.click("[aria-label='Audit InvoiceNumber']").await;
    browser.wait_text(".audit", "Complete: no gaps, no duplicates").await;
    browser.wait_text(".audit", "numbers257").await;
    browser.screenshot("sequences").await;
    browser.fill("[data-sequence=InvoiceNumber] [name=number]", "1").await;
    browser.click("[data-sequence=InvoiceNumber] form button").await;
    browser.wait_text("[data-sequence=InvoiceNumber] .result", "key first").await;
}

async fn number_a_series(browser: &mut Browser) {
    browser.open_page("#/series").await;
    browser.wait_text(".empty", "No series yet").await;
    browser.fill("#create-series [name=name]", "acme.invoices").await;
    browser.fill("#create-series [name=format]", "INV-{number:06}").await;
    browser.wait_text("#create-series .chip", "INV-000001").await;
    browser.click("#create-series button").await;
    browser.wait_text("h1", "acme.invoices").await;
    browser.click("#take-next [type=submit]").await;
    browser.wait_text(".display", "INV-000001").await;
    browser.wait_text("tbody", "INV-000001").await;
    browser.leave_input().await;
    browser.wait("!document.querySelector('#take-next [type=submit]').disabled").await;
    browser.press("n").await;
    browser.wait_text(".display", "INV-000002").await;
    browser.fill("[name=void]", "2").await;
    browser.fill("[name=reason]", "misprint").await;
    browser.value("document.querySelector('[name=reason]').form.requestSubmit()").await;
    browser.wait_text("tbody", "misprint").await;
    browser.click(".page-head .button").await;
    browser.wait_text(".audit", "Complete").await;
    browser.wait_text(".audit", "2: misprint").await;
    browser.screenshot("series").await;
}

async fn allocate_a_block(browser: &mut Browser) {
    browser.open_page("#/blocks").await;
    browser.wait_text(".empty", "No block sequences yet").await;
    browser.fill("#create-blocks [name=name]", "orders").await;
    browser.click("#create-blocks button").await;
    browser.wait_text("h1", "orders").await;
    browser.click("#allocate button").await;
    browser.wait_text(".display", "1 – 100").await;
    browser.wait_text(".figures", "next101").await;
}

/// Markup in names is shown as text.
async fn show_markup_as_text(browser: &mut Browser, server: &Server) {
    let name = "<img src=x onerror=alert(1)>";
    create_workspace(server, name).await;
    browser.open_page("#/apps/shop").await;
    browser.wait_text("tbody", name).await;
    assert_eq!(browser.value("document.querySelectorAll('main img').length").await, 0);
}

/// After the first token is made the server requires one; the page asks for it, and keeps it for its tab only.
async fn ask_for_a_token(browser: &mut Browser, server: &Server) {
    let all = server.post("/v1/tokens", &json!({"scopes": ["*:admin"]})).await["secret"].clone();
    let bearer = format!("Bearer {}", all.as_str().unwrap());
    let (headers, few) = ([("Authorization", bearer.as_str())], json!({"scopes": ["shop:read"]}));
    let few = server.send("POST", "/v1/tokens", &headers, Some(&few)).await;
    let few = few.body["secret"].clone();

    browser.size(1280, 900).await;
    browser.call("Page.reload", json!({})).await;
    browser.fill("dialog [name=token]", "not-a-token").await;
    browser.value("document.querySelector('dialog form').requestSubmit()").await;
    browser.wait_text("dialog", "The token is not known").await;
    browser.screenshot("token").await;
    browser.fill("dialog [name=token]", few.as_str().unwrap()).await;
    browser.value("document.querySelector('dialog form').requestSubmit()").await;
    browser.open_page("#/").await;
    browser.wait_text(".page-head", "use a token with the scope *:read").await;
    browser.open_page("#/series").await;
    browser.wait_text(".problem", "The token lacks the scope series:read").await;

    browser.value("sessionStorage.clear()").await;
    browser.call("Page.reload", json!({})).await;
    browser.fill("dialog [name=token]", all.as_str().unwrap()).await;
    browser.value("document.querySelector('dialog form').requestSubmit()").await;
    browser.wait_text("tbody", "acme.invoices").await;
    browser.wait_text(".readiness", "ready").await;
    let kept = browser.value("[location.href, ...Object.values(localStorage), document.cookie].join()").await;
    assert!(!kept.as_str().unwrap().contains(all.as_str().unwrap()), "for this tab only: {kept}");
}

async fn switch_themes(browser: &mut Browser, base: &str) {
    let colour = "getComputedStyle(document.body).backgroundColor";
    browser.set_colour_scheme("light").await;
    let light = browser.value(colour).await;
    browser.set_colour_scheme("dark").await;
    let dark = browser.value(colour).await;
    assert_ne!(light, dark, "the system's setting decides");
    browser.leave_input().await;
    browser.press("t").await;
    assert_eq!(browser.value(colour).await, light, "unless the reader has chosen a theme");
    browser.call("Page.reload", json!({})).await;
    browser.open(base).await;
    assert_eq!(browser.value(colour).await, light, "the choice is stored");
    browser.leave_input().await;
    browser.press("t").await;
    assert_eq!(browser.value(colour).await, dark);
    browser.wait("document.querySelector('.chart .line').getAttribute('d') !== ''").await;
    browser.screenshot("overview-dark").await;
}

async fn fit_a_phone(browser: &mut Browser, workspace: &str) {
    browser.set_colour_scheme("light").await;
    browser.size(380, 800).await;
    let place = format!("#{}", workspace.trim_start_matches("/v1"));
    let tabs = ["events", "records", "sequences", "command"].map(|tab| format!("{place}/{tab}"));
    let pages =
        ["#/", "#/apps", "#/apps/shop", "#/apps/shop/partitions/0", "#/series", "#/series/acme.invoices"];
    let pages = pages.into_iter().chain(["#/blocks", "#/blocks/orders", "#/workflows"]);
    let pages = pages.chain(["#/workflows/tea", "#/workflows/patient"]).map(str::to_owned);
    for page in pages.chain(tabs) {
        browser.open_page(&page).await;
        let width = browser.value("document.documentElement.scrollWidth").await;
        assert!(width.as_u64().unwrap() <= 380, "{page} is {width} wide");
        browser.screenshot(&format!("phone{}", page.replace(['#', '/'], "-"))).await;
    }
}
