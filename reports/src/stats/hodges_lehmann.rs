//! How far apart two sides lie: the Hodges-Lehmann estimate, the median of all differences of one value of each side, with
//! the confidence interval that belongs to the Mann-Whitney test.
//!
//! The interval runs between two of the sorted differences. Which two follows from the exact distribution of U without
//! ties, so the confidence reached is at least the one asked for; with ties the interval is wider than it need be, never
//! narrower. With too few values there is no interval at a level, and none is given.

use super::normal::upper_tail;
use super::null::rank_sums;
use crate::statistics::Summary;

/// Between which shifts the true one lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Smallest.
    pub low: f64,
    /// Largest.
    pub high: f64,
    /// The confidence reached, at least the one asked for.
    pub confidence: f64,
}

/// The differences of two sides, sorted; what estimate and intervals are read from.
#[derive(Debug, Clone)]
pub struct Shift {
    differences: Vec<f64>,
    before: usize,
    after: usize,
    estimate: f64,
}

impl Shift {
    /// Of the second side against the first. None when one is empty or holds a value that is not finite.
    pub fn of(before: &[f64], after: &[f64]) -> Option<Self> {
        let mut differences: Vec<f64> =
            after.iter().flat_map(|after| before.iter().map(move |before| after - before)).collect();
        differences.sort_by(f64::total_cmp);
        let estimate = Summary::of(&differences)?.median;
        Some(Self { differences, before: before.len(), after: after.len(), estimate })
    }

    /// The median difference.
    pub const fn estimate(&self) -> f64 {
        self.estimate
    }

    /// The interval at a confidence level between 0 and 1. None when so few values give none.
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        let tail = (1.0 - confidence) / 2.0;
        let below = self.lower_tails();
        // As many differences may be cut off at either end as there are U values whose lower tail stays within `tail`. The
        // slack is for the rounding of 1 - confidence.
        let cut = below.iter().take_while(|probability| **probability <= tail * (1.0 + 1e-9)).count();
        let reached = 1.0 - 2.0 * below.get(cut.checked_sub(1)?)?;
        let low = *self.differences.get(cut - 1)?;
        let high = *self.differences.get(self.differences.len().checked_sub(cut)?)?;
        (low <= high).then_some(Interval { low, high, confidence: reached })
    }

    /// P(U <= u) for u = 0, 1, ... up to the middle.
    fn lower_tails(&self) -> Vec<f64> {
        let (m, n) = (self.before, self.after);
        let ranks: Vec<usize> = (1..=m + n).map(|rank| 2 * rank).collect();
        if let Some(sums) = rank_sums(&ranks, n) {
            return sums
                .into_iter()
                .skip(n * (n + 1))
                .step_by(2)
                .take(m * n / 2)
                .scan(0.0, |total, probability| {
                    *total += probability;
                    Some(*total)
                })
                .collect();
        }
        let (m, n) = (m as f64, n as f64);
        let deviation = (m * n * (m + n + 1.0) / 12.0).sqrt();
        (0..self.differences.len() / 2)
            .map(|u| upper_tail((m * n / 2.0 - u as f64 - 0.5) / deviation))
            .collect()
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "whole numbers and halves are exact")]
mod tests {
    use super::*;

    #[test]
    fn three_a_side_have_no_interval_at_95_percent_and_four_have() {
        let three = Shift::of(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).expect("OK because all are finite");
        assert_eq!(three.estimate(), 3.0);
        assert_eq!(three.interval(0.95), None);
        // P(U = 0) = 1/20: the range of all differences has a confidence of 90%.
        let interval = three.interval(0.90).expect("OK because three a side reach 90%");
        assert_eq!((interval.low, interval.high), (1.0, 5.0));
        assert!((interval.confidence - 0.9).abs() < 1e-12);
        let four =
            Shift::of(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0]).expect("OK because all are finite");
        assert!(four.interval(0.95).is_some());
        assert!(Shift::of(&[], &[1.0]).is_none());
        assert!(Shift::of(&[1.0], &[f64::INFINITY]).is_none());
    }

    #[test]
    fn one_a_side_have_an_estimate_alone() {
        let one = Shift::of(&[2.0], &[3.0]).expect("OK because all are finite");
        assert_eq!(one.estimate(), 1.0);
        assert_eq!(one.interval(0.5), None);
    }
}
