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

pub async fn a_list_has_the_values_whose_keys_begin_with_its_prefix_in_order(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let keys = ["node/10", "node/2", "node", "nodes/1", "m", "node/Ä", "o", "node/"];
    for (value, key) in (0_u8..).zip(keys) {
        log.bulletin().put(key, &[value]).await.unwrap();
    }
    for _ in 0..2 {
        let all = ["m", "node", "node/", "node/10", "node/2", "node/Ä", "nodes/1", "o"];
        for (prefix, expected) in [("", &all[..]), ("node/", &all[2..6]), ("node/1", &all[3..4]), ("x", &[])]
        {
            let listed = log.bulletin().list(prefix).await.unwrap();
            let found: Vec<_> = listed.iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!(found, expected, "keys that begin with {prefix:?}");
            for (key, value) in listed {
                let expected = keys.iter().position(|other| *other == key).unwrap();
                assert_eq!(value[..], [u8::try_from(expected).unwrap()]);
            }
        }
        log = reopen(&subject, log).await;
    }
}

pub async fn a_removed_value_is_absent_also_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    log.bulletin().put("a", b"1").await.unwrap();
    log.bulletin().put("ab", b"2").await.unwrap();
    log.bulletin().remove("a").await.unwrap();
    // Removing what is not there is allowed.
    log.bulletin().remove("a").await.unwrap();
    log.bulletin().remove("never put").await.unwrap();
    for _ in 0..2 {
        assert_eq!(log.bulletin().get("a").await, Ok(None));
        assert_eq!(log.bulletin().get("ab").await.unwrap().unwrap(), "2");
        assert_eq!(log.bulletin().list("").await.unwrap().len(), 1);
        log = reopen(&subject, log).await;
    }
    log.bulletin().put("a", b"3").await.unwrap();
    assert_eq!(log.bulletin().get("a").await.unwrap().unwrap(), "3");
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
    assert_eq!(bulletin.list("").await, Err(BulletinError::Closed));
    assert_eq!(bulletin.remove("a").await, Err(BulletinError::Closed));
    let log = subject.open().await;
    assert_eq!(log.bulletin().get("a").await.unwrap().unwrap(), "1");
}
