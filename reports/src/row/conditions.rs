//! Under which conditions a row was measured: memory, the state of the host, what was waited, the memory traffic that a
//! decode step needs, the controls around the row, and what its generations were besides their times.
//!
//! Everything here may be unknown: rows of older files have none of it, and not every host tells everything.

use crate::text::words;

words! {
    /// How the wait for a quiet host ended before a row was measured.
    pub enum QuietGate ("state of the quiet gate") {
        /// The host was quiet for as long as asked.
        Quiet = "Quiet",
        /// The host did not become quiet within the limit; measuring began all the same.
        TimedOut = "TimedOut",
        /// Nobody looked.
        Disabled = "Disabled",
    }
}

/// The conditions of a measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conditions {
    /// Memory that was expected and used.
    pub memory: Memory,
    /// Memory traffic of a decode step.
    pub traffic: Traffic,
    /// The host.
    pub host_state: HostState,
    /// What was really waited for the host to cool before the row was measured, in nanoseconds.
    pub cooldown_nanos: Option<u64>,
    /// What the generations were.
    pub generation: Generation,
    /// The control rows before and after the row.
    pub control: Control,
    /// What the row was held against.
    pub limits: Limits,
    /// How often the row was measured in its set until it was this one: 1 unless it was measured again.
    pub attempts: Option<u32>,
}

/// Limits that a row was held against and that a user can set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// How far the rates of the repetitions may lie apart, largest less smallest over the median, in percent.
    pub max_spread_pct: Option<f64>,
    /// How busy the busiest foreign process may be for the host to count as quiet, in percent of a processor.
    pub quiet_limit_pct: Option<f64>,
}

impl Limits {
    /// How far the rates of the repetitions of a row may lie apart unless somebody says otherwise, in percent.
    pub const MOST_SPREAD_PCT: f64 = 4.0;
}

/// What the generations of a row were, besides their times; each is known only where all repetitions agree in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Generation {
    /// Why generation ended, in the runtime's words: `length`, `eos` or `stopped` in ours.
    pub finish: Option<String>,
    /// SHA-256 of the generated token ids as 32-bit little-endian words, as that of a prompt.
    pub output_sha256: Option<String>,
    /// Prompt tokens whose keys and values were there before the prompt was read, the most of any repetition. Above zero
    /// a prefill time is not that of the prompt.
    pub cached_prompt_tokens: Option<u64>,
}

/// The two control rows around a row; unknown where none were made, or not yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Control {
    /// Name of the control checkpoint.
    pub model: Option<String>,
    /// How far apart the two lie, in percent of their mean: of decode and prefill, the one that is further beyond its band.
    pub drift_pct: Option<f64>,
    /// How far apart they may lie on this host.
    pub band_pct: Option<f64>,
}

impl Control {
    /// The controls are known to lie further apart than they may.
    pub fn moved(&self) -> bool {
        matches!((self.drift_pct, self.band_pct), (Some(drift), Some(band)) if drift > band)
    }
}

/// Memory of a row, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Weights and cache as they were estimated before anything was started.
    pub estimate_bytes: Option<u64>,
    /// What the estimate was held against.
    pub budget_bytes: Option<u64>,
    /// Peak of MLX's memory while loading.
    pub load_peak_bytes: Option<u64>,
    /// Peak of MLX's memory during the warm-up.
    pub warmup_peak_bytes: Option<u64>,
    /// Highest resident memory of the worker process, as the operating system counts it.
    pub worker_peak_bytes: Option<u64>,
}

/// Memory traffic of a decode step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traffic {
    /// Bytes that must be read for one token: the weights it touches and the key/value cache at that length, the mean over
    /// the decode steps.
    pub bytes_per_token: Option<u64>,
    /// Bytes a second that this host read from memory in one stream, measured at about the time of the row.
    pub stream_bytes_s: Option<f64>,
}

impl Traffic {
    /// Largest share of the stream bandwidth that a decode rate may need, in percent. Both are measured, so a little more
    /// than all of it is no contradiction.
    pub const MOST_PCT: f64 = 102.0;

    /// No GPU has a larger last-level cache.
    pub const LARGEST_DEVICE_CACHE_BYTES: u64 = 256 << 20;

    /// Whether a decode rate needs more of the stream bandwidth than there can be. What fits into a last-level cache of
    /// `cache_bytes` need not come from memory; a cache of which nobody knows the size excuses nothing.
    pub fn is_implausible(&self, decode_tok_s: Option<f64>, cache_bytes: Option<u64>) -> bool {
        self.bytes_per_token.is_some_and(|bytes| bytes > cache_bytes.unwrap_or(0))
            && bandwidth_pct(self, decode_tok_s).is_some_and(|share| share > Self::MOST_PCT)
    }
}

/// The host around a measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostState {
    /// How the wait for a quiet host ended.
    pub quiet_gate: Option<QuietGate>,
    /// How long was waited for it, in nanoseconds.
    pub quiet_wait_nanos: Option<u64>,
    /// Share of the measured time in which other work ran, in percent.
    pub contended_pct: Option<f64>,
    /// Thermal state when the measurement began; in words and degrees, as the host gives it.
    pub thermal_start: Option<String>,
    /// The worst during the measurement.
    pub thermal_worst: Option<String>,
    /// When it ended.
    pub thermal_end: Option<String>,
    /// Source of power, and the mode where there is one.
    pub power: Option<String>,
    /// By how much the use of swap grew during the measurement.
    pub swap_growth_bytes: Option<u64>,
    /// Time since the host was started, when the measurement of the row began.
    pub uptime_s: Option<u64>,
    /// Smallest difference that this host can tell from noise, in percent, as its own measurements of nothing show.
    pub noise_floor_pct: Option<f64>,
}

impl HostState {
    /// Largest share of the measured time in which other work may have run, in percent.
    pub const MOST_CONTENDED_PCT: f64 = 20.0;

    /// Other work is known to have run for longer than it may.
    pub fn is_contended(&self) -> bool {
        self.contended_pct.is_some_and(|share| share > Self::MOST_CONTENDED_PCT)
    }
}

/// Bytes a second at a decode rate in tokens a second.
pub(crate) fn implied_bandwidth(traffic: &Traffic, decode_tok_s: Option<f64>) -> Option<f64> {
    let bytes = traffic.bytes_per_token.filter(|bytes| *bytes > 0)?;
    Some(bytes as f64 * decode_tok_s?).filter(|bandwidth| bandwidth.is_finite())
}

/// The same as a share of what the host can stream, in percent.
pub(crate) fn bandwidth_pct(traffic: &Traffic, decode_tok_s: Option<f64>) -> Option<f64> {
    let stream = traffic.stream_bytes_s.filter(|stream| *stream > 0.0)?;
    Some(100.0 * implied_bandwidth(traffic, decode_tok_s)? / stream).filter(|share| share.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_implied_bandwidth_is_bytes_a_token_times_tokens_a_second() {
        let traffic = Traffic { bytes_per_token: Some(2_000_000), stream_bytes_s: Some(4e9) };
        assert_eq!(implied_bandwidth(&traffic, Some(1_000.0)), Some(2e9));
        assert_eq!(bandwidth_pct(&traffic, Some(1_000.0)), Some(50.0));
        assert_eq!(bandwidth_pct(&traffic, None), None);
    }

    #[test]
    fn a_rate_is_implausible_beyond_the_limit_unless_a_known_cache_holds_what_is_read() {
        let traffic = Traffic { bytes_per_token: Some(2_000_000), stream_bytes_s: Some(1e9) };
        assert!(!traffic.is_implausible(Some(510.0), None));
        assert!(traffic.is_implausible(Some(510.1), None));
        assert!(traffic.is_implausible(Some(510.1), Some(1_999_999)));
        assert!(!traffic.is_implausible(Some(510.1), Some(2_000_000)));
        assert!(!traffic.is_implausible(None, None));
        let unknown = Traffic { bytes_per_token: None, ..traffic };
        assert!(!unknown.is_implausible(Some(510.1), None));
    }

    #[test]
    fn what_is_unknown_or_nothing_gives_no_bandwidth() {
        let unknown = Traffic { bytes_per_token: None, stream_bytes_s: Some(4e9) };
        assert_eq!(implied_bandwidth(&unknown, Some(1.0)), None);
        let nothing = Traffic { bytes_per_token: Some(0), stream_bytes_s: Some(0.0) };
        assert_eq!(
            (implied_bandwidth(&nothing, Some(1.0)), bandwidth_pct(&nothing, Some(1.0))),
            (None, None)
        );
    }
}
