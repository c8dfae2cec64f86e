//! Record ids, and the ranges that are not drawn from a sequence.

use std::ops::RangeInclusive;

use crate::identifier::identifier;

identifier! {
    /// The id of a record: real (drawn from a sequence), reserved (a singleton), or raw (chosen by a client inside one
    /// command and replaced before anything is stored).
    RecordId(u64)
}

impl RecordId {
    /// Ids that a client may choose inside one command.
    pub const RAW: RangeInclusive<u64> = 1..=65_535;
    /// Ids that no sequence draws.
    pub const RESERVED: RangeInclusive<u64> = 65_536..=131_071;
    /// The part of the reserved ids that belongs to singletons: 512 of them.
    pub const SINGLETONS: RangeInclusive<u64> = 65_536..=66_047;

    /// Whether a client chose this id inside a command.
    #[must_use]
    pub fn is_raw(self) -> bool {
        Self::RAW.contains(&self.get())
    }

    /// Whether no sequence draws this id.
    #[must_use]
    pub fn is_reserved(self) -> bool {
        Self::RESERVED.contains(&self.get())
    }

    /// Whether this id belongs to a singleton.
    #[must_use]
    pub fn is_singleton(self) -> bool {
        Self::SINGLETONS.contains(&self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_meet_without_overlap() {
        // (id, raw, reserved, singleton)
        let table = [
            (0, false, false, false),
            (1, true, false, false),
            (65_535, true, false, false),
            (65_536, false, true, true),
            (66_047, false, true, true),
            (66_048, false, true, false),
            (131_071, false, true, false),
            (131_072, false, false, false),
            (322_680_000_131_072, false, false, false),
        ];
        for (id, raw, reserved, singleton) in table {
            let id = RecordId::new(id);
            assert_eq!(
                (id.is_raw(), id.is_reserved(), id.is_singleton()),
                (raw, reserved, singleton),
                "{id}"
            );
        }
    }
}
