//! Notes on a payload.

use std::collections::{BTreeMap, btree_map};
use std::fmt;

use bytes::Bytes;

/// The note that everybody reads: how the payload is encoded.
pub(crate) const ENCODING: &str = "encoding";

/// Notes on a payload, by name. Nearly always there is just one, `encoding`: it is kept apart and costs no allocation.
///
/// ```
/// use seriatim_workflow::Metadata;
///
/// let notes = [("type", "Order"), ("encoding", "json/plain")];
/// let metadata: Metadata = notes.into_iter().map(|(name, note)| (name.to_owned(), note.into())).collect();
/// assert_eq!(metadata.get("type").map(|note| &note[..]), Some(&b"Order"[..]));
/// assert_eq!(metadata.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["encoding", "type"]);
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    encoding: Option<Bytes>,
    others: BTreeMap<String, Bytes>,
}

impl Metadata {
    /// The one note `encoding`.
    pub(crate) fn encoding(encoding: impl Into<Bytes>) -> Self {
        Self { encoding: Some(encoding.into()), others: BTreeMap::new() }
    }

    /// The note of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        if name == ENCODING { self.encoding.as_ref() } else { self.others.get(name) }
    }

    /// Makes a note; the one that it takes the place of.
    pub fn insert(&mut self, name: String, note: Bytes) -> Option<Bytes> {
        if name == ENCODING { self.encoding.replace(note) } else { self.others.insert(name, note) }
    }

    /// How many notes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.encoding.is_some()) + self.others.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All notes: `encoding`, then the others in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        let encoding = self.encoding.iter().map(|note| (ENCODING, note));
        encoding.chain(self.others.iter().map(|(name, note)| (name.as_str(), note)))
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl FromIterator<(String, Bytes)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (String, Bytes)>>(notes: I) -> Self {
        let mut metadata = Self::default();
        for (name, note) in notes {
            metadata.insert(name, note);
        }
        metadata
    }
}

impl IntoIterator for Metadata {
    type Item = (String, Bytes);
    type IntoIter = btree_map::IntoIter<String, Bytes>;

    fn into_iter(mut self) -> Self::IntoIter {
        self.others.extend(self.encoding.map(|note| (ENCODING.to_owned(), note)));
        self.others.into_iter()
    }
}
