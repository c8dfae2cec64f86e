//! Exactly once over HTTP: every request is sent two or three times under its key, with delays. No key takes two numbers, and
//! series that many clients use for the first time at once are one series each.
//!
//! Some seconds; with `SERIATIM_FULL=1` 512 clients and 60 seconds (add `--release -- --nocapture` to see the counts).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the counts are the result")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use seriatim_client::api::NextRequest;
use seriatim_client::{Client, ClientOptions};
use seriatim_env::Env;
use support::Folder;

/// The names that are used in one second.
const NAMES: u64 = 8;

fn scale() -> (usize, u64) {
    if std::env::var_os("SERIATIM_FULL").is_some() { (512, 60) } else { (128, 4) }
}

/// Takes numbers until the time is over, each request sent several times. Returns how many numbers it took from each series.
async fn take(env: Env, client: Client, name: usize, seconds: u64) -> BTreeMap<String, u64> {
    let (begun, mut taken) = (env.instant(), BTreeMap::new());
    for count in 0.. {
        let second = (env.instant() - begun).as_secs();
        if second >= seconds {
            break;
        }
        // New names each second, so that first uses race too.
        let series = format!("s{second}-{}", env.random_below(NAMES));
        let key = format!("client {name}, request {count}");
        let sends: Vec<_> = (0..2 + env.random_below(2))
            .map(|_| {
                let (env, client) = (env.clone(), client.clone());
                let (series, key) = (series.clone(), key.clone());
                let delay = Duration::from_micros(env.random_below(30_000));
                env.clone().spawn(async move {
                    env.sleep(delay).await;
                    client.series(&series).with_key(&key).take(&NextRequest::default()).await.unwrap()
                })
            })
            .collect();
        let mut answers = Vec::new();
        for send in sends {
            answers.push(send.await.unwrap());
        }
        let first = answers[0].number;
        assert!(answers.iter().all(|answer| answer.number == first), "{key}: {answers:?}");
        let new = answers.iter().filter(|answer| !answer.repeated).count();
        assert!(new <= 1, "{key} was executed {new} times: {answers:?}");
        *taken.entry(series).or_insert(0) += 1;
    }
    taken
}

#[test]
fn a_key_takes_one_number_over_http_however_often_it_is_sent() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (folder, env, (clients, seconds)) = (Folder::new(), Env::real(), scale());
        let server = folder.serve(&["--free-bytes-min", "0"]);
        let options = ClientOptions { retry_timeout: Duration::from_secs(120), ..ClientOptions::default() };
        let client = Client::connect(env.clone(), server.url.parse().unwrap(), options).unwrap();
        let tasks: Vec<_> =
            (0..clients).map(|name| env.spawn(take(env.clone(), client.clone(), name, seconds))).collect();
        let mut taken: BTreeMap<String, u64> = BTreeMap::new();
        for task in tasks {
            for (series, count) in task.await.unwrap() {
                *taken.entry(series).or_insert(0) += count;
            }
        }
        for (series, count) in &taken {
            let state = client.series(series).state().await.unwrap();
            assert_eq!(state.next, Some(count + 1), "{series}: as many numbers as keys");
        }
        let keys: u64 = taken.values().sum();
        println!(
            "{clients} clients, {seconds} s: {keys} keys, {} series; none took two numbers",
            taken.len()
        );
        folder.run(&["doctor", "--server", &server.url]).fine();
        assert_eq!(server.terminate().0, 0);
    });
}
