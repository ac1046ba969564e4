//! Runs our model on given ids and compares rows of logits.

use mlx_rs::{Array, Dtype, transforms};
use mlxcel::{LoadedModel, Positions, SequenceState};
use std::path::Path;

/// The prefill chunk of both sides.
const CHUNK: usize = 2048;

/// The worst difference met so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Worst {
    /// In standard deviations of the oracle's row.
    pub(crate) difference: f32,
    /// Where it was.
    pub(crate) place: String,
    /// Rows compared.
    pub(crate) rows: usize,
}

impl Worst {
    /// Compares a row with the oracle's.
    pub(crate) fn compare(&mut self, place: &str, ours: &[f32], oracle: &[f32]) -> Result<(), String> {
        if ours.len() != oracle.len() {
            return Err(format!("{place}: {} logits, the oracle has {}", ours.len(), oracle.len()));
        }
        let difference = relative_difference(ours, oracle);
        self.rows += 1;
        if self.rows == 1 || difference > self.difference {
            self.difference = difference;
            place.clone_into(&mut self.place);
        }
        Ok(())
    }
}

/// The largest difference in standard deviations of the oracle's row; infinite where anything is not finite.
pub(crate) fn relative_difference(ours: &[f32], oracle: &[f32]) -> f32 {
    let largest =
        ours.iter().zip(oracle).map(|(ours, oracle)| (ours - oracle).abs()).fold(0.0_f32, |worst, value| {
            // `max` would pass over a NaN.
            if value.is_finite() { worst.max(value) } else { f32::INFINITY }
        });
    largest / standard_deviation(oracle)
}

/// The standard deviation of a row.
pub(crate) fn standard_deviation(row: &[f32]) -> f32 {
    let count = row.len() as f64;
    let mean = row.iter().copied().map(f64::from).sum::<f64>() / count;
    let variance = row.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
    #[expect(clippy::cast_possible_truncation, reason = "the rows are single precision too")]
    let deviation = variance.sqrt() as f32;
    deviation
}

/// Loads a checkpoint.
pub(crate) fn load(folder: &Path) -> Result<LoadedModel, String> {
    LoadedModel::load(folder, &mut |_, _| ()).map_err(|error| error.to_string())
}

/// Takes ids into the sequence in one pass; the logits asked for, row by row.
pub(crate) fn forward(
    model: &LoadedModel,
    state: &mut SequenceState,
    ids: &[i32],
    positions: Positions,
) -> Result<Vec<Vec<f32>>, String> {
    let words = |error: mlx_rs::error::Exception| error.to_string();
    let length = i32::try_from(ids.len()).map_err(|error| error.to_string())?;
    let logits = model.forward(&Array::from_slice(ids, &[1, length]), state, positions).map_err(words)?;
    let logits = logits.as_dtype(Dtype::Float32).map_err(words)?;
    transforms::eval([&logits]).map_err(words)?;
    let width = usize::try_from(logits.dim(-1)).map_err(|error| error.to_string())?;
    Ok(logits.as_slice::<f32>().chunks(width.max(1)).map(<[f32]>::to_vec).collect())
}

/// The logits after the last of `ids`, which go in by chunks.
pub(crate) fn prefill(
    model: &LoadedModel,
    state: &mut SequenceState,
    ids: &[i32],
) -> Result<Vec<f32>, String> {
    let mut last = None;
    for chunk in ids.chunks(CHUNK) {
        last = forward(model, state, chunk, Positions::Last)?.pop();
    }
    last.ok_or_else(|| "no logits came back".to_owned())
}

mod tests {
    use super::relative_difference;

    #[test]
    fn a_difference_is_measured_in_standard_deviations() {
        let oracle = [1.0, 3.0, 1.0, 3.0];
        assert!((relative_difference(&[1.0, 3.0, 1.0, 3.5], &oracle) - 0.5).abs() < 1e-6);
        assert!(relative_difference(&oracle, &oracle) < 1e-9);
    }

    #[test]
    fn what_is_not_a_number_is_infinitely_far_away() {
        assert!(relative_difference(&[1.0, f32::NAN, 2.0], &[1.0, 2.0, 3.0]).is_infinite());
        assert!(relative_difference(&[f32::INFINITY, 2.0, 2.0], &[1.0, 2.0, 3.0]).is_infinite());
    }
}
