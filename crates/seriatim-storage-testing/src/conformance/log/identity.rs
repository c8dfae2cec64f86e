//! The identity of a log.

use std::collections::BTreeSet;

use super::reopen;
use crate::conformance::{Subject, TASKS, join};
use seriatim_storage::{Log, LogIdentity};

fn identity(value: usize) -> LogIdentity {
    LogIdentity::from_bytes([u8::try_from(value).unwrap(); 16])
}

pub async fn a_log_has_no_identity_until_it_gets_one(subject: Subject<Log>) {
    let mut log = subject.open().await;
    for _ in 0..2 {
        assert_eq!(log.identity().await, Ok(None));
        log = reopen(&subject, log).await;
    }
    assert_eq!(log.identify(identity(1)).await, Ok(identity(1)));
    assert_eq!(log.identity().await, Ok(Some(identity(1))));
}

pub async fn an_identity_is_created_once_and_kept_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    for later in 1..4 {
        assert_eq!(log.identify(identity(later)).await, Ok(identity(1)));
        assert_eq!(log.identity().await, Ok(Some(identity(1))));
        log = reopen(&subject, log).await;
        assert_eq!(log.identity().await, Ok(Some(identity(1))));
    }
}

pub async fn of_many_that_identify_a_log_all_get_the_identity_of_the_first(subject: Subject<Log>) {
    let log = subject.open().await;
    let answers = join(subject.tasks(TASKS, |task| {
        let log = log.clone();
        async move { log.identify(identity(task)).await.unwrap() }
    }))
    .await;
    let different: BTreeSet<_> = answers.iter().map(|identity| *identity.as_bytes()).collect();
    assert_eq!(different.len(), 1, "{answers:?}");
    assert_eq!(log.identity().await, Ok(Some(answers[0])));
}
