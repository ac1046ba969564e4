//! The doctor: how small a difference this host can tell from noise.
//!
//! One and the same executable measures one and the same checkpoint as two sides, in turn, each time in a fresh process. What
//! the sides differ by is noise, since there is nothing else. `runs` measures, `store` keeps the result of each host, `render`
//! shows it; whoever needs a noise floor asks [`stored`].

mod render;
mod runs;
mod store;
mod wire;

use jiff::Timestamp;
use mlxcel_reports::record::Metric;
use mlxcel_reports::row::HostState;
use mlxcel_reports::statistics::Summary;
use mlxcel_reports::stats::verdict::{Certainty, Question, judge};

pub use render::{json, table};
pub use runs::{Arms, RunsTask, measure};
pub use store::{Kept, StoreError, keep, stored, stored_in};

use super::device_stream::DeviceStream;
use super::gemm::Gemm;
use super::llc::LastLevelCache;
use super::quiet::QuietState;
use super::stream::Stream;

/// The differences that the verdict is about, as shares.
pub const LEVELS: [f64; 3] = [0.02, 0.05, 0.10];

/// What was found of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// When it was measured.
    pub measured_at: Timestamp,
    /// The host.
    pub host: HostFacts,
    /// What measured.
    pub program: ProgramFacts,
    /// What was measured on.
    pub control: ControlFacts,
    /// How the host was while it was measured.
    pub conditions: Conditions,
    /// The last-level cache; `None` when its size is unknown.
    pub cache: Option<LastLevelCache>,
    /// How fast the processor reads memory; `None` when that could not be measured.
    pub stream: Option<Stream>,
    /// How fast a GPU on which MLX computes reaches its memory; `None` without one, or when that could not be measured.
    pub device_stream: Option<DeviceStream>,
    /// How fast it multiplies matrices.
    pub gemm: Option<Gemm>,
    /// The noise of each metric.
    pub noise: Vec<Noise>,
}

/// The host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Digest that tells hosts apart.
    pub host_id: Option<String>,
    /// The column `hardware` of its rows.
    pub hardware: Option<String>,
    /// What computed: `metal`, `cuda` or `cpu`.
    pub backend: String,
    /// System and version.
    pub os: Option<String>,
    /// Version of the system's kernel.
    pub kernel_version: Option<String>,
    /// When it was started.
    pub boot_time_unix_seconds: Option<u64>,
}

/// What measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFacts {
    /// Version of the harness.
    pub version: String,
    /// SHA-256 of its executable.
    pub executable_sha256: String,
    /// Whether it was compiled with optimizations.
    pub optimized: bool,
    /// Another program that served as worker, in a test; `None` when this one did.
    pub foreign_worker: Option<String>,
    /// Version of MLX.
    pub mlx_version: Option<String>,
    /// SHA-256 of the MLX library.
    pub libmlx_sha256: Option<String>,
}

/// What was measured on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlFacts {
    /// Name of the checkpoint.
    pub model: String,
    /// How much of it went into the digest.
    pub checkpoint_id_level: u8,
    /// Its digest.
    pub checkpoint_id: String,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub max_tokens: u64,
    /// Repetitions in each process.
    pub reps: u32,
}

/// How the host was meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// How the quiet gate was passed.
    pub quiet: QuietState,
    /// How long was waited for it.
    pub quiet_wait_seconds: f64,
    /// Share of the measured time in which somebody else was busy; `None` when that could not be read.
    pub contended_fraction: Option<f64>,
    /// The busiest of them, in words.
    pub busiest: Option<String>,
    /// Highest temperature.
    pub hottest_celsius: Option<f64>,
    /// Signs of throttling.
    pub throttle: Vec<String>,
    /// Source and mode of power, in words.
    pub power: Option<String>,
}

impl Conditions {
    /// Others were busy for longer than they may during a row, or it is not known whether they were.
    pub fn is_contended(&self) -> bool {
        self.contended_fraction.is_none_or(|fraction| fraction > HostState::MOST_CONTENDED_PCT / 100.0)
    }

    /// Why this may be the noise of others rather than of the host, in words; `None` of what was measured on a quiet one.
    pub fn disturbed(&self) -> Option<String> {
        let gate = match self.quiet {
            QuietState::Quiet => None,
            QuietState::TimedOut => Some("the host did not become quiet in time".to_owned()),
            QuietState::Disabled => Some("no quiet host was waited for".to_owned()),
        };
        let contended = match self.contended_fraction {
            _ if !self.is_contended() => None,
            Some(fraction) => Some(format!("others were at work for {:.0} % of the time", fraction * 100.0)),
            None => Some("whether others were at work is not known".to_owned()),
        };
        let parts: Vec<String> = [gate, contended].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", and "))
    }
}

/// The noise of one metric: two sides of the same thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// The metric.
    pub metric: Metric,
    /// Values of the first side, one a process, in order.
    pub first: Vec<f64>,
    /// Values of the second side.
    pub second: Vec<f64>,
    /// Estimated ratio of the sides, which is 1 but for noise.
    pub ratio: f64,
    /// Its interval of 95%; `None` where there are too few processes for one.
    pub interval: Option<(f64, f64)>,
    /// How often chance alone sets the sides this far apart.
    pub p: f64,
    /// Largest distance of any process from the median of all, as a share of it.
    pub largest_deviation: f64,
}

/// Whether a host can tell a difference of some size from noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolves {
    /// It can.
    Yes,
    /// It cannot: the interval of two sides of the same thing reaches beyond that size.
    No,
    /// There were too few processes to say so.
    Unknown,
}

impl Noise {
    /// Of two sides; `None` without at least two values a side, or with one that is no number above zero.
    pub fn of(metric: Metric, first: Vec<f64>, second: Vec<f64>) -> Option<Self> {
        let question = Question {
            before: &first,
            after: &second,
            higher_is_better: metric.higher_is_better(),
            floor: 0.0,
        };
        let answer = judge(&[question], Certainty::default()).into_iter().next()??;
        let all: Vec<f64> = first.iter().chain(&second).copied().collect();
        let median = Summary::of(&all)?.median;
        let largest_deviation = all.iter().map(|value| (value / median - 1.0).abs()).reduce(f64::max)?;
        Some(Self {
            metric,
            ratio: answer.ratio,
            interval: answer.ratio_low.zip(answer.ratio_high),
            p: answer.p,
            largest_deviation,
            first,
            second,
        })
    }

    /// Whether as many processes a side as here can tell a difference of this share from noise: the interval of the sides,
    /// which differ by nothing, must lie within it.
    pub fn resolves(&self, share: f64) -> Resolves {
        match self.interval {
            None => Resolves::Unknown,
            Some((low, high)) if low >= 1.0 - share && high <= 1.0 + share => Resolves::Yes,
            Some(_) => Resolves::No,
        }
    }

    /// As far as two single measurements of the same thing were seen to lie apart, as a share: twice the largest distance from
    /// the median. A smaller difference between two single measurements says nothing.
    pub fn floor(&self) -> f64 {
        2.0 * self.largest_deviation
    }

    /// Processes of the smaller side.
    pub fn processes_a_side(&self) -> usize {
        self.first.len().min(self.second.len())
    }
}

impl Diagnosis {
    /// The noise of a metric.
    pub fn noise_of(&self, metric: Metric) -> Option<&Noise> {
        self.noise.iter().find(|noise| noise.metric == metric)
    }

    /// Smallest difference of two single decode rates that this host can tell from noise, in percent.
    pub fn noise_floor_pct(&self) -> Option<f64> {
        self.noise_of(Metric::Decode).map(|noise| 100.0 * noise.floor())
    }

    /// Digest of what was measured: host, system, program, checkpoint and shape. Another digest is another measurement.
    pub fn digest(&self) -> String {
        let unknown = |fact: &Option<String>| fact.clone().unwrap_or_default();
        let parts = [
            unknown(&self.host.host_id),
            self.host.backend.clone(),
            unknown(&self.host.os),
            unknown(&self.host.kernel_version),
            self.program.executable_sha256.clone(),
            unknown(&self.program.libmlx_sha256),
            self.control.checkpoint_id_level.to_string(),
            self.control.checkpoint_id.clone(),
            self.control.prompt_tokens.to_string(),
            self.control.max_tokens.to_string(),
            self.control.reps.to_string(),
        ];
        crate::provenance::sha256_hex(parts.join("\n").as_bytes())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A diagnosis with these decode rates.
    pub(super) fn diagnosis(first: &[f64], second: &[f64]) -> Diagnosis {
        Diagnosis {
            measured_at: "2026-11-29T20:15:05Z".parse().expect("OK because it is a moment"),
            host: HostFacts {
                host_id: Some("0123456789abcdef".to_owned()),
                hardware: Some("Example_CPU_8GB".to_owned()),
                backend: "cpu".to_owned(),
                os: Some("Example Linux 12".to_owned()),
                kernel_version: Some("6.1.0".to_owned()),
                boot_time_unix_seconds: Some(1_700_000_000),
            },
            program: ProgramFacts {
                version: "0.1.0".to_owned(),
                executable_sha256: "01".repeat(32),
                optimized: true,
                ..ProgramFacts::default()
            },
            control: ControlFacts {
                model: "control-4bit".to_owned(),
                checkpoint_id_level: 2,
                checkpoint_id: "ab".repeat(32),
                prompt_tokens: 128,
                max_tokens: 64,
                reps: 3,
            },
            conditions: Conditions {
                quiet: QuietState::Quiet,
                quiet_wait_seconds: 90.0,
                contended_fraction: Some(0.0),
                busiest: None,
                hottest_celsius: Some(61.0),
                throttle: Vec::new(),
                power: Some("mains".to_owned()),
            },
            cache: None,
            stream: None,
            device_stream: None,
            gemm: None,
            noise: Noise::of(Metric::Decode, first.to_vec(), second.to_vec()).into_iter().collect(),
        }
    }

    const CALM: [f64; 8] = [100.0, 100.4, 99.7, 100.1, 99.9, 100.2, 99.8, 100.3];

    #[test]
    fn a_calm_host_resolves_small_differences_and_a_restless_one_only_large_ones() {
        let answers = |noise: &Noise| LEVELS.map(|share| noise.resolves(share));
        let mut other = CALM;
        other.reverse();
        let calm =
            Noise::of(Metric::Decode, CALM.to_vec(), other.to_vec()).expect("OK because all are above zero");
        assert_eq!(answers(&calm), [Resolves::Yes; 3]);
        let restless = |values: [f64; 8]| values.map(|value| 100.0 + (value - 100.0) * 12.0).to_vec();
        let restless = Noise::of(Metric::Decode, restless(CALM), restless(other))
            .expect("OK because all are above zero");
        assert_eq!(answers(&restless), [Resolves::No, Resolves::Yes, Resolves::Yes]);
        assert!(restless.floor() > 0.08 && restless.floor() < 0.11, "{}", restless.floor());
    }

    #[test]
    fn sides_that_drift_apart_resolve_nothing_smaller_than_the_drift() {
        let later = CALM.map(|value| value * 0.96).to_vec();
        let noise = Noise::of(Metric::Decode, CALM.to_vec(), later).expect("OK because all are above zero");
        assert_eq!(LEVELS.map(|share| noise.resolves(share)), [Resolves::No, Resolves::Yes, Resolves::Yes]);
        assert!(noise.p < 0.001, "{}", noise.p);
    }

    #[test]
    fn too_few_processes_say_nothing() {
        let noise = Noise::of(Metric::Decode, CALM[..3].to_vec(), CALM[3..6].to_vec());
        assert_eq!(noise.map(|noise| noise.resolves(0.10)), Some(Resolves::Unknown));
        assert_eq!(Noise::of(Metric::Decode, vec![1.0], vec![1.0]), None);
        assert_eq!(Noise::of(Metric::Decode, vec![1.0, 0.0], vec![1.0, 1.0]), None);
    }

    #[test]
    fn the_floor_is_as_far_as_two_measurements_were_seen_apart() {
        let noise = Noise::of(Metric::Decode, vec![98.0, 100.0], vec![100.0, 103.0]);
        assert!(noise.is_some_and(|noise| (noise.floor() - 0.06).abs() < 1e-12));
    }

    #[test]
    fn what_was_measured_beside_others_says_so() {
        let of = |quiet, contended_fraction| {
            let mut one = diagnosis(&CALM, &CALM).conditions;
            (one.quiet, one.contended_fraction) = (quiet, contended_fraction);
            one.disturbed().unwrap_or_default()
        };
        assert_eq!(of(QuietState::Quiet, Some(0.2)), "");
        for (quiet, contended, words) in [
            (QuietState::Disabled, Some(0.0), "no quiet host was waited for"),
            (QuietState::TimedOut, Some(0.0), "did not become quiet"),
            (QuietState::Quiet, Some(0.9), "others were at work for 90 %"),
            (QuietState::Quiet, None, "not known"),
        ] {
            assert!(of(quiet, contended).contains(words), "{words}");
        }
    }

    #[test]
    fn another_program_or_checkpoint_is_another_measurement() {
        let one = diagnosis(&CALM, &CALM);
        let mut other = one.clone();
        other.measured_at = Timestamp::now();
        assert_eq!(one.digest(), other.digest());
        other.control.checkpoint_id = "cd".repeat(32);
        assert_ne!(one.digest(), other.digest());
        let mut other = one.clone();
        other.program.executable_sha256 = "02".repeat(32);
        assert_ne!(one.digest(), other.digest());
    }
}
