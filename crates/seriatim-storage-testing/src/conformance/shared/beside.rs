//! What is next to the log: its identity and its bulletin.

use super::handles;
use crate::conformance::{Subject, TASKS, join};
use seriatim_storage::{Log, LogIdentity};

pub async fn all_handles_have_the_same_identity(subject: Subject<Log>) {
    let logs: [Log; 4] = handles(&subject).await;
    for log in &logs {
        assert_eq!(log.identity().await, Ok(None));
    }
    let answers =
        join(
            subject.tasks(TASKS, |task| {
                let log = logs[task % logs.len()].clone();
                async move {
                    log.identify(LogIdentity::from_bytes([u8::try_from(task).unwrap(); 16])).await.unwrap()
                }
            }),
        )
        .await;
    assert!(answers.iter().all(|identity| *identity == answers[0]), "{answers:?}");
    for log in [&logs[..], &[subject.open().await]].concat() {
        assert_eq!(log.identity().await, Ok(Some(answers[0])));
    }
}

pub async fn the_bulletin_is_shared_by_all_handles(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    one.bulletin().put("node/1", b"a").await.unwrap();
    assert_eq!(other.bulletin().get("node/1").await.unwrap().unwrap(), "a");
    other.bulletin().put("node/2", b"b").await.unwrap();
    other.bulletin().put("node/1", b"c").await.unwrap();
    assert_eq!(one.bulletin().get("node/1").await.unwrap().unwrap(), "c");
    for log in [&one, &other] {
        let listed = log.bulletin().list("node/").await.unwrap();
        assert_eq!(listed, [("node/1".to_owned(), "c".into()), ("node/2".to_owned(), "b".into())]);
    }
    one.bulletin().remove("node/2").await.unwrap();
    assert_eq!(other.bulletin().get("node/2").await, Ok(None));
    assert_eq!(other.bulletin().list("").await.unwrap().len(), 1);
}
