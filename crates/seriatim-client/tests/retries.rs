//! Coming again, in simulation: a server that is scripted, and a clock that jumps.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use seriatim_client::api::{Code, CreateToken, Problem};
use seriatim_client::{Body, Client, ClientError, ClientOptions, Transport, TransportError};
use seriatim_env::{Env, simulate};
use seriatim_types::ErrorKind;

/// What the server does with a request.
#[derive(Debug, Clone)]
enum Does {
    Answers(&'static str),
    Refuses(Code, Option<u64>),
    IsGone,
    BreaksOff,
    BreaksOffInside(&'static str),
    /// Never answers.
    Sleeps,
}

#[derive(Debug, Default)]
struct Script {
    does: Mutex<VecDeque<Does>>,
    /// Path, idempotency key and last event id of each request.
    asked: Mutex<Vec<(String, String, String)>>,
}

fn lost(sent: bool) -> TransportError {
    TransportError { sent, insecure: false, reason: "it broke".to_owned() }
}

#[async_trait]
impl Transport for Script {
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Body>, TransportError> {
        let header = |name: &str| {
            request.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
        };
        let asked = (request.uri().to_string(), header("idempotency-key"), header("last-event-id"));
        self.asked.lock().unwrap().push(asked);
        let does = self.does.lock().unwrap().pop_front().expect("it was asked more often than expected");
        let whole = |status: u16, text: String| {
            let body = stream::iter([Ok(Bytes::from(text))]).boxed();
            http::Response::builder().status(status).body(body).unwrap()
        };
        match does {
            Does::Answers(text) => Ok(whole(200, text.to_owned())),
            Does::Refuses(code, hint) => {
                let problem = serde_json::to_string(&Problem::new(code, "no")).unwrap();
                let mut response = whole(code.status(), problem);
                if let Some(seconds) = hint {
                    response.headers_mut().insert("retry-after", seconds.to_string().parse().unwrap());
                }
                Ok(response)
            }
            Does::IsGone => Err(lost(false)),
            Does::BreaksOff => Err(lost(true)),
            Does::BreaksOffInside(text) => {
                let body = stream::iter([Ok(Bytes::from(text)), Err(lost(true))]).boxed();
                Ok(http::Response::new(body))
            }
            Does::Sleeps => std::future::pending().await,
        }
    }

    fn place(&self) -> String {
        "the script".to_owned()
    }
}

const TAKEN: &str = r#"{"series":"s","number":7,"count":1,"text":"7","repeated":false}"#;

fn client(env: &Env, does: impl IntoIterator<Item = Does>) -> (Client, Arc<Script>) {
    client_with(env, does, ClientOptions::default())
}

fn client_with(
    env: &Env,
    does: impl IntoIterator<Item = Does>,
    options: ClientOptions,
) -> (Client, Arc<Script>) {
    let script = Arc::new(Script { does: Mutex::new(does.into_iter().collect()), ..Script::default() });
    (Client::with_transport(env.clone(), script.clone(), options), script)
}

#[test]
fn a_change_is_repeated_with_the_same_key_until_it_is_answered() {
    simulate(1, |env| async move {
        let does = [
            Does::Refuses(Code::Busy, Some(1)),
            Does::IsGone,
            Does::BreaksOff,
            Does::BreaksOffInside("{\"series\""),
            Does::Refuses(Code::InDoubt, None),
            Does::Sleeps,
            Does::Answers(TAKEN),
        ];
        let patience = Duration::from_secs(600);
        let options = ClientOptions { patience, unreachable_patience: patience, ..ClientOptions::default() };
        let (client, script) = client_with(&env, does, options);
        let started = env.instant();
        assert_eq!(client.series("s").next().await.unwrap().number, 7);
        assert!(
            env.instant() - started >= Duration::from_millis(750),
            "it waits as long as the server says, give or take"
        );
        let asked = script.asked.lock().unwrap();
        assert_eq!(asked.len(), 7);
        assert!(asked[0].1.len() == 32 && asked.iter().all(|ask| *ask == asked[0]), "{asked:?}");
    });
}

#[test]
fn two_changes_have_two_keys() {
    simulate(2, |env| async move {
        let (client, script) = client(&env, [Does::Answers(TAKEN), Does::Answers(TAKEN)]);
        client.series("s").next().await.unwrap();
        client.series("s").next().await.unwrap();
        let asked = script.asked.lock().unwrap();
        assert_ne!(asked[0].1, asked[1].1);
    });
}

#[test]
fn what_has_no_key_is_not_repeated_if_it_may_have_been_done() {
    simulate(3, |env| async move {
        let request = CreateToken { scopes: vec!["*:admin".to_owned()], note: None };
        let (doubtful, script) = client(&env, [Does::BreaksOff]);
        let error = doubtful.admin().create_token(&request).await.unwrap_err();
        assert_eq!((error.kind(), script.asked.lock().unwrap().len()), (ErrorKind::InDoubt, 1));
        let answer = r#"{"id":"1","scopes":[],"at":"now","secret":"s"}"#;
        let (certain, script) =
            client(&env, [Does::IsGone, Does::Refuses(Code::Busy, Some(1)), Does::Answers(answer)]);
        assert_eq!(certain.admin().create_token(&request).await.unwrap().token.id, "1");
        assert_eq!(script.asked.lock().unwrap().len(), 3);
    });
}

#[test]
fn patience_ends() {
    simulate(4, |env| async move {
        let (client, script) = client(&env, vec![Does::Refuses(Code::Busy, Some(1)); 100]);
        let started = env.instant();
        let error = client.series("s").next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        let (elapsed, asked) = (env.instant() - started, script.asked.lock().unwrap().len());
        assert!(elapsed <= Duration::from_secs(31) && asked > 20 && asked < 45, "{elapsed:?} {asked}");
    });
}

#[test]
fn what_is_final_is_not_repeated() {
    simulate(5, |env| async move {
        for code in
            [Code::Invalid, Code::Conflict, Code::Fenced, Code::NotFound, Code::Internal, Code::Unauthorized]
        {
            let (client, script) = client(&env, [Does::Refuses(code, None)]);
            assert!(matches!(client.series("s").next().await, Err(ClientError::Refused(_))));
            assert_eq!(script.asked.lock().unwrap().len(), 1, "{code:?}");
        }
        let (client, _) = client(&env, [Does::Answers("<html>")]);
        let error = client.series("s").next().await.unwrap_err();
        assert!(error.to_string().starts_with("the script does not answer as seriatim does: "), "{error}");
    });
}

fn event(offset: u64) -> String {
    let event = format!(
        r#"{{"partition":0,"partition_offset":{offset},"workspace":5,"workspace_offset":{offset},"at":"now","command":"c","args":null,"changes":[]}}"#
    );
    format!("id: {offset}\ndata: {event}\n\n")
}

#[test]
fn a_log_is_followed_over_broken_streams() {
    simulate(6, |env| async move {
        let first: &'static str = format!("{}{}id: 3\ndata: {{", event(1), event(2)).leak();
        let second: &'static str = format!(": alive\n\n{}event: end\ndata: 4\n\n", event(3)).leak();
        let third: &'static str = format!("{}{}", event(3), event(4)).leak();
        let does = [
            Does::BreaksOffInside(first),
            Does::IsGone,
            Does::BreaksOffInside(second),
            Does::Answers(third),
            Does::Refuses(Code::Forbidden, None),
        ];
        let (client, script) = client(&env, does);
        let mut log = client.application("shop").workspace(5).follow(1);
        for offset in 1..=4 {
            assert_eq!(log.next().await.unwrap().workspace_offset, offset);
        }
        assert_eq!(log.next().await.unwrap_err().kind(), ErrorKind::Forbidden);
        let asked = script.asked.lock().unwrap();
        let last: Vec<&str> = asked.iter().map(|(_, _, last)| &**last).collect();
        assert_eq!(last, ["", "2", "2", "3", "4"]);
        assert_eq!(asked[0].0, "/v1/apps/shop/workspaces/5/events?from=1");
    });
}
