//! Choosing the next token from logits: greedy, or by chance after filters.
//!
//! Everything is built as part of the graph, so that the next step can be submitted before this one's token is known.

use crate::kernels::mlx::Result;
use mlx_rs::ops::indexing::{argmax_axis, take_along_axis};
use mlx_rs::random::{self, RandomState};
use mlx_rs::{Array, Dtype, ops};
use serde::{Deserialize, Serialize};

/// How tokens are chosen. The default is greedy, without penalties.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingOptions {
    /// Divides the logits; 0 chooses the most likely token always.
    pub temperature: f32,
    /// Only this many of the most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Only the most likely tokens that together reach this probability; 1 keeps all.
    pub top_p: f32,
    /// Only tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen lately; 1 changes nothing.
    pub repetition_penalty: f32,
    /// How many of the last tokens count as seen lately.
    pub repetition_context: usize,
    /// Makes a random choice repeatable; drawn from the clock when absent.
    pub seed: Option<u64>,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_context: 20,
            seed: None,
        }
    }
}

/// A sampling option outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{option} is {value}; it must be {rule}")]
pub struct SamplingError {
    /// The option's name.
    pub option: &'static str,
    /// The value given.
    pub value: f32,
    /// The range it must be in.
    pub rule: &'static str,
}

impl SamplingOptions {
    /// Checks every option against its range.
    pub fn validate(&self) -> std::result::Result<(), SamplingError> {
        let check = |option, value: f32, fits: bool, rule| {
            if fits { Ok(()) } else { Err(SamplingError { option, value, rule }) }
        };
        let (temperature, top_p, min_p, penalty) =
            (self.temperature, self.top_p, self.min_p, self.repetition_penalty);
        check("temperature", temperature, temperature.is_finite() && temperature >= 0.0, "0 or greater")?;
        check("top_p", top_p, top_p > 0.0 && top_p <= 1.0, "greater than 0 and at most 1")?;
        check("min_p", min_p, (0.0..1.0).contains(&min_p), "at least 0 and less than 1")?;
        check("repetition_penalty", penalty, penalty.is_finite() && penalty > 0.0, "greater than 0")
    }

    /// Whether the choice depends on the logits alone.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }
}

/// The options put to work on one sequence.
pub(crate) struct Sampler {
    options: SamplingOptions,
    random: RandomState,
    /// The last tokens, `[1, n]`, when a penalty looks at them.
    recent: Option<Array>,
    /// Added to the logits: minus infinity at tokens that must not be chosen.
    bias: Option<Array>,
}

impl Sampler {
    /// `never` lists tokens that are not to be chosen at all.
    pub(crate) fn new(
        options: &SamplingOptions,
        prompt: &[u32],
        never: &[u32],
        vocab_size: usize,
    ) -> Result<Self> {
        let random = match options.seed {
            Some(seed) => RandomState::with_seed(seed)?,
            None => RandomState::new()?,
        };
        let start = prompt.len().saturating_sub(options.repetition_context);
        let recent = prompt.get(start..).unwrap_or_default();
        let penalized =
            (options.repetition_penalty - 1.0).abs() > f32::EPSILON && options.repetition_context > 0;
        Ok(Self {
            options: options.clone(),
            random,
            recent: penalized.then(|| Array::from_slice(recent, &[1, length(recent)])),
            bias: suppression(never, vocab_size),
        })
    }

    /// The next token (`[1, 1]`) after logits of `[1, 1, vocabulary]`. Built, not evaluated.
    pub(crate) fn sample(&mut self, logits: &Array) -> Result<Array> {
        let mut logits = logits.reshape(&[1, -1])?;
        if let Some(recent) = &self.recent {
            logits = penalize(&logits, recent, self.options.repetition_penalty)?;
        }
        if let Some(bias) = &mut self.bias {
            // Converted once, not in every step.
            if bias.dtype() != logits.dtype() {
                *bias = bias.as_dtype(logits.dtype())?;
            }
            logits = logits.add(&*bias)?;
        }
        let token = if self.options.is_greedy() {
            argmax_axis(&logits, -1, true)?
        } else {
            self.draw(&logits.as_dtype(Dtype::Float32)?)?
        };
        if let Some(recent) = &self.recent {
            let longer = ops::concatenate(&[recent.clone(), token.as_dtype(recent.dtype())?], 1)?;
            let keep = i32::try_from(self.options.repetition_context).unwrap_or(i32::MAX);
            let start = (longer.dim(1) - keep).max(0);
            self.recent = Some(crate::kernels::mlx::slice(&longer, &[0, start], &[1, longer.dim(1)])?);
        }
        Ok(token)
    }

    /// Filters as mlx-lm orders them: top-p, min-p and top-k on the untempered distribution, then temperature.
    fn draw(&mut self, logits: &Array) -> Result<Array> {
        let mut logprobs = logits.subtract(ops::logsumexp_axis(logits, -1, true)?)?;
        let minus_infinity = Array::from_f32(f32::NEG_INFINITY);
        let options = &self.options;
        if options.top_p < 1.0 {
            // Cumulated from the least likely up: what lies within the last 1 - top_p goes.
            let order = ops::argsort_axis(&logprobs, -1)?;
            let cumulated = ops::cumsum(take_along_axis(&logprobs, &order, -1)?.exp()?, -1, None, None)?;
            let rank = ops::argsort_axis(&order, -1)?;
            let kept = take_along_axis(cumulated, rank, -1)?.gt(Array::from_f32(1.0 - options.top_p))?;
            logprobs = ops::select(kept, &logprobs, &minus_infinity)?;
        }
        if options.min_p > 0.0 {
            let least = logprobs.max_axis(-1, true)?.add(Array::from_f32(options.min_p.ln()))?;
            logprobs = ops::select(logprobs.ge(least)?, &logprobs, &minus_infinity)?;
        }
        let vocabulary = logprobs.dim(-1);
        let top_k = i32::try_from(options.top_k).unwrap_or(i32::MAX);
        if top_k > 0 && top_k < vocabulary {
            let kth = vocabulary - top_k;
            let sorted = ops::sort_axis(&logprobs, -1)?;
            let least = crate::kernels::mlx::slice(&sorted, &[0, kth], &[1, kth + 1])?;
            logprobs = ops::select(logprobs.ge(least)?, &logprobs, &minus_infinity)?;
        }
        let key = self.random.next_key()?;
        let scaled = logprobs.multiply(Array::from_f32(1.0 / options.temperature))?;
        random::categorical(scaled, -1, None, &key)?.reshape(&[1, 1])
    }
}

/// Divides the positive logits of `recent` tokens by the penalty and multiplies the negative ones.
fn penalize(logits: &Array, recent: &Array, penalty: f32) -> Result<Array> {
    let chosen = take_along_axis(logits, recent, -1)?;
    let penalty = Array::from_f32(penalty).as_dtype(logits.dtype())?;
    let zero = Array::from_f32(0.0).as_dtype(logits.dtype())?;
    let penalized = ops::select(chosen.lt(zero)?, chosen.multiply(&penalty)?, chosen.divide(&penalty)?)?;
    logits.put_along_axis(recent, penalized, -1)
}

fn suppression(never: &[u32], vocab_size: usize) -> Option<Array> {
    let mut bias = vec![0.0_f32; vocab_size];
    let mut any = false;
    for &id in never {
        if let Some(entry) = usize::try_from(id).ok().and_then(|id| bias.get_mut(id)) {
            *entry = f32::NEG_INFINITY;
            any = true;
        }
    }
    any.then(|| Array::from_slice(&bias, &[1, length(&bias)]))
}

fn length<T>(slice: &[T]) -> i32 {
    i32::try_from(slice.len()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn tokens(options: &SamplingOptions, logits: &[f32], count: usize, never: &[u32]) -> Vec<u32> {
        let mut sampler =
            Sampler::new(options, &[0], never, logits.len()).expect("OK because the options are valid");
        let logits = Array::from_slice(logits, &[1, 1, length(logits)]);
        (0..count)
            .map(|_| {
                sampler
                    .sample(&logits)
                    .expect("OK because the shapes agree")
                    .as_type::<u32>()
                    .expect("OK because ids convert")
            })
            .map(|token| token.item_exact::<u32>())
            .collect()
    }

    fn options() -> SamplingOptions {
        SamplingOptions { temperature: 1.0, seed: Some(7), ..SamplingOptions::default() }
    }

    fn counts(tokens: &[u32]) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for token in tokens {
            *counts.entry(*token).or_default() += 1;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_largest_logit_and_a_suppressed_token_is_never_taken() {
        let logits = [0.5, 3.0, 2.0, -1.0];
        assert_eq!(tokens(&SamplingOptions::default(), &logits, 2, &[]), [1, 1]);
        assert_eq!(tokens(&SamplingOptions::default(), &logits, 2, &[1]), [2, 2]);
        assert!(tokens(&options(), &logits, 200, &[1, 2]).iter().all(|token| [0, 3].contains(token)));
    }

    #[test]
    fn a_seed_repeats_its_choices_and_another_does_not() {
        let logits = [0.0; 16];
        let first = tokens(&options(), &logits, 24, &[]);
        assert_eq!(first, tokens(&options(), &logits, 24, &[]));
        assert_ne!(first, tokens(&SamplingOptions { seed: Some(8), ..options() }, &logits, 24, &[]));
    }

    #[test]
    fn sampling_follows_the_distribution() {
        // Probabilities 1/2, 1/4, 1/8, 1/8.
        let logits = [0.5_f32.ln(), 0.25_f32.ln(), 0.125_f32.ln(), 0.125_f32.ln()];
        let counts = counts(&tokens(&options(), &logits, 2000, &[]));
        for (token, expected) in [(0, 1000_usize), (1, 500), (2, 250), (3, 250)] {
            let seen = counts.get(&token).copied().unwrap_or(0);
            assert!(seen.abs_diff(expected) < 120, "token {token}: {seen} of 2000");
        }
    }

    #[test]
    fn top_k_top_p_and_min_p_keep_what_they_say() {
        let logits = [0.5_f32.ln(), 0.25_f32.ln(), 0.15_f32.ln(), 0.1_f32.ln()];
        let seen = |options: SamplingOptions| {
            counts(&tokens(&options, &logits, 300, &[])).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(seen(options()), [0, 1, 2, 3]);
        assert_eq!(seen(SamplingOptions { top_k: 2, ..options() }), [0, 1]);
        assert_eq!(seen(SamplingOptions { top_p: 0.7, ..options() }), [0, 1]);
        assert_eq!(seen(SamplingOptions { top_p: 0.8, ..options() }), [0, 1, 2]);
        assert_eq!(seen(SamplingOptions { min_p: 0.25, ..options() }), [0, 1, 2]);
        assert_eq!(seen(SamplingOptions { top_p: 0.01, ..options() }), [0]);
    }

    #[test]
    fn a_repetition_penalty_moves_away_from_what_was_said() {
        let options = SamplingOptions { repetition_penalty: 2.0, ..SamplingOptions::default() };
        // Token 0 is in the prompt: 3.0 becomes 1.5, so 1 wins; then 1 is penalized to 1.0 and 0 leads again.
        assert_eq!(tokens(&options, &[3.0, 2.0, -1.0], 2, &[]), [1, 0]);
    }

    #[test]
    fn options_out_of_range_are_named() {
        let broken = SamplingOptions { top_p: 0.0, ..SamplingOptions::default() };
        assert_eq!(broken.validate().map_err(|error| error.option), Err("top_p"));
        let broken = SamplingOptions { temperature: f32::NAN, ..SamplingOptions::default() };
        assert_eq!(broken.validate().map_err(|error| error.option), Err("temperature"));
    }
}
