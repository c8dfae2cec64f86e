//! Scanning.

use seriatim_types::limits;

use super::{key, keys, nth};
use crate::conformance::Subject;
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Store};

/// Names whose order by bytes differs from most other orders.
const NAMES: [&[u8]; 12] =
    [b"", b"\0", b"\0\0", b"\0\xff", b"\x01", b"A", b"a", b"a\0", b"ab", b"b", b"\x80", b"\xff\xff"];

async fn with_names(subject: &Subject<Store>) -> Store {
    let store = subject.open().await;
    // Written from both ends, so that they are not written in the order of the keys.
    for (first, last) in NAMES.iter().zip(NAMES.iter().rev()) {
        store.put(key(last), last).await.unwrap();
        store.put(key(first), first).await.unwrap();
    }
    store
}

async fn with_numbers(subject: &Subject<Store>, count: usize) -> Store {
    let store = subject.open().await;
    let mut batch = Batch::new();
    for number in (0..count).rev() {
        batch.put(key(&nth(number)), &nth(number * 3));
    }
    store.write(batch, Durability::Buffered).await.unwrap();
    store
}

pub async fn a_scan_ascends_by_bytes(subject: Subject<Store>) {
    let store = with_names(&subject).await;
    let pairs = store.scan(b"p", ClusteringRange::all()).all().await.unwrap();
    assert_eq!(pairs.len(), NAMES.len());
    for ((clustering, value), name) in pairs.iter().zip(NAMES) {
        assert_eq!((&clustering[..], &value[..]), (name, name));
    }
}

pub async fn a_scan_includes_its_start_and_excludes_its_finish(subject: Subject<Store>) {
    let store = with_names(&subject).await;
    // Every pair of bounds, on keys and between them, compared with the definition of a range.
    let mut bounds: Vec<Vec<u8>> = NAMES.iter().map(|name| name.to_vec()).collect();
    bounds.extend([b"@".to_vec(), b"aa".to_vec(), b"\x81".to_vec(), b"\xff".to_vec(), vec![0xff; 3]]);
    for start in &bounds {
        let mut ranges = vec![ClusteringRange::from(start), ClusteringRange::until(start)];
        ranges.extend(bounds.iter().map(|finish| ClusteringRange::new(start, finish)));
        for range in ranges {
            let expected: Vec<_> = NAMES.into_iter().filter(|name| range.contains(name)).collect();
            assert_eq!(keys(&store, b"p", range.clone()).await, expected, "{range:?}");
        }
    }
}

pub async fn an_empty_range_gives_nothing(subject: Subject<Store>) {
    let store = with_names(&subject).await;
    for (start, finish) in [(&b"b"[..], &b"a"[..]), (b"a", b"a"), (b"", b""), (b"\xff\xff\xff", b"\0")] {
        let range = ClusteringRange::new(start, finish);
        assert!(keys(&store, b"p", range.clone()).await.is_empty(), "{range:?}");
        assert_eq!(store.scan(b"p", range).next().await, Ok(None));
    }
}

pub async fn a_scan_by_prefix_gives_what_begins_with_it(subject: Subject<Store>) {
    let store = with_names(&subject).await;
    for prefix in [&b""[..], b"\0", b"a", b"ab", b"\xff", b"\xff\xff", b"zz"] {
        let expected: Vec<_> = NAMES.into_iter().filter(|name| name.starts_with(prefix)).collect();
        assert_eq!(keys(&store, b"p", ClusteringRange::prefix(prefix)).await, expected, "{prefix:?}");
    }
}

pub async fn an_empty_partition_has_nothing_to_scan(subject: Subject<Store>) {
    let store = with_names(&subject).await;
    for partition in [&b""[..], b"o", b"q", b"p\0", b"pp"] {
        assert!(keys(&store, partition, ClusteringRange::all()).await.is_empty());
    }
}

pub async fn a_scan_stays_in_its_partition(subject: Subject<Store>) {
    let store = subject.open().await;
    let partitions: [&[u8]; 9] = [b"", b"\0", b"p", b"p\0", b"p\0\0", b"pa", b"pp", b"p\xff", b"\xff"];
    let mut batch = Batch::new();
    for (number, partition) in partitions.iter().enumerate() {
        for name in NAMES.iter().skip(number % 3) {
            batch.put(Key::new(partition, name), partition);
        }
    }
    store.write(batch, Durability::Buffered).await.unwrap();
    for (number, partition) in partitions.iter().enumerate() {
        let pairs = store.scan(partition, ClusteringRange::all()).all().await.unwrap();
        let found: Vec<_> = pairs.iter().map(|(clustering, _)| clustering.to_vec()).collect();
        assert_eq!(found, &NAMES[number % 3..], "{partition:?}");
        assert!(pairs.iter().all(|(_, value)| value == partition));
        let tail = keys(&store, partition, ClusteringRange::from(b"\x80")).await;
        assert_eq!(tail, &NAMES[10..], "{partition:?}");
    }
}

pub async fn a_scan_stops_at_its_limit(subject: Subject<Store>) {
    let store = with_numbers(&subject, 40).await;
    for limit in [0, 1, 2, 15, 16, 17, 39, 40, 41, 1_000_000] {
        let range = ClusteringRange::from(&nth(3));
        let pairs = store.scan(b"p", range).take(limit).await.unwrap();
        let expected: Vec<_> = (3..40).take(limit).map(nth).collect();
        let found: Vec<_> = pairs.iter().map(|(clustering, _)| clustering.to_vec()).collect();
        assert_eq!(found, expected, "at most {limit}");
    }
}

pub async fn a_scan_may_stop_early(subject: Subject<Store>) {
    let store = with_numbers(&subject, 100).await;
    for stop in [0, 1, 16, 17, 50] {
        let mut scan = store.scan(b"p", ClusteringRange::all());
        for number in 0..stop {
            let (clustering, value) = scan.next().await.unwrap().unwrap();
            assert_eq!((&clustering[..], &value[..]), (&nth(number)[..], &nth(number * 3)[..]));
        }
        drop(scan);
        // The rest can still be read, by another scan.
        let rest = keys(&store, b"p", ClusteringRange::from(&nth(stop))).await;
        assert_eq!(rest.len(), 100 - stop);
    }
}

pub async fn a_finished_scan_stays_finished(subject: Subject<Store>) {
    let store = with_numbers(&subject, 3).await;
    let mut scan = store.scan(b"p", ClusteringRange::all());
    for _ in 0..3 {
        assert!(scan.next().await.unwrap().is_some());
    }
    for _ in 0..3 {
        assert_eq!(scan.next().await, Ok(None));
    }
}

pub async fn a_scan_over_thousands_of_pairs_gives_each_once(subject: Subject<Store>) {
    let store = with_numbers(&subject, 5_000).await;
    let pairs = store.scan(b"p", ClusteringRange::all()).all().await.unwrap();
    assert_eq!(pairs.len(), 5_000);
    for (number, (clustering, value)) in pairs.iter().enumerate() {
        assert_eq!((&clustering[..], &value[..]), (&nth(number)[..], &nth(number * 3)[..]));
    }
    let mut scan = store.scan(b"p", ClusteringRange::new(&nth(7), &nth(4_991)));
    for pair in &pairs[7..4_991] {
        assert_eq!(scan.next().await.unwrap().as_ref(), Some(pair));
    }
    assert_eq!(scan.next().await, Ok(None));
}

pub async fn a_scan_over_large_values_gives_each_once(subject: Subject<Store>) {
    let store = subject.open().await;
    // More bytes than one page can have, in values of which some fill a page alone.
    let sizes = [3 << 20, 1, 5 << 20, 0, 2 << 20, 2 << 20, 2 << 20, 7];
    let value = |number: usize| vec![u8::try_from(number).unwrap(); sizes[number]];
    for number in 0..sizes.len() {
        store.put(key(&nth(number)), &value(number)).await.unwrap();
    }
    let pairs = store.scan(b"p", ClusteringRange::all()).all().await.unwrap();
    assert_eq!(pairs.len(), sizes.len());
    for (number, (clustering, found)) in pairs.iter().enumerate() {
        assert_eq!(clustering[..], nth(number));
        assert!(*found == value(number), "value {number}");
    }
}

pub async fn a_page_of_a_scan_is_as_full_as_allowed(subject: Subject<Store>) {
    let store = with_numbers(&subject, 1_100).await;
    // (limit, pairs)
    let most = limits::SCAN_PAGE_PAIRS_MAX;
    for (limit, pairs) in [(1, 1), (16, 16), (most, most), (most + 1, most), (usize::MAX, most)] {
        let page = store.backend().scan_page(b"p", &ClusteringRange::all(), limit).await.unwrap();
        assert_eq!(page.len(), pairs, "at most {limit}");
    }
    let end = store.backend().scan_page(b"p", &ClusteringRange::from(&nth(1_090)), 16).await.unwrap();
    assert_eq!(end.len(), 10, "there are no more");
    // Bytes fill a page too: of values that are slightly larger than a quarter of a page, three fit.
    let value = vec![1; limits::SCAN_PAGE_BYTES_MAX / 4 + 1];
    for number in 0..5 {
        store.put(Key::new(b"large", &nth(number)), &value).await.unwrap();
    }
    let page = store.backend().scan_page(b"large", &ClusteringRange::all(), 5).await.unwrap();
    assert_eq!(page.len(), 3);
}
