//! The upper tail of the normal distribution, for samples too large to be counted out.

/// P(Z >= z) of a standard normal Z.
///
/// Near zero the series erf(x) = 2/sqrt(pi) * exp(-x^2) * sum 2^n x^(2n+1) / (1*3*...*(2n+1)), which has no cancellation;
/// far out the continued fraction of erfc (Abramowitz and Stegun 7.1.6 and 7.1.14). Both to about 1e-14.
pub(super) fn upper_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - upper_tail(-z);
    }
    let x = z / std::f64::consts::SQRT_2;
    let density = (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI;
    let erfc = if x < 2.5 {
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term > sum * 1e-17 {
            odd += 2.0;
            term *= 2.0 * x * x / odd;
            sum += term;
        }
        1.0 - density * sum
    } else {
        // From the innermost of enough levels outward: x + (1/2)/(x + (2/2)/(x + ...)).
        let fraction = (1..=200).rev().fold(x, |inner, level| x + f64::from(level) / 2.0 / inner);
        density / 2.0 / fraction
    };
    erfc / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_that_of_scipy() {
        // scipy.stats.norm.sf
        for (z, expected) in [
            (0.0, 0.5),
            (1.0, 0.158_655_253_931_457_07),
            (1.959_963_984_540_054, 0.025),
            (3.0, 0.001_349_898_031_630_094_6),
            (3.6, 1.591_085_901_575_338_7e-4),
            (6.0, 9.865_876_450_376_946e-10),
            (-1.0, 0.841_344_746_068_542_9),
        ] {
            let found = upper_tail(z);
            assert!((found - expected).abs() <= 1e-12 * expected.max(1e-3), "{z}: {found} {expected}");
        }
    }
}
