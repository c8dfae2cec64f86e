//! Retries, in simulation: a scripted server and a simulated clock.
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
enum Reaction {
    Answers(&'static str),
    Refuses(Code, Option<u64>),
    IsUnreachable,
    BreaksOff,
    BreaksOffInside(&'static str),
    /// Never answers.
    IsSilent,
}

#[derive(Debug, Default)]
struct Script {
    reactions: Mutex<VecDeque<Reaction>>,
    /// Path, idempotency key and last event id of each request.
    requests: Mutex<Vec<(String, String, String)>>,
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
        let sent = (request.uri().to_string(), header("idempotency-key"), header("last-event-id"));
        self.requests.lock().unwrap().push(sent);
        let reaction = self
            .reactions
            .lock()
            .unwrap()
            .pop_front()
            .expect("there are more requests than the script expects");
        let whole = |status: u16, text: String| {
            let body = stream::iter([Ok(Bytes::from(text))]).boxed();
            http::Response::builder().status(status).body(body).unwrap()
        };
        match reaction {
            Reaction::Answers(text) => Ok(whole(200, text.to_owned())),
            Reaction::Refuses(code, hint) => {
                let problem = serde_json::to_string(&Problem::new(code, "no")).unwrap();
                let mut response = whole(code.status(), problem);
                if let Some(seconds) = hint {
                    response.headers_mut().insert("retry-after", seconds.to_string().parse().unwrap());
                }
                Ok(response)
            }
            Reaction::IsUnreachable => Err(lost(false)),
            Reaction::BreaksOff => Err(lost(true)),
            Reaction::BreaksOffInside(text) => {
                let body = stream::iter([Ok(Bytes::from(text)), Err(lost(true))]).boxed();
                Ok(http::Response::new(body))
            }
            Reaction::IsSilent => std::future::pending().await,
        }
    }

    fn place(&self) -> String {
        "the script".to_owned()
    }
}

const TAKEN: &str = r#"{"series":"s","number":7,"count":1,"text":"7","repeated":false}"#;

fn client(env: &Env, reactions: impl IntoIterator<Item = Reaction>) -> (Client, Arc<Script>) {
    client_with(env, reactions, ClientOptions::default())
}

fn client_with(
    env: &Env,
    reactions: impl IntoIterator<Item = Reaction>,
    options: ClientOptions,
) -> (Client, Arc<Script>) {
    let script =
        Arc::new(Script { reactions: Mutex::new(reactions.into_iter().collect()), ..Script::default() });
    (Client::with_transport(env.clone(), script.clone(), options), script)
}

#[test]
fn a_change_is_repeated_with_the_same_key_until_it_is_answered() {
    simulate(1, |env| async move {
        let reactions = [
            Reaction::Refuses(Code::Busy, Some(1)),
            Reaction::IsUnreachable,
            Reaction::BreaksOff,
            Reaction::BreaksOffInside("{\"series\""),
            Reaction::Refuses(Code::InDoubt, None),
            Reaction::IsSilent,
            Reaction::Answers(TAKEN),
        ];
        let timeout = Duration::from_secs(600);
        let options = ClientOptions {
            retry_timeout: timeout,
            unreachable_timeout: timeout,
            ..ClientOptions::default()
        };
        let (client, script) = client_with(&env, reactions, options);
        let started = env.instant();
        assert_eq!(client.series("s").next().await.unwrap().number, 7);
        assert!(
            env.instant() - started >= Duration::from_millis(750),
            "the client waits as long as the server says, with jitter"
        );
        let requests = script.requests.lock().unwrap();
        assert_eq!(requests.len(), 7);
        assert!(
            requests[0].1.len() == 32 && requests.iter().all(|request| *request == requests[0]),
            "{requests:?}"
        );
    });
}

#[test]
fn two_changes_have_two_keys() {
    simulate(2, |env| async move {
        let (client, script) = client(&env, [Reaction::Answers(TAKEN), Reaction::Answers(TAKEN)]);
        client.series("s").next().await.unwrap();
        client.series("s").next().await.unwrap();
        let requests = script.requests.lock().unwrap();
        assert_ne!(requests[0].1, requests[1].1);
    });
}

#[test]
fn what_has_no_key_is_not_repeated_if_it_may_have_been_done() {
    simulate(3, |env| async move {
        let request = CreateToken { scopes: vec!["*:admin".to_owned()], note: None };
        let (doubtful, script) = client(&env, [Reaction::BreaksOff]);
        let error = doubtful.admin().create_token(&request).await.unwrap_err();
        assert_eq!((error.kind(), script.requests.lock().unwrap().len()), (ErrorKind::InDoubt, 1));
        let answer = r#"{"id":"1","scopes":[],"at":"now","secret":"s"}"#;
        let (certain, script) = client(
            &env,
            [Reaction::IsUnreachable, Reaction::Refuses(Code::Busy, Some(1)), Reaction::Answers(answer)],
        );
        assert_eq!(certain.admin().create_token(&request).await.unwrap().token.id, "1");
        assert_eq!(script.requests.lock().unwrap().len(), 3);
    });
}

#[test]
fn retries_end_after_the_time_limit() {
    simulate(4, |env| async move {
        let (client, script) = client(&env, vec![Reaction::Refuses(Code::Busy, Some(1)); 100]);
        let started = env.instant();
        let error = client.series("s").next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        let (elapsed, requests) = (env.instant() - started, script.requests.lock().unwrap().len());
        assert!(
            elapsed <= Duration::from_secs(31) && requests > 20 && requests < 45,
            "{elapsed:?} {requests}"
        );
    });
}

#[test]
fn what_is_final_is_not_repeated() {
    simulate(5, |env| async move {
        for code in
            [Code::Invalid, Code::Conflict, Code::Fenced, Code::NotFound, Code::Internal, Code::Unauthorized]
        {
            let (client, script) = client(&env, [Reaction::Refuses(code, None)]);
            assert!(matches!(client.series("s").next().await, Err(ClientError::Refused(_))));
            assert_eq!(script.requests.lock().unwrap().len(), 1, "{code:?}");
        }
        let (client, _) = client(&env, [Reaction::Answers("<html>")]);
        let error = client.series("s").next().await.unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the script does not answer like a Seriatim server of this version: "),
            "{error}"
        );
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
        let reactions = [
            Reaction::BreaksOffInside(first),
            Reaction::IsUnreachable,
            Reaction::BreaksOffInside(second),
            Reaction::Answers(third),
            Reaction::Refuses(Code::Forbidden, None),
        ];
        let (client, script) = client(&env, reactions);
        let mut log = client.application("shop").workspace(5).follow(1);
        for offset in 1..=4 {
            assert_eq!(log.next().await.unwrap().workspace_offset, offset);
        }
        assert_eq!(log.next().await.unwrap_err().kind(), ErrorKind::Forbidden);
        let requests = script.requests.lock().unwrap();
        let last: Vec<&str> = requests.iter().map(|(_, _, last)| &**last).collect();
        assert_eq!(last, ["", "2", "2", "3", "4"]);
        assert_eq!(requests[0].0, "/v1/apps/shop/workspaces/5/events?from=1");
    });
}
