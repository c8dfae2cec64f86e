//! The bulletin next to the log.

use super::reopen;
use crate::conformance::{Subject, TASKS, join};
use seriatim_storage::{BULLETIN_KEY_BYTES_MAX, BULLETIN_VALUE_BYTES_MAX, BulletinError, Log};

pub async fn the_value_posted_last_is_read(subject: Subject<Log>) {
    let log = subject.open().await;
    let bulletin = log.bulletin();
    assert_eq!(bulletin.get("a").await, Ok(None));
    bulletin.put("a", b"1").await.unwrap();
    bulletin.put("b", b"").await.unwrap();
    bulletin.put("a", b"2").await.unwrap();
    assert_eq!(bulletin.get("a").await.unwrap().unwrap(), "2");
    assert_eq!(bulletin.get("b").await.unwrap().unwrap(), "");
    assert_eq!(bulletin.get("ab").await, Ok(None));
}

pub async fn posted_values_are_there_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    for session in 0..3_u8 {
        log.bulletin().put("last", &[session]).await.unwrap();
        log.bulletin().put(&format!("of {session}"), &[session]).await.unwrap();
        log = reopen(&subject, log).await;
        assert_eq!(log.bulletin().get("last").await.unwrap().unwrap()[..], [session]);
        for earlier in 0..=session {
            assert_eq!(log.bulletin().get(&format!("of {earlier}")).await.unwrap().unwrap()[..], [earlier]);
        }
    }
}

pub async fn posts_of_many_tasks_are_all_kept(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let posts = subject.tasks(TASKS, |task| {
        let bulletin = log.bulletin();
        async move {
            for round in 0..20_u8 {
                bulletin.put(&format!("task {task}"), &[round]).await.unwrap();
                assert_eq!(bulletin.get(&format!("task {task}")).await.unwrap().unwrap()[..], [round]);
            }
        }
    });
    join(posts).await;
    log = reopen(&subject, log).await;
    for task in 0..TASKS {
        assert_eq!(log.bulletin().get(&format!("task {task}")).await.unwrap().unwrap()[..], [19]);
    }
}

pub async fn a_post_that_is_too_large_is_refused(subject: Subject<Log>) {
    let log = subject.open().await;
    let bulletin = log.bulletin();
    let (key, value) = ("k".repeat(BULLETIN_KEY_BYTES_MAX), vec![0xff; BULLETIN_VALUE_BYTES_MAX]);
    bulletin.put(&key, &value).await.unwrap();
    let too_large = |put: Result<(), BulletinError>| matches!(put, Err(BulletinError::TooLarge { .. }));
    assert!(too_large(bulletin.put(&format!("{key}k"), b"").await));
    assert!(too_large(bulletin.put(&key, &[&value[..], b"x"].concat()).await));
    assert_eq!(bulletin.get(&key).await.unwrap().unwrap()[..], value);
}

pub async fn a_bulletin_is_closed_with_its_log(subject: Subject<Log>) {
    let log = subject.open().await;
    let bulletin = log.bulletin();
    bulletin.put("a", b"1").await.unwrap();
    log.close().await.unwrap();
    assert_eq!(bulletin.put("a", b"2").await, Err(BulletinError::Closed));
    assert_eq!(bulletin.get("a").await, Err(BulletinError::Closed));
    let log = subject.open().await;
    assert_eq!(log.bulletin().get("a").await.unwrap().unwrap(), "1");
}
