//! Commands are compared with the recorded ones as they are issued.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;
use std::panic::Location;

use crate::record::Key;
use crate::{
    Branch, Command, CommandKind, CommandRecord, Difference, DifferenceKind, Kind, Path, Payload, Recorded,
};

/// Maps whose order has no effect, and whose hasher draws no randomness.
type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// The recorded commands, and how far the code has got with them.
pub(crate) struct Matcher {
    completions: Vec<Vec<CommandRecord>>,
    /// Where each command is: completion and place in it. Of two with one key, the first.
    index: Map<Key, (usize, usize)>,
    /// The completion that is being compared, and which of its commands have been issued.
    at: usize,
    issued: Vec<bool>,
    /// By branch: the place of the command that was issued last.
    last: Map<Branch, usize>,
}

impl Matcher {
    pub(crate) fn new(recorded: Recorded) -> Self {
        let mut index = Map::default();
        for (completion, records) in recorded.completions.iter().enumerate() {
            for (place, record) in records.iter().enumerate() {
                index.entry(record.key()).or_insert((completion, place));
            }
        }
        let mut matcher = Self {
            completions: recorded.completions,
            index,
            at: 0,
            issued: Vec::new(),
            last: Map::default(),
        };
        matcher.enter();
        matcher
    }

    /// All numbers that the history has.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (Kind, u32)> + '_ {
        self.completions.iter().flatten().filter_map(|record| record.seq)
    }

    fn enter(&mut self) {
        let commands = self.completions.get(self.at).map_or(0, Vec::len);
        self.issued.clear();
        self.issued.resize(commands, false);
        self.last.clear();
    }

    /// Whether the history has the completion of the present activation.
    pub(crate) fn is_comparing(&self) -> bool {
        self.at < self.completions.len()
    }

    fn record(&self, key: &Key) -> Option<&CommandRecord> {
        let (completion, place) = *self.index.get(key)?;
        Some(&self.completions[completion][place])
    }

    /// The number that the operation at this path has in the history.
    pub(crate) fn number(&self, path: &Path, kind: Kind) -> Option<u32> {
        let (recorded, seq) = self.record(&Key::Begins(path.clone()))?.seq?;
        (recorded == kind).then_some(seq)
    }

    /// The value that the side effect at this path has in the history.
    pub(crate) fn value(&self, path: &Path) -> Option<Payload> {
        let record = self.record(&Key::Begins(path.clone()))?;
        (record.command == CommandKind::RecordSideEffect).then(|| record.value.clone()).flatten()
    }

    pub(crate) fn has_patch(&self, id: &str) -> bool {
        self.index.contains_key(&Key::Patch(id.to_owned()))
    }

    pub(crate) fn has_number(&self, kind: Kind, seq: u32) -> bool {
        self.numbers().any(|number| number == (kind, seq))
    }

    /// Compares a command that the code issues with the recorded one.
    pub(crate) fn check(&mut self, command: &Command, site: Option<&Location<'_>>) -> Option<Difference> {
        if !self.is_comparing() || !command.kind().is_recorded() {
            return None;
        }
        let actual = CommandRecord::of(command);
        let found = self.index.get(&actual.key()).copied();
        let kind = match found {
            Some((completion, _)) if completion != self.at => {
                let recorded_in = u32::try_from(completion + 1).unwrap_or(u32::MAX);
                Some(DifferenceKind::Moved { recorded_in })
            }
            Some((completion, place)) => {
                self.issued[place] = true;
                let is_early = self.last.insert(actual.branch(), place).is_some_and(|last| last > place);
                let fields = self.completions[completion][place].fields_that_differ(&actual);
                if !fields.is_empty() {
                    Some(DifferenceKind::Altered { fields })
                } else {
                    is_early.then_some(DifferenceKind::Reordered)
                }
            }
            None => Some(DifferenceKind::Inserted),
        };
        let kind = kind?;
        let expected = found.map(|(completion, place)| self.completions[completion][place].clone());
        Some(self.difference(kind, expected, Some(actual), site))
    }

    fn difference(
        &self,
        kind: DifferenceKind,
        expected: Option<CommandRecord>,
        actual: Option<CommandRecord>,
        site: Option<&Location<'_>>,
    ) -> Difference {
        let activation = u32::try_from(self.at + 1).unwrap_or(u32::MAX);
        Difference::new(activation, kind, expected, actual, site)
    }

    /// Ends the comparison of one completion. Returns what the code has not issued.
    pub(crate) fn finish(&mut self) -> Vec<Difference> {
        let missing = match self.completions.get(self.at) {
            None => Vec::new(),
            Some(records) => records
                .iter()
                .zip(&self.issued)
                .filter(|(record, issued)| !**issued && !record.is_optional())
                .map(|(record, _)| self.difference(DifferenceKind::Missing, Some(record.clone()), None, None))
                .collect(),
        };
        // Inputs may be large, and are not compared again: a run in memory does not keep them.
        let compared = self.completions.get_mut(self.at).into_iter().flatten();
        compared.for_each(|record| record.input = Vec::new());
        self.at += 1;
        self.enter();
        missing
    }
}
