//! Chromium without a window, controlled through its debugging pipe: JSON messages, each ended by a zero byte.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use seriatim_env::Env;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A browser with one page open. It ends when this is dropped.
pub(crate) struct Browser {
    env: Env,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    calls: u64,
    /// Messages that are not answers to a call.
    events: Vec<Value>,
    /// The folder for screenshots; none: no screenshots.
    shots: Option<PathBuf>,
    _profile: tempfile::TempDir,
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut all = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.find(|file| file.is_file())
}

impl Browser {
    /// Starts Chromium, if it is installed.
    pub(crate) async fn start(env: &Env) -> Option<Self> {
        let program = program()?;
        let profile = tempfile::tempdir().unwrap();
        // The pipe is descriptors 3 and 4 of the browser: the shell makes them of its own input and output.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2"]).arg(program).args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let shots = std::env::var_os("SERIATIM_SHOTS").map(PathBuf::from);
        let mut browser = Self {
            env: env.clone(),
            child,
            input,
            output,
            session: None,
            calls: 0,
            events: Vec::new(),
            shots,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach).await;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for part in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{part}.enable"), json!({})).await;
        }
        browser.size(1280, 900).await;
        Some(browser)
    }

    /// Calls a method of the browser and waits for the answer.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).await.unwrap();
        let env = self.env.clone();
        let answer = env.timeout(CALL_TIMEOUT, self.answer()).await;
        let answer = answer.unwrap_or_else(|_| panic!("the browser does not answer {method}"));
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    async fn answer(&mut self) -> Value {
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).await.unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let message: Value = serde_json::from_slice(&bytes).unwrap();
            if message["id"] == self.calls {
                return message;
            }
            self.events.push(message);
        }
    }

    /// The value of an expression on the page.
    pub(crate) async fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let found = self.call("Runtime.evaluate", params).await;
        let thrown = &found["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        found["result"]["value"].clone()
    }

    /// Waits until an expression is true on the page.
    pub(crate) async fn wait(&mut self, expression: &str) {
        let script = format!(
            "new Promise((resolve) => {{
               const end = Date.now() + 30000;
               const check = () => {{
                 let found = false;
                 try {{ found = {expression}; }} catch {{}}
                 if (found || Date.now() > end) resolve(Boolean(found)); else setTimeout(check, 20);
               }};
               check();
             }})"
        );
        if self.value(&script).await != json!(true) {
            let page = self.value("location.hash + '\\n' + document.body.innerText").await;
            panic!("waited without result for {expression}\n{}\n{:?}", page.as_str().unwrap(), self.errors());
        }
    }

    /// Waits until an element with this selector contains this text.
    pub(crate) async fn wait_text(&mut self, selector: &str, text: &str) {
        let expression = format!(
            "[...document.querySelectorAll({})].some((element) => element.textContent.includes({}))",
            json!(selector),
            json!(text)
        );
        self.wait(&expression).await;
    }

    /// Waits until the element exists, and clicks on it.
    pub(crate) async fn click(&mut self, selector: &str) {
        let selector = json!(selector);
        self.wait(&format!("document.querySelector({selector})?.disabled === false || document.querySelector({selector})?.href")).await;
        self.value(&format!("document.querySelector({selector}).click()")).await;
    }

    /// Replaces the content of an input by typing.
    pub(crate) async fn fill(&mut self, selector: &str, text: &str) {
        let selector = json!(selector);
        self.wait(&format!("document.querySelector({selector}) !== null")).await;
        let select = format!(
            "(() => {{ const input = document.querySelector({selector}); input.focus(); input.select(); }})()"
        );
        self.value(&select).await;
        self.call("Input.insertText", json!({"text": text})).await;
    }

    /// Presses a key.
    pub(crate) async fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Escape" => 27,
            _ => 0,
        };
        let mut down = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if key.chars().count() == 1 {
            down["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", down).await;
        let up = json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", up).await;
    }

    /// Opens an address.
    pub(crate) async fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({"url": address})).await;
        self.wait("document.readyState === 'complete' && document.querySelector('main h1') !== null").await;
    }

    /// Opens another page of the console, and waits until it is loaded.
    pub(crate) async fn open_page(&mut self, hash: &str) {
        let turn = format!(
            "document.querySelector('main').setAttribute('aria-busy', 'true'); location.hash = {};",
            json!(hash)
        );
        self.value(&turn).await;
        self.wait("!document.querySelector('main').hasAttribute('aria-busy')").await;
    }

    /// Removes the focus from the input, so that keys are shortcuts.
    pub(crate) async fn leave_input(&mut self) {
        self.value("document.activeElement?.blur()").await;
    }

    pub(crate) async fn size(&mut self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Sets the colour scheme that the system prefers: `light` or `dark`.
    pub(crate) async fn set_colour_scheme(&mut self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features).await;
    }

    /// Stores a screenshot of the page, if `SERIATIM_SHOTS` names a folder.
    pub(crate) async fn screenshot(&mut self, name: &str) {
        let Some(folder) = self.shots.clone() else { return };
        let taken = self.call("Page.captureScreenshot", json!({"format": "png"})).await;
        let bytes = decode_base64(taken["data"].as_str().unwrap());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    /// Errors that the page has caused: exceptions, violations of its policy, error answers.
    pub(crate) fn errors(&self) -> Vec<String> {
        let error = |message: &Value| match message["method"].as_str()? {
            "Runtime.exceptionThrown" => Some(message["params"]["exceptionDetails"].to_string()),
            "Log.entryAdded" if message["params"]["entry"]["level"] == "error" => {
                let entry = &message["params"]["entry"];
                Some(format!("{} {}", entry["text"].as_str()?, entry["url"].as_str().unwrap_or_default()))
            }
            "Runtime.consoleAPICalled" if message["params"]["type"] == "error" => {
                Some(message["params"]["args"].to_string())
            }
            _ => None,
        };
        self.events.iter().filter_map(error).collect()
    }

    pub(crate) async fn close(mut self) {
        self.session = None;
        self.call("Browser.close", json!({})).await;
        self.child.wait().await.unwrap();
    }
}

fn decode_base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text.bytes().filter_map(|byte| LETTERS.iter().position(|letter| *letter == byte));
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0_usize);
    for value in values {
        held = (held << 6 | value) & 0xfff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap());
        }
    }
    bytes
}
