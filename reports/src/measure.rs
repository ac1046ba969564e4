//! What was timed: counts and times, from which rates follow.
//!
//! Prefill is the time from the first forward call to the first token's value on the host. Decode is the time of the
//! steps after it: N generated tokens take N-1 decode steps, so the decode rate is (N-1)/time. Which measurements are
//! good is for others to say.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

const NANOS_PER_SECOND: f64 = 1e9;

/// The reading of the prompt, up to the first generated token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefill {
    tokens: u64,
    nanos: u64,
}

impl Prefill {
    /// `tokens` prompt tokens read in `nanos` nanoseconds.
    pub const fn new(tokens: u64, nanos: u64) -> Self {
        Self { tokens, nanos }
    }

    /// Prompt tokens.
    pub const fn tokens(self) -> u64 {
        self.tokens
    }

    /// Nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.nanos
    }

    /// Prompt tokens a second; none when there was no token or no time.
    pub fn tok_s(self) -> Option<f64> {
        rate(self.tokens, self.nanos)
    }
}

/// The generation of the tokens after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decode {
    generated: u64,
    nanos: u64,
}

impl Decode {
    /// `generated` tokens in all, the first of them produced by prefill; `nanos` nanoseconds for the others.
    pub const fn new(generated: u64, nanos: u64) -> Self {
        Self { generated, nanos }
    }

    /// Generated tokens, the first included.
    pub const fn generated(self) -> u64 {
        self.generated
    }

    /// Decode steps: the generated tokens less the first, which prefill produced.
    pub const fn steps(self) -> u64 {
        self.generated.saturating_sub(1)
    }

    /// Nanoseconds for all steps.
    pub const fn nanos(self) -> u64 {
        self.nanos
    }

    /// Decode steps a second; none when there was no step or no time.
    pub fn tok_s(self) -> Option<f64> {
        rate(self.steps(), self.nanos)
    }
}

fn rate(count: u64, nanos: u64) -> Option<f64> {
    (count > 0 && nanos > 0).then(|| count as f64 * NANOS_PER_SECOND / nanos as f64)
}

/// What a worker hands back for one repetition, unchecked. Also the JSON form between processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSample {
    /// Number of the repetition, from 1.
    pub rep: u32,
    /// Tokens in the prompt that was run.
    pub prompt_tokens: u64,
    /// For each generated token, nanoseconds from the first forward call to its value on the host.
    pub token_nanos: Vec<u64>,
    /// Nanoseconds of the decode loop spent outside MLX calls.
    pub host_nanos: Option<u64>,
    /// Peak of MLX's memory during the repetition.
    pub peak_memory_bytes: Option<u64>,
    /// When the repetition began.
    pub started_at: Option<Timestamp>,
    /// Why generation stopped, in the runtime's words.
    pub finish: Option<String>,
}

/// One repetition, checked: token times exist, rise, and start with prefill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample(RawSample);

/// Why a repetition's times cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SampleError {
    /// Repetitions are counted from 1.
    #[error("repetition number 0: repetitions are counted from 1")]
    RepetitionZero,
    /// The prompt was empty.
    #[error("repetition {rep}: the prompt has no tokens")]
    EmptyPrompt {
        /// The repetition.
        rep: u32,
    },
    /// Nothing was generated.
    #[error("repetition {rep}: no token was generated")]
    NoTokens {
        /// The repetition.
        rep: u32,
    },
    /// A token came before its predecessor.
    #[error(
        "repetition {rep}: token {token} is stamped at {nanos} ns, before its predecessor at {previous} ns"
    )]
    TimeRunsBack {
        /// The repetition.
        rep: u32,
        /// The token, from 1.
        token: usize,
        /// Its time.
        nanos: u64,
        /// The time of the token before it.
        previous: u64,
    },
}

impl TryFrom<RawSample> for Sample {
    type Error = SampleError;

    fn try_from(raw: RawSample) -> Result<Self, SampleError> {
        let rep = raw.rep;
        if rep == 0 {
            return Err(SampleError::RepetitionZero);
        }
        if raw.prompt_tokens == 0 {
            return Err(SampleError::EmptyPrompt { rep });
        }
        if raw.token_nanos.is_empty() {
            return Err(SampleError::NoTokens { rep });
        }
        for (index, pair) in raw.token_nanos.windows(2).enumerate() {
            if let [previous, nanos] = *pair
                && nanos < previous
            {
                return Err(SampleError::TimeRunsBack { rep, token: index + 2, nanos, previous });
            }
        }
        Ok(Self(raw))
    }
}

impl Sample {
    /// Number of the repetition, from 1.
    pub const fn rep(&self) -> u32 {
        self.0.rep
    }

    /// From the first forward call to the first token.
    pub fn prefill(&self) -> Prefill {
        Prefill::new(self.0.prompt_tokens, self.first_nanos())
    }

    /// From the first token to the last.
    pub fn decode(&self) -> Decode {
        let last = self.0.token_nanos.last().copied().unwrap_or_default();
        Decode::new(self.0.token_nanos.len() as u64, last.saturating_sub(self.first_nanos()))
    }

    /// For each generated token, nanoseconds from the first forward call to its value on the host.
    pub fn token_nanos(&self) -> &[u64] {
        &self.0.token_nanos
    }

    /// Nanoseconds of the decode loop spent outside MLX calls.
    pub const fn host_nanos(&self) -> Option<u64> {
        self.0.host_nanos
    }

    /// Peak of MLX's memory during the repetition.
    pub const fn peak_memory_bytes(&self) -> Option<u64> {
        self.0.peak_memory_bytes
    }

    /// When the repetition began.
    pub const fn started_at(&self) -> Option<Timestamp> {
        self.0.started_at
    }

    /// Why generation stopped, in the runtime's words.
    pub fn finish(&self) -> Option<&str> {
        self.0.finish.as_deref()
    }

    /// The unchecked form again.
    pub const fn as_raw(&self) -> &RawSample {
        &self.0
    }

    fn first_nanos(&self) -> u64 {
        self.0.token_nanos.first().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(token_nanos: &[u64]) -> RawSample {
        RawSample {
            rep: 1,
            prompt_tokens: 8,
            token_nanos: token_nanos.to_vec(),
            host_nanos: None,
            peak_memory_bytes: None,
            started_at: None,
            finish: None,
        }
    }

    #[test]
    fn the_decode_rate_counts_steps_and_not_tokens() {
        // 5 tokens, 4 steps in 2 seconds: 2 a second, where 5/2 would claim 2.5.
        assert_eq!(Decode::new(5, 2_000_000_000).tok_s(), Some(2.0));
        assert_eq!(Decode::new(5, 2_000_000_000).steps(), 4);
    }

    #[test]
    fn there_is_no_rate_without_time_or_steps() {
        assert_eq!(Decode::new(1, 1_000).tok_s(), None);
        assert_eq!(Decode::new(0, 1_000).tok_s(), None);
        assert_eq!(Decode::new(2, 0).tok_s(), None);
        assert_eq!(Prefill::new(0, 1_000).tok_s(), None);
        assert_eq!(Prefill::new(512, 0).tok_s(), None);
        assert_eq!(Prefill::new(512, 256_000_000_000).tok_s(), Some(2.0));
    }

    #[test]
    fn prefill_ends_and_decode_begins_at_the_first_token() {
        let sample = Sample::try_from(raw(&[300, 340, 390, 400])).expect("OK because the times rise");
        assert_eq!(sample.prefill(), Prefill::new(8, 300));
        assert_eq!(sample.decode(), Decode::new(4, 100));
    }

    #[test]
    fn refuses_times_that_cannot_be() {
        assert_eq!(Sample::try_from(raw(&[])), Err(SampleError::NoTokens { rep: 1 }));
        assert_eq!(
            Sample::try_from(raw(&[10, 20, 19])),
            Err(SampleError::TimeRunsBack { rep: 1, token: 3, nanos: 19, previous: 20 })
        );
        assert_eq!(Sample::try_from(RawSample { rep: 0, ..raw(&[1]) }), Err(SampleError::RepetitionZero));
        assert_eq!(
            Sample::try_from(RawSample { prompt_tokens: 0, ..raw(&[1]) }),
            Err(SampleError::EmptyPrompt { rep: 1 })
        );
    }
}
