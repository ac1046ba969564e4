//! Statistics over a handful of repetitions: median, smallest, largest, spread, and which repetition stands for the row.
//!
//! Everything here is defined for finite values and says nothing of an empty set. Tests of significance are not here.

/// Order statistics of at least one finite value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many values.
    pub count: usize,
    /// Smallest.
    pub min: f64,
    /// Middle value; of an even count, the mean of the middle two.
    pub median: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// None for no value, or when one is not finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len() / 2;
        let upper = *sorted.get(half)?;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(*sorted.get(half.checked_sub(1)?)?, upper)
        } else {
            upper
        };
        Some(Self { count: sorted.len(), min: *sorted.first()?, median, max: *sorted.last()? })
    }

    /// `100 * (max - min) / median`. None for a single value, of which no spread is known, and for a median of zero.
    pub fn spread_pct(&self) -> Option<f64> {
        let spread = 100.0 * (self.max - self.min) / self.median;
        (self.count > 1 && spread.is_finite()).then_some(spread)
    }
}

/// First and third quartile by linear interpolation between the order statistics, position (n-1)/4 and 3(n-1)/4 from 0
/// (the seventh definition of Hyndman and Fan, the default of R and NumPy). None for no value, or when one is not finite.
pub fn quartiles(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarters: usize| {
        let scaled = quarters.checked_mul(sorted.len().checked_sub(1)?)?;
        let low = *sorted.get(scaled / 4)?;
        let high = sorted.get(scaled / 4 + 1).copied().unwrap_or(low);
        Some(low + (high - low) * (scaled % 4) as f64 / 4.0)
    };
    Some((at(1)?, at(3)?))
}

/// The geometric mean. None for no value, or when one is not a finite number above zero.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite() || *value <= 0.0) {
        return None;
    }
    Some((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// Position of the lower median: the middle value, or of an even count the smaller of the middle two; of equal values
/// the earlier one. None for no value, or when one is not finite.
pub fn lower_median_index(values: &[f64]) -> Option<usize> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut order: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
    order.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let (middle, _) = *order.get(values.len().checked_sub(1)? / 2)?;
    values.iter().position(|value| value.total_cmp(&middle).is_eq())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_median_of_an_odd_count_is_the_middle_value() {
        let summary = Summary::of(&[30.0, 10.0, 20.0]);
        assert_eq!(summary, Some(Summary { count: 3, min: 10.0, median: 20.0, max: 30.0 }));
        assert_eq!(summary.and_then(|summary| summary.spread_pct()), Some(100.0));
    }

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle_two() {
        let summary = Summary::of(&[40.0, 10.0, 30.0, 20.0]);
        assert_eq!(summary, Some(Summary { count: 4, min: 10.0, median: 25.0, max: 40.0 }));
        // 100 * (40 - 10) / 25
        assert_eq!(summary.and_then(|summary| summary.spread_pct()), Some(120.0));
    }

    #[test]
    fn one_value_has_no_known_spread() {
        assert_eq!(Summary::of(&[5.0]).and_then(|summary| summary.spread_pct()), None);
    }

    #[test]
    fn nothing_is_said_of_no_values_or_of_values_that_are_not_finite() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(lower_median_index(&[]), None);
        assert_eq!(lower_median_index(&[f64::INFINITY]), None);
    }

    #[test]
    fn the_lower_median_is_one_of_the_values() {
        assert_eq!(lower_median_index(&[30.0, 10.0, 20.0]), Some(2));
        assert_eq!(lower_median_index(&[40.0, 10.0, 30.0, 20.0]), Some(3));
        assert_eq!(lower_median_index(&[7.0]), Some(0));
        assert_eq!(lower_median_index(&[7.0, 7.0]), Some(0));
        assert_eq!(lower_median_index(&[9.0, 7.0, 8.0, 8.0]), Some(2));
    }

    #[test]
    fn quartiles_are_those_of_numpy() {
        assert_eq!(quartiles(&[4.0, 1.0, 3.0, 2.0]), Some((1.75, 3.25)));
        assert_eq!(quartiles(&[5.0, 1.0, 2.0, 4.0, 3.0]), Some((2.0, 4.0)));
        assert_eq!(quartiles(&[7.0]), Some((7.0, 7.0)));
        assert_eq!(quartiles(&[]), None);
    }

    #[test]
    fn the_geometric_mean_of_a_doubling_and_a_halving_is_one() {
        let mean = geometric_mean(&[2.0, 0.5]).expect("OK because both are above zero");
        assert!((mean - 1.0).abs() < 1e-12, "{mean}");
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(geometric_mean(&[]), None);
    }

    proptest! {
        #[test]
        fn order_of_repetitions_changes_no_statistic(mut values in prop::collection::vec(0.1_f64..1e6, 1..9)) {
            let forward = Summary::of(&values);
            let middle = lower_median_index(&values).map(|index| values[index]);
            values.reverse();
            prop_assert_eq!(forward, Summary::of(&values));
            prop_assert_eq!(middle, lower_median_index(&values).map(|index| values[index]));
        }
    }
}
