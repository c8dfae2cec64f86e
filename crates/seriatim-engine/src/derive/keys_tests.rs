use std::collections::BTreeMap;

use seriatim_sequencer::NumbersKey;

use super::*;

const PARTITION: Partition = Partition::new(0x0102_0304, 0x0506);
const KEYS: WorkspaceKeys = WorkspaceKeys { partition: PARTITION, workspace: WorkspaceId::new(0x1122) };

fn offset(number: u64) -> WorkspaceOffset {
    WorkspaceOffset::new(number).expect("not zero")
}

fn row(keys: WorkspaceKeys, view: &str, key: &[u8]) -> StoreKey {
    StoreKey::new(&keys.storage(), &[&keys.view(view), key].concat())
}

fn numbers_key(keys: WorkspaceKeys) -> StoreKey {
    let key = NumbersKey::new(keys.partition, keys.workspace);
    StoreKey::new(key.as_key().partition, key.as_key().clustering)
}

#[test]
fn the_bytes_of_each_family() {
    let (kind, id) = (TypeId::new(0x0708), RecordId::new(0x5678));
    for (key, letter, rest) in [
        (KEYS.record(DocumentKind::C, kind, id), 'c', "000000000000112200000000000056780708"),
        (KEYS.id(id), 'i', "00000000000011220000000000005678"),
        (checkpoint(PARTITION), 'k', ""),
        (KEYS.event(offset(0x5678)), 'l', "00000000000011220000000000005678"),
        (numbers_key(KEYS), 'n', "0000000000001122"),
        (sweep(PARTITION), 's', ""),
        (row(KEYS, "ab", b"\x01"), 'v', "00000000000011220002616201"),
        (row(KEYS.in_common(), "ab", b""), 'v', "000000000000050600026162"),
        (KEYS.record(DocumentKind::W, kind, id), 'w', "000000000000112207080000000000005678"),
        (KEYS.idempotency("ab"), 'x', "00000000000011226162"),
        (
            part_of_value(KEYS.idempotency("ab").as_key(), 0x10, 3),
            'z',
            "7800000000000011226162000000000000001000000003",
        ),
    ] {
        assert_eq!(key.partition(), b"\x01\x02\x03\x04\x05\x06");
        assert_eq!(key.to_string(), format!("16909060/1286/{letter}:{rest}"));
        assert_eq!(StoreKey::new(key.partition(), key.clustering()), key);
    }
    let old = projector(Partition::new(1, 2), "mail");
    assert_eq!((old.partition(), old.clustering()), (&b"eo\0\0\0\x01\0\x02"[..], &b"mail"[..]));
    assert_eq!(old.to_string(), r"eo\x00\x00\x00\x01\x00\x02/m:61696c");
}

/// Keys of every family, chosen so that some are neighbours and some are prefixes of others.
fn all_keys() -> BTreeMap<StoreKey, Family<'static>> {
    let mut all = BTreeMap::new();
    for (partition, workspace) in [(0, 1), (0, 2), (0, 0x0102), (1, 1), (1, u64::MAX)] {
        let (partition, workspace) = (Partition::new(1, partition), WorkspaceId::new(workspace));
        let keys = WorkspaceKeys::new(partition, workspace);
        let mut put = |key: StoreKey, family| assert_eq!(all.insert(key, family), None, "{family:?}");
        put(numbers_key(keys), Family::Numbers(workspace));
        for number in [1, 2, 255, 256, 1 << 40, u64::MAX] {
            put(keys.event(offset(number)), Family::Event(workspace, number));
            let id = RecordId::new(number);
            put(keys.id(id), Family::Id(workspace, id));
            // A type has records of one kind only, so C and W records never have the same type.
            for (kind, document) in [(DocumentKind::C, 1), (DocumentKind::C, 256), (DocumentKind::W, 2)] {
                let document = TypeId::new(document);
                put(keys.record(kind, document, id), Family::Record(workspace, document, id));
            }
        }
        for key in ["", "a", "ab", "b"] {
            put(keys.idempotency(key), Family::Idempotency(workspace, key.as_bytes()));
            for view in ["a", "ab", "b"] {
                let family = Family::Row { workspace, view: view.as_bytes(), key: key.as_bytes() };
                put(row(keys, view, key.as_bytes()), family);
            }
        }
    }
    for partition in [Partition::new(1, 0), Partition::new(1, 1)] {
        all.insert(checkpoint(partition), Family::Checkpoint);
        all.insert(sweep(partition), Family::Sweep);
    }
    all
}

#[test]
fn all_keys_differ_and_each_is_read_back() {
    for (key, family) in all_keys() {
        assert_eq!(Family::of(key.clustering()), Some(family), "{key}");
        for (folded, number) in [(0, 0), (1, 0), (0, 1)] {
            let part = part_of_value(key.as_key(), folded, number);
            let found = Family::of(part.clustering());
            assert_eq!(found, Some(Family::Part { value: key.clustering(), number }), "{part}");
        }
        if !matches!(family, Family::Row { .. } | Family::Idempotency(..)) {
            let longer = [key.clustering(), &[0]].concat();
            assert_eq!(Family::of(&longer), None, "{key}");
            assert_eq!(Family::of(&key.clustering()[..key.clustering().len() - 1]), None, "{key}");
        }
    }
    for foreign in [&b""[..], b"y", b"y00000000", b"z", b"zk0000000000", b"v00000000\0\x02a"] {
        assert_eq!(Family::of(foreign), None, "{}", foreign.escape_ascii());
    }
}

#[test]
fn a_range_holds_exactly_its_keys() {
    let all = all_keys();
    let holds = |keys: WorkspaceKeys, range: &ClusteringRange, wanted: &dyn Fn(Family<'_>) -> bool| {
        let mut found = 0;
        for (key, family) in &all {
            let is_in = key.partition() == keys.storage() && range.contains(key.clustering());
            assert_eq!(is_in, key.partition() == keys.storage() && wanted(*family), "{key}");
            found += usize::from(is_in);
        }
        assert!(found > 0);
    };
    for (partition, workspace) in [(0, 1), (0, 0x0102), (1, u64::MAX)] {
        let workspace = WorkspaceId::new(workspace);
        let keys = WorkspaceKeys::new(Partition::new(1, partition), workspace);
        for from in [1, 2, 256, u64::MAX] {
            holds(
                keys,
                &keys.events(offset(from)),
                &|family| matches!(family, Family::Event(place, number) if place == workspace && number >= from),
            );
            let id = RecordId::new(from);
            holds(keys, &keys.c_records(id), &|family| {
                matches!(family, Family::Record(place, document, number)
                    if place == workspace && document != TypeId::new(2) && number >= id)
            });
            holds(keys, &keys.w_records(TypeId::new(2), id), &|family| {
                matches!(family, Family::Record(place, document, number)
                    if place == workspace && document == TypeId::new(2) && number >= id)
            });
        }
        holds(
            keys,
            &ClusteringRange::prefix(&keys.view("a")),
            &|family| matches!(family, Family::Row { workspace: place, view: b"a", .. } if place == workspace),
        );
        holds(keys, &numbers(), &|family| matches!(family, Family::Numbers(_)));
        holds(keys, &ClusteringRange::all(), &|_| true);
    }
}

#[test]
fn keys_of_one_partition_are_neighbours() {
    let (a, b) = (StoreKey::new(b"ab", b"c"), StoreKey::new(b"a", b"bc"));
    assert_ne!(a, b);
    let mut keys = [StoreKey::new(b"b", b"1"), StoreKey::new(b"aa", b"2"), StoreKey::new(b"b", b"0")];
    keys.sort();
    assert_eq!(keys.map(|key| key.to_string()), ["b/0:", "b/1:", "aa/2:"]);
}
