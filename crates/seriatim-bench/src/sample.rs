//! Rounds in which the contestants take turns.

use std::array;

/// Measures something once and returns the result.
pub(crate) type Contestant<'a, T> = &'a mut dyn FnMut() -> anyhow::Result<T>;

/// Lets each contestant measure once per round, and returns the results of each. Each round begins with another contestant, so that
/// none is always first. The first round is for warming up and is not counted.
#[expect(clippy::needless_pass_by_value, reason = "callers write the contestants in place")]
pub(crate) fn rounds<T, const N: usize>(
    rounds: usize,
    contestants: [Contestant<'_, T>; N],
) -> anyhow::Result<[Vec<T>; N]> {
    let mut found = array::from_fn(|_| Vec::with_capacity(rounds));
    for round in 0..=rounds {
        for turn in 0..N {
            let i = (round + turn) % N;
            let sample = contestants[i]()?;
            if round > 0 {
                found[i].push(sample);
            }
        }
    }
    Ok(found)
}

/// The median of each contestant's [`rounds`].
pub(crate) fn medians<const N: usize>(
    count: usize,
    contestants: [Contestant<'_, f64>; N],
) -> anyhow::Result<[f64; N]> {
    Ok(rounds(count, contestants)?.map(|values| median(&values)))
}

/// The middle value, or the mean of the two middle values; NaN if there are none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
    match (sorted.get(low), sorted.get(high)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]).to_bits(), 2.5_f64.to_bits());
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn contestants_take_turns_at_being_first() {
        let order = RefCell::new(String::new());
        let turn = |name| {
            order.borrow_mut().push(name);
            Ok(1.0)
        };
        medians(3, [&mut || turn('a'), &mut || turn('b')]).unwrap();
        assert_eq!(order.into_inner(), "abbaabba");
    }

    #[test]
    fn the_round_that_warms_up_is_not_counted() {
        let mut slow_start = [9.0, 1.0, 2.0, 3.0].into_iter();
        let [median] = medians(3, [&mut || Ok(slow_start.next().unwrap())]).unwrap();
        assert_eq!(median.to_bits(), 2.0_f64.to_bits());
    }

    #[test]
    fn an_error_ends_the_rounds() {
        let mut rounds = 0;
        let mut fails = || {
            rounds += 1;
            anyhow::bail!("no disk")
        };
        assert!(medians(3, [&mut fails]).is_err());
        assert_eq!(rounds, 1);
    }
}
