//! Rope scaling as Hugging Face's configurations spell it, from GGUF's keys and its tensor of factors.

use std::f64::consts::TAU;

use serde_json::{Value, json};

use super::keys::{Keys, shortest};
use crate::convert::error::ConvertError;

/// The tensor of factors that llama3's formula gives.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Llama3 {
    factor: f64,
    low_freq_factor: f64,
    high_freq_factor: f64,
    original_context: f64,
}

impl Llama3 {
    /// The factors by which the wavelengths of a head's frequencies grow. Formula: Llama 3.1's `apply_scaling`.
    fn factors(self, theta: f64, head_dim: usize) -> impl Iterator<Item = f64> {
        (0..head_dim / 2).map(move |pair| {
            let wavelength = TAU * theta.powf(2.0 * pair as f64 / head_dim as f64);
            if wavelength < self.original_context / self.high_freq_factor {
                1.0
            } else if wavelength > self.original_context / self.low_freq_factor {
                self.factor
            } else {
                let smooth = (self.original_context / wavelength - self.low_freq_factor)
                    / (self.high_freq_factor - self.low_freq_factor);
                1.0 / ((1.0 - smooth) / self.factor + smooth)
            }
        })
    }
}

/// The `rope_scaling` object, `None` for plain rope. `prefix` is the architecture's key prefix.
pub(super) fn rope_scaling(
    keys: Keys<'_>,
    prefix: &str,
    theta: f64,
    head_dim: usize,
    factors: Option<&[f32]>,
) -> Result<Option<Value>, ConvertError> {
    if let Some(factors) = factors {
        return llama3(keys, prefix, theta, head_dim, factors);
    }
    let key = |name: &str| format!("{prefix}.rope.scaling.{name}");
    let kind = keys.optional_text(&key("type"))?;
    let factor = match keys.optional_number(&key("factor"))? {
        Some(factor) => Some(factor),
        // The key of old files, which knew linear scaling only.
        None => keys.optional_number(&format!("{prefix}.rope.scale_linear"))?,
    };
    let factor = factor.filter(|&factor| factor != 0.0).map(shortest);
    let kind = match (kind, factor) {
        (Some("none") | None, None) | (Some("none"), Some(_)) => return Ok(None),
        (None, Some(factor)) if (factor - 1.0).abs() < f64::EPSILON => return Ok(None),
        (None, Some(_)) => "linear",
        (Some(kind), _) => kind,
    };
    let Some(factor) = factor.filter(|&factor| factor > 0.0) else {
        return Err(keys
            .wrong(&key("factor"), format!("is missing or not positive, but the scaling type is {kind:?}")));
    };
    match kind {
        "linear" => Ok(Some(json!({"rope_type": "linear", "factor": factor}))),
        "yarn" => {
            let original = keys.size(&key("original_context_length"))?;
            let mut scaling =
                json!({"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original});
            for (name, field) in [("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")] {
                if let (Some(value), Some(object)) =
                    (keys.optional_number(&key(name))?, scaling.as_object_mut())
                {
                    object.insert(field.to_owned(), json!(shortest(value)));
                }
            }
            Ok(Some(scaling))
        }
        other => Err(keys.wrong(&key("type"), format!("is {other:?}; known ones are none, linear and yarn"))),
    }
}

/// Finds llama3's parameters behind a tensor of factors. The tensor gives the largest factor; the other parameters are
/// those that all published models share, or the file's own original context, and must explain every value.
fn llama3(
    keys: Keys<'_>,
    prefix: &str,
    theta: f64,
    head_dim: usize,
    factors: &[f32],
) -> Result<Option<Value>, ConvertError> {
    let name = super::ROPE_FACTORS;
    if factors.len() != head_dim / 2 {
        let rule =
            format!("has {} values; a head of {head_dim} elements has {}", factors.len(), head_dim / 2);
        return Err(keys.wrong(name, rule));
    }
    let largest = factors.iter().copied().fold(1.0_f32, f32::max);
    if factors.iter().all(|&factor| factor.to_bits() == 1.0_f32.to_bits()) {
        return Ok(None);
    }
    let own = keys.optional_size(&format!("{prefix}.rope.scaling.original_context_length"))?;
    for original in own.into_iter().chain([8192, 4096, 16384, 32768]) {
        for high in [4.0, 8.0, 2.0] {
            let parameters = Llama3 {
                factor: shortest(f64::from(largest)),
                low_freq_factor: 1.0,
                high_freq_factor: high,
                original_context: original as f64,
            };
            let explained = parameters
                .factors(theta, head_dim)
                .zip(factors)
                .all(|(expected, &found)| (expected - f64::from(found)).abs() <= 1e-4 * expected);
            if explained {
                return Ok(Some(json!({
                    "rope_type": "llama3",
                    "factor": parameters.factor,
                    "low_freq_factor": parameters.low_freq_factor,
                    "high_freq_factor": parameters.high_freq_factor,
                    "original_max_position_embeddings": original,
                })));
            }
        }
    }
    Err(keys.wrong(name, "holds factors that llama3's rope scaling does not give with any known parameters"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_gives_one_for_short_waves_and_the_factor_for_long_ones() {
        let parameters =
            Llama3 { factor: 32.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 8192.0 };
        let factors: Vec<f64> = parameters.factors(500_000.0, 64).collect();
        assert_eq!(factors.len(), 32);
        assert!((factors[0] - 1.0).abs() < 1e-12 && (factors[31] - 32.0).abs() < 1e-12);
        assert!(factors.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(factors.iter().any(|&factor| factor > 1.0 && factor < 32.0));
    }
}
