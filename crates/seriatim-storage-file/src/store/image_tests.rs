//! What a power cut leaves at each step of an ingestion or a compaction.
//!
//! The tree writes tables, then the file of a version that has them, then the file `current` that names the version. Each
//! is synced before the next. Then it removes files that no version has. An image is what is on disk between two of these
//! steps, with unsynced files complete, cut or missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use lsm_tree::Cache;
use seriatim_env::Env;
use seriatim_storage::{Batch, ClusteringRange, Key, Pair, Store, StoreKey};

use super::run::{Run, merge_runs};
use super::tree::SortedTree;
use super::{StoreOptions, TreeStore};

/// All files below a directory, by name.
type Image = BTreeMap<String, Vec<u8>>;

fn read(directory: &Path) -> Image {
    let mut image = Image::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                image.insert(name, fs::read(path).unwrap());
            }
        }
    }
    image
}

fn open(directory: &Path) -> Store {
    let options = StoreOptions { gather_bytes: 1 << 30, ..StoreOptions::default() };
    Store::new(TreeStore::open(Env::real(), directory, options).unwrap())
}

async fn contents(store: &Store) -> Vec<Pair> {
    store.scan(b"p", ClusteringRange::all()).all().await.unwrap()
}

/// Opens an image. Checks that it has the expected pairs and accepts writes.
async fn check(image: &Image, expected: &[Pair], what: &str) {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("tree/tables")).unwrap();
    for (name, content) in image {
        fs::write(directory.path().join(name), content).unwrap();
    }
    let store = open(directory.path());
    assert!(contents(&store).await == expected, "{what}");
    store.put(Key::new(b"p", b"more"), b"1").await.unwrap();
    store.sync().await.unwrap();
    assert_eq!(contents(&store).await.len(), expected.len() + 1, "{what}");
    drop(store);
    assert_eq!(contents(&open(directory.path())).await.len(), expected.len() + 1, "{what}");
}

/// A batch that overwrites some pairs, removes some, and adds some.
fn batch(round: u32) -> Batch {
    let mut batch = Batch::new();
    for number in 0..400_u32 {
        let clustering = ((number * 7 + round * 13) % 1_000).to_be_bytes();
        match number % 5 {
            0 => batch.remove(Key::new(b"p", &clustering)),
            _ => batch.put(Key::new(b"p", &clustering), &[u8::try_from(round).unwrap(); 100]),
        }
    }
    batch
}

const CURRENT: &str = "tree/current";

/// What is on disk at each step from one image to the next, and whether the store must have the new content.
fn steps(before: &Image, after: &Image) -> Vec<(Image, bool, String)> {
    let new: Vec<_> = after.keys().filter(|name| !before.contains_key(*name)).collect();
    let (tables, versions): (Vec<_>, Vec<_>) = new.into_iter().partition(|name| name.contains("tables"));
    let mut steps = vec![(before.clone(), false, "before".to_owned())];
    let mut image = before.clone();
    for name in tables.iter().chain(&versions) {
        for part in [0, after[*name].len() / 2] {
            let mut cut = image.clone();
            cut.insert((*name).clone(), after[*name][..part].to_vec());
            steps.push((cut, false, format!("{part} bytes of {name}")));
        }
        image.insert((*name).clone(), after[*name].clone());
        steps.push((image.clone(), false, format!("with {name}")));
    }
    // The new `current` under its temporary name, complete or not.
    let mut temporary = image.clone();
    temporary.insert("tree/.tmpAbCdEf".to_owned(), after[CURRENT][..3].to_vec());
    steps.push((temporary, false, "with a temporary file".to_owned()));
    image.insert(CURRENT.to_owned(), after[CURRENT].clone());
    steps.push((image, true, "with current, nothing removed".to_owned()));
    steps.push((after.clone(), true, "after".to_owned()));
    steps
}

/// A tree in the directory of a store, without a background task, and its expected content.
struct World {
    directory: tempfile::TempDir,
    tree: SortedTree,
    model: BTreeMap<StoreKey, Option<Bytes>>,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        drop(open(directory.path()));
        let cache = Arc::new(Cache::with_capacity_bytes(1 << 20));
        let tree = SortedTree::open(&directory.path().join("tree"), &cache).unwrap();
        Self { directory, tree, model: BTreeMap::new() }
    }

    fn image(&self) -> Image {
        read(self.directory.path())
    }

    fn ingest(&mut self, batch: Batch) {
        self.model.extend(batch.iter().map(|write| (write.key.clone(), write.value.clone())));
        self.tree.ingest(merge_runs(&[Arc::new(Run::new(batch))])).unwrap();
        self.tree.forget_versions();
    }

    fn contents(&self) -> Vec<Pair> {
        let there = self.model.iter().filter_map(|(key, value)| Some((key, value.clone()?)));
        there.map(|(key, value)| (Bytes::copy_from_slice(key.clustering()), value)).collect()
    }
}

#[tokio::test]
async fn an_ingestion_is_complete_or_absent_wherever_the_power_is_cut() {
    let mut world = World::new();
    for round in 0..4 {
        let (before, old) = (world.image(), world.contents());
        let mut batch = batch(round);
        if round == 3 {
            // So large that it becomes several tables.
            for (number, size) in (0_u8..).zip([14 << 20; 5].into_iter().chain([1])) {
                batch.put(Key::new(b"p", &[9, 9, 9, 9, number]), &vec![number; size]);
            }
        }
        world.ingest(batch);
        let (after, new) = (world.image(), world.contents());
        for (image, is_after, what) in steps(&before, &after) {
            check(&image, if is_after { &new } else { &old }, &format!("round {round}, {what}")).await;
        }
    }
}

#[tokio::test]
async fn a_compaction_changes_nothing_wherever_the_power_is_cut() {
    let (mut world, mut compacted) = (World::new(), 0);
    for round in 0..20 {
        world.ingest(batch(round));
        let before = world.image();
        if !world.tree.compact().unwrap() {
            continue;
        }
        compacted += 1;
        for (image, _, what) in steps(&before, &world.image()) {
            check(&image, &world.contents(), &format!("round {round}, {what}")).await;
        }
    }
    assert!(compacted > 2, "{compacted}");
}
