//! The figures of a row, derived from its samples in one place.
//!
//! The prefill columns show the repetition whose prefill rate is the lower median, the decode columns the repetition
//! whose decode rate is the lower median; these may be two different repetitions. Real counts and times of real
//! repetitions, therefore, from which every convention of a rate can be recomputed.

use thiserror::Error;

use crate::measure::{Decode, Prefill, Sample};
use crate::statistics::{Summary, lower_median_index};

/// What the repetitions of one row amount to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    prefill: Prefill,
    decode: Decode,
    reps: u32,
    prefill_spread_pct: Option<f64>,
    decode_spread_pct: Option<f64>,
    peak_memory_bytes: Option<u64>,
}

/// Samples that do not belong to one row.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FiguresError {
    /// There is none.
    #[error("no repetition was measured")]
    NoSamples,
    /// Repetitions are not numbered in rising order.
    #[error("repetition {rep} follows repetition {previous}; repetitions must be in rising order, each once")]
    RepetitionOrder {
        /// The later sample's number.
        rep: u32,
        /// The number before it.
        previous: u32,
    },
    /// The prompts differ in length.
    #[error("repetition {rep} ran {found} prompt tokens, the first one {expected}")]
    PromptTokensDiffer {
        /// The repetition.
        rep: u32,
        /// Its prompt tokens.
        found: u64,
        /// Those of the first repetition.
        expected: u64,
    },
    /// The generations differ in length.
    #[error("repetition {rep} generated {found} tokens, the first one {expected}")]
    GeneratedTokensDiffer {
        /// The repetition.
        rep: u32,
        /// Its generated tokens.
        found: u64,
        /// Those of the first repetition.
        expected: u64,
    },
}

impl Figures {
    /// The figures of these samples.
    pub fn of(samples: &[Sample]) -> Result<Self, FiguresError> {
        let (first, rest) = samples.split_first().ok_or(FiguresError::NoSamples)?;
        let mut previous = first.rep();
        for sample in rest {
            let rep = sample.rep();
            if rep <= previous {
                return Err(FiguresError::RepetitionOrder { rep, previous });
            }
            previous = rep;
            let (found, expected) = (sample.prefill().tokens(), first.prefill().tokens());
            if found != expected {
                return Err(FiguresError::PromptTokensDiffer { rep, found, expected });
            }
            let (found, expected) = (sample.decode().generated(), first.decode().generated());
            if found != expected {
                return Err(FiguresError::GeneratedTokensDiffer { rep, found, expected });
            }
        }
        let prefills: Vec<Prefill> = samples.iter().map(Sample::prefill).collect();
        let decodes: Vec<Decode> = samples.iter().map(Sample::decode).collect();
        let prefill_rates: Vec<Option<f64>> = prefills.iter().map(|prefill| prefill.tok_s()).collect();
        let decode_rates: Vec<Option<f64>> = decodes.iter().map(|decode| decode.tok_s()).collect();
        Ok(Self {
            prefill: pick(&prefills, &prefill_rates).unwrap_or_else(|| first.prefill()),
            decode: pick(&decodes, &decode_rates).unwrap_or_else(|| first.decode()),
            reps: u32::try_from(samples.len()).unwrap_or(u32::MAX),
            prefill_spread_pct: spread_pct(&prefill_rates),
            decode_spread_pct: spread_pct(&decode_rates),
            peak_memory_bytes: samples.iter().filter_map(Sample::peak_memory_bytes).max(),
        })
    }

    pub(crate) const fn from_columns(
        prefill: Prefill,
        decode: Decode,
        reps: u32,
        prefill_spread_pct: Option<f64>,
        decode_spread_pct: Option<f64>,
        peak_memory_bytes: Option<u64>,
    ) -> Self {
        Self { prefill, decode, reps, prefill_spread_pct, decode_spread_pct, peak_memory_bytes }
    }

    /// Prefill of the repetition with the lower median prefill rate.
    pub const fn prefill(&self) -> Prefill {
        self.prefill
    }

    /// Decode of the repetition with the lower median decode rate.
    pub const fn decode(&self) -> Decode {
        self.decode
    }

    /// Measured repetitions.
    pub const fn reps(&self) -> u32 {
        self.reps
    }

    /// `100 * (max - min) / median` of the prefill rates; unknown for a single repetition.
    pub const fn prefill_spread_pct(&self) -> Option<f64> {
        self.prefill_spread_pct
    }

    /// `100 * (max - min) / median` of the decode rates; unknown for a single repetition.
    pub const fn decode_spread_pct(&self) -> Option<f64> {
        self.decode_spread_pct
    }

    /// Highest peak of all repetitions whose peak is known.
    pub const fn peak_memory_bytes(&self) -> Option<u64> {
        self.peak_memory_bytes
    }
}

/// A repetition without a rate took no measurable time: it is taken, so that the row shows it and cannot be valid.
fn pick<T: Copy>(parts: &[T], rates: &[Option<f64>]) -> Option<T> {
    let index = match rates.iter().position(Option::is_none) {
        Some(without_rate) => without_rate,
        None => lower_median_index(&known(rates)?)?,
    };
    parts.get(index).copied()
}

fn spread_pct(rates: &[Option<f64>]) -> Option<f64> {
    Summary::of(&known(rates)?)?.spread_pct()
}

fn known(rates: &[Option<f64>]) -> Option<Vec<f64>> {
    rates.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::RawSample;

    fn sample(rep: u32, token_nanos: &[u64], peak: Option<u64>) -> Sample {
        Sample::try_from(RawSample {
            rep,
            prompt_tokens: 100,
            token_nanos: token_nanos.to_vec(),
            host_nanos: None,
            peak_memory_bytes: peak,
            started_at: None,
            finish: None,
        })
        .expect("OK because the times in these tests rise")
    }

    #[test]
    fn shows_the_lower_median_repetition_of_each_part() {
        // Prefill 1, 2, 4 ms: the middle is repetition 2. Decode of 2 steps in 40, 10, 20 us: the middle is repetition 3.
        let figures = Figures::of(&[
            sample(1, &[1_000_000, 1_020_000, 1_040_000], Some(5)),
            sample(2, &[2_000_000, 2_005_000, 2_010_000], None),
            sample(3, &[4_000_000, 4_010_000, 4_020_000], Some(7)),
        ])
        .expect("OK because the samples belong together");
        assert_eq!(figures.prefill(), Prefill::new(100, 2_000_000));
        assert_eq!(figures.decode(), Decode::new(3, 20_000));
        assert_eq!(figures.reps(), 3);
        assert_eq!(figures.peak_memory_bytes(), Some(7));
        // Prefill rates 100000, 50000, 25000 a second: 100 * 75000 / 50000. Decode rates 50000, 200000, 100000.
        assert_eq!(figures.prefill_spread_pct(), Some(150.0));
        assert_eq!(figures.decode_spread_pct(), Some(150.0));
    }

    #[test]
    fn of_two_repetitions_the_slower_one_is_shown() {
        let figures = Figures::of(&[sample(1, &[10, 20], None), sample(2, &[20, 40], None)])
            .expect("OK because the samples belong together");
        assert_eq!(figures.prefill().nanos(), 20);
        assert_eq!(figures.decode().nanos(), 20);
        // Rates stand 2 to 1: 100 * 1 / 1.5.
        let spread = figures.decode_spread_pct().expect("OK because there are two repetitions");
        assert!((spread - 66.666_666_666).abs() < 1e-6, "{spread}");
    }

    #[test]
    fn a_single_repetition_has_no_spread() {
        let figures =
            Figures::of(&[sample(1, &[10, 20], None)]).expect("OK because one sample belongs to itself");
        assert_eq!(figures.decode_spread_pct(), None);
        assert_eq!(figures.peak_memory_bytes(), None);
    }

    #[test]
    fn a_repetition_that_took_no_time_is_not_hidden_behind_the_others() {
        let figures = Figures::of(&[sample(1, &[10, 20], None), sample(2, &[10, 10], None)])
            .expect("OK because the samples belong together");
        assert_eq!(figures.decode().tok_s(), None);
        assert_eq!(figures.decode_spread_pct(), None);
    }

    #[test]
    fn refuses_samples_that_do_not_belong_together() {
        assert_eq!(Figures::of(&[]), Err(FiguresError::NoSamples));
        assert_eq!(
            Figures::of(&[sample(1, &[10, 20], None), sample(2, &[10], None)]),
            Err(FiguresError::GeneratedTokensDiffer { rep: 2, found: 1, expected: 2 })
        );
        assert_eq!(
            Figures::of(&[sample(2, &[10, 20], None), sample(2, &[10, 20], None)]),
            Err(FiguresError::RepetitionOrder { rep: 2, previous: 2 })
        );
    }
}
