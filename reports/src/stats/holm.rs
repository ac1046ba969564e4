//! Holm's correction: of many rows looked at together, how sure one may be of each.

/// The adjusted p-values, in the order of the given ones: the k-th smallest of m times (m - k + 1), never smaller than the
/// one before it and at most 1. Comparing them with alpha keeps the chance of even one false finding below alpha.
pub fn adjust(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = p_values.iter().copied().enumerate().collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (step, (index, p)) in order.into_iter().enumerate() {
        largest = largest.max((p * (p_values.len() - step) as f64).min(1.0));
        if let Some(adjusted) = adjusted.get_mut(index) {
            *adjusted = largest;
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_one_row_fewer_and_none_goes_back() {
        let found = adjust(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
        assert_eq!(adjust(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(adjust(&[]).is_empty());
    }
}
