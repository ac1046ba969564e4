//! The two-sided Mann-Whitney U test.
//!
//! Exact: the p-value is a share of all ways to deal the values out to the two sides. Tied values get the mean of their
//! ranks, and the ways are counted with those very ranks (the permutation distribution given the ties), so that the test is
//! exact with ties as well; tables made for values without ties are not. Two-sided is twice the smaller tail, at most 1.
//! Above [`MOST_COUNTED`] values together the normal approximation is taken, with corrections for ties and continuity.

use super::normal::upper_tail;
use super::null::{MOST_COUNTED, rank_sums};

/// What the test found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// Pairs of one value of each side in which the second side's is larger; a tie counts one half.
    pub u: f64,
    /// How often chance alone gives a U at least this far out.
    pub p: f64,
    /// Counted out, not approximated.
    pub exact: bool,
}

/// Tests two sides. None when one is empty or holds a value that is not finite.
pub fn mann_whitney(before: &[f64], after: &[f64]) -> Option<MannWhitney> {
    if before.is_empty() || after.is_empty() || before.iter().chain(after).any(|value| !value.is_finite()) {
        return None;
    }
    let (m, n) = (before.len(), after.len());
    let mut pooled: Vec<(f64, bool)> =
        before.iter().map(|value| (*value, false)).chain(after.iter().map(|value| (*value, true))).collect();
    pooled.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut ranks = Vec::with_capacity(pooled.len());
    let mut rank_sum = 0;
    let mut tie_term = 0.0;
    // Compared as numbers, so that the two zeros are tied.
    for group in pooled.chunk_by(|one, other| one.0.partial_cmp(&other.0) == Some(std::cmp::Ordering::Equal))
    {
        let doubled_rank = ranks.len() + 1 + ranks.len() + group.len();
        rank_sum += doubled_rank * group.iter().filter(|(_, is_after)| *is_after).count();
        ranks.extend(std::iter::repeat_n(doubled_rank, group.len()));
        let tied = group.len() as f64;
        tie_term += tied * tied * tied - tied;
    }
    let u = (rank_sum as f64 - (n * (n + 1)) as f64) / 2.0;
    if let Some(sums) = rank_sums(&ranks, n) {
        let lower: f64 = sums.iter().take(rank_sum + 1).sum();
        let upper: f64 = sums.iter().skip(rank_sum).sum();
        return Some(MannWhitney { u, p: (2.0 * lower.min(upper)).min(1.0), exact: true });
    }
    let (m, n) = (m as f64, n as f64);
    let all = m + n;
    let variance = m * n / 12.0 * ((all + 1.0) - tie_term / (all * (all - 1.0)));
    let distance = ((u - m * n / 2.0).abs() - 0.5).max(0.0);
    let p = if variance > 0.0 { (2.0 * upper_tail(distance / variance.sqrt())).min(1.0) } else { 1.0 };
    Some(MannWhitney { u, p, exact: false })
}

/// The smallest two-sided p-value that so many values a side can give at all: two of the C(m + n, n) ways.
pub fn smallest_p(before: usize, after: usize) -> f64 {
    let few = before.min(after);
    let all = before.saturating_add(after);
    let ways = (1..=few).fold(1.0, |ways, step| ways * (all - few + step) as f64 / step as f64);
    (2.0 / ways).min(1.0)
}

/// The fewest values a side, the same on both, with which a p-value can be at most `alpha`.
pub fn fewest_a_side(alpha: f64) -> Option<usize> {
    (1..=MOST_COUNTED / 2).find(|count| smallest_p(*count, *count) <= alpha)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "whole numbers and halves are exact")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn four_a_side_are_the_fewest_for_five_percent_and_eight_for_a_family_of_150() {
        assert!((smallest_p(3, 3) - 0.1).abs() < 1e-15);
        assert!((smallest_p(4, 4) - 2.0 / 70.0).abs() < 1e-15);
        assert_eq!(smallest_p(0, 5), 1.0);
        assert_eq!(fewest_a_side(0.05), Some(4));
        assert_eq!(fewest_a_side(0.05 / 150.0), Some(8));
        assert_eq!(fewest_a_side(0.0), None);
    }

    #[test]
    fn equal_values_show_nothing() {
        let test = mann_whitney(&[5.0; 4], &[5.0; 6]).expect("OK because all are finite");
        assert_eq!((test.u, test.p), (12.0, 1.0));
        let many = mann_whitney(&[5.0; 40], &[5.0; 40]).expect("OK because all are finite");
        assert_eq!((many.p, many.exact), (1.0, false));
    }

    #[test]
    fn nothing_is_said_of_an_empty_side_or_a_value_that_is_none() {
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[1.0], &[f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn the_sides_may_be_exchanged(
            before in prop::collection::vec(0_u8..9, 1..9), after in prop::collection::vec(0_u8..9, 1..9)
        ) {
            let before: Vec<f64> = before.into_iter().map(f64::from).collect();
            let after: Vec<f64> = after.into_iter().map(f64::from).collect();
            let one = mann_whitney(&before, &after).expect("OK because all are finite");
            let other = mann_whitney(&after, &before).expect("OK because all are finite");
            prop_assert!((one.p - other.p).abs() < 1e-12);
            prop_assert_eq!(one.u + other.u, (before.len() * after.len()) as f64);
            prop_assert!(one.p >= smallest_p(before.len(), after.len()) - 1e-12);
        }
    }
}
