//! The next number of each sequence of a workspace.

use std::ops::{Deref, DerefMut};

use seriatim_types::Number;

/// How many sequences are stored without a heap allocation: the built-in ones and four of the application's own.
const INLINE: usize = 6;

/// The next number of each slot of a kind. It is copied with every transaction, so copying has to be fast.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nexts {
    len: usize,
    inline: [Number; INLINE],
    /// All numbers, if there are more than `INLINE`.
    spilled: Vec<Number>,
}

impl Clone for Nexts {
    fn clone(&self) -> Self {
        Self { len: self.len, inline: self.inline, spilled: self.spilled.clone() }
    }

    #[inline]
    fn clone_from(&mut self, source: &Self) {
        self.len = source.len;
        self.inline = source.inline;
        if !(self.spilled.is_empty() && source.spilled.is_empty()) {
            self.spilled.clone_from(&source.spilled);
        }
    }
}

impl FromIterator<Number> for Nexts {
    fn from_iter<I: IntoIterator<Item = Number>>(numbers: I) -> Self {
        let mut nexts = Self { len: 0, inline: [Number::new(0); INLINE], spilled: Vec::new() };
        for number in numbers {
            if nexts.len == INLINE {
                nexts.spilled.extend_from_slice(&nexts.inline);
            }
            match nexts.inline.get_mut(nexts.len) {
                Some(place) => *place = number,
                None => nexts.spilled.push(number),
            }
            nexts.len += 1;
        }
        nexts
    }
}

impl Deref for Nexts {
    type Target = [Number];

    #[inline]
    fn deref(&self) -> &[Number] {
        if self.len <= INLINE { &self.inline[..self.len] } else { &self.spilled }
    }
}

impl DerefMut for Nexts {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Number] {
        if self.len <= INLINE { &mut self.inline[..self.len] } else { &mut self.spilled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_numbers_are_stored_equally() {
        for count in [0, 1, 6, 7, 40] {
            let numbers: Vec<Number> = (0..count).map(Number::new).collect();
            let nexts: Nexts = numbers.iter().copied().collect();
            assert_eq!(&nexts[..], &numbers[..]);
            for other in [0, 3, 6, 7, 9] {
                let mut copy: Nexts = (100..100 + other).map(Number::new).collect();
                copy.clone_from(&nexts);
                assert_eq!(&copy[..], &nexts[..], "{count} over {other}");
            }
        }
    }
}
