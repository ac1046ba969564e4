//! How rank sums fall when both sides come from one distribution: every choice of ranks is equally likely.

/// Samples of up to this many values together are counted out; beyond, the normal approximation is better than 1e-4
/// and far quicker.
pub(super) const MOST_COUNTED: usize = 60;

/// The probability of each sum of `chosen` of these ranks. Ranks are doubled, so that the mean of two tied ranks is whole.
/// None when they are too many to be counted out.
pub(super) fn rank_sums(doubled_ranks: &[usize], chosen: usize) -> Option<Vec<f64>> {
    if doubled_ranks.len() > MOST_COUNTED || chosen > doubled_ranks.len() {
        return None;
    }
    let largest: usize = doubled_ranks.iter().rev().take(chosen).sum();
    // ways[k][s]: how many choices of k ranks out of those seen so far have the sum s. At most C(60, 30), about 1e17.
    let mut ways = vec![vec![0.0_f64; largest + 1]; chosen + 1];
    *ways.first_mut()?.first_mut()? = 1.0;
    for rank in doubled_ranks {
        for count in (1..=chosen).rev() {
            let (fewer, more) = ways.split_at_mut(count);
            let (from, to) = (fewer.last()?, more.first_mut()?);
            for (to, from) in to.iter_mut().skip(*rank).zip(from) {
                *to += from;
            }
        }
    }
    let mut sums = ways.pop()?;
    let all: f64 = sums.iter().sum();
    for ways in &mut sums {
        *ways /= all;
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_three_ranks_have_three_sums() {
        // Ranks 1, 2, 3: sums 3, 4 and 5, doubled.
        let sums = rank_sums(&[2, 4, 6], 2).expect("OK because three are few");
        let found: Vec<usize> = (0..sums.len()).filter(|sum| sums[*sum] > 0.0).collect();
        assert_eq!(found, [6, 8, 10]);
        assert!(found.iter().all(|sum| (sums[*sum] - 1.0 / 3.0).abs() < 1e-15));
    }

    #[test]
    fn too_many_are_not_counted() {
        assert!(rank_sums(&[2; MOST_COUNTED + 1], 2).is_none());
        assert!(rank_sums(&[2], 2).is_none());
    }
}
