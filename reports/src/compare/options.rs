//! What the user of a comparison may say: the one thing that may differ, limits, and what is accepted although a rule
//! speaks against it.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::record::{Field, Metric, SHAPE};
use crate::text::{UnknownWord, words};

/// The one thing that may differ between the sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Axis {
    /// Nothing: two runs of the same thing.
    #[default]
    Nothing,
    /// The source commit.
    Commit,
    /// MLX.
    Mlx,
    /// The host.
    Host,
    /// The program that runs the model; one side is a reference.
    Runtime,
    /// One setting.
    Setting(Field),
}

/// The facts that `--vary setting=NAME` may name.
pub fn settings() -> impl Iterator<Item = Field> {
    SHAPE.into_iter().chain([Field::Kernels, Field::Features, Field::TargetCpu, Field::Backend])
}

impl Axis {
    /// Whether a fact may differ. What a thing carries with it differs with it: another program has another commit, MLX
    /// and build; another host another device, driver and executable.
    pub fn covers(self, field: Field) -> bool {
        match self {
            Self::Nothing => false,
            Self::Commit => matches!(field, Field::Commit | Field::RuntimeVersion),
            Self::Mlx => matches!(field, Field::MlxVersion | Field::MlxCommit | Field::MlxLibrary),
            Self::Host => matches!(
                field,
                Field::Hardware
                    | Field::HostId
                    | Field::UsableCores
                    | Field::Os
                    | Field::Driver
                    | Field::Backend
                    | Field::TargetCpu
                    | Field::Features
                    // Another platform has a library file of its own, of the same MLX.
                    | Field::MlxLibrary
            ),
            Self::Runtime => matches!(
                field,
                Field::Runtime
                    | Field::RuntimeVersion
                    | Field::Commit
                    | Field::MlxVersion
                    | Field::MlxCommit
                    | Field::MlxLibrary
                    | Field::BuildType
                    | Field::Features
                    | Field::TargetCpu
                    | Field::Kernels
                    | Field::Backend
            ),
            Self::Setting(setting) => {
                // A target length and the prompt of that length are one setting.
                field == setting || (setting == Field::PromptTarget && field == Field::Prompt)
            }
        }
    }

    /// The fact that gives the axis its name, which must be known on both sides.
    pub const fn principal(self) -> Option<Field> {
        match self {
            Self::Nothing => None,
            Self::Commit => Some(Field::Commit),
            Self::Mlx => Some(Field::MlxCommit),
            Self::Host => Some(Field::Hardware),
            Self::Runtime => Some(Field::Runtime),
            Self::Setting(field) => Some(field),
        }
    }

    /// The setting that varies, if one does.
    pub const fn setting(self) -> Option<Field> {
        match self {
            Self::Setting(field) => Some(field),
            _ => None,
        }
    }
}

impl std::fmt::Display for Axis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Commit => f.write_str("commit"),
            Self::Mlx => f.write_str("mlx"),
            Self::Host => f.write_str("host"),
            Self::Runtime => f.write_str("runtime"),
            Self::Setting(field) => write!(f, "setting={field}"),
        }
    }
}

impl FromStr for Axis {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let setting = |name: &str| {
            let name = name.replace('-', "_");
            settings().find(|field| field.as_str() == name).map(Self::Setting)
        };
        let found = match text {
            "commit" => Some(Self::Commit),
            "mlx" => Some(Self::Mlx),
            "host" => Some(Self::Host),
            "runtime" => Some(Self::Runtime),
            other => other.strip_prefix("setting=").and_then(setting),
        };
        found.ok_or_else(|| UnknownWord {
            what: "thing that may differ",
            found: text.to_owned(),
            known: format!(
                "commit, mlx, host, runtime, setting=NAME with NAME one of {}",
                settings().map(Field::as_str).collect::<Vec<_>>().join(", ")
            ),
        })
    }
}

words! {
    /// What the user takes on himself. Each stands in the report.
    pub enum Acceptance ("refusal that can be accepted") {
        /// A side does not say from which commit it was built.
        MissingCommit = "missing-commit",
        /// A side was built from sources that differ from its commit.
        Dirty = "dirty",
        /// A side mixes commits.
        MixedCommits = "mixed-commits",
        /// A side does not say which MLX ran.
        MissingMlx = "missing-mlx",
        /// The files of the MLX library differ although version and commit are the same.
        MlxLibrary = "mlx-library",
        /// A side does not say which file of the MLX library was loaded.
        MissingMlxLibrary = "missing-mlx-library",
        /// A side does not say on which kind of host it ran.
        MissingHost = "missing-host",
        /// A side does not say on which host of its kind it ran, as in containers.
        MissingHostId = "missing-host-id",
        /// A side does not say which operating system or driver its host had.
        MissingHostSoftware = "missing-host-software",
        /// Operating system or driver changed between the sides.
        HostSoftware = "host-software",
        /// A side does not say how it was compiled.
        MissingBuild = "missing-build",
        /// A side does not say which program ran, or which version of it.
        MissingRuntime = "missing-runtime",
        /// A side does not say a setting that the other one has.
        MissingSettings = "missing-settings",
        /// A row has no date.
        MissingDate = "missing-date",
        /// The host was restarted between a reference and the run.
        Restart = "restart",
        /// The executable was not shown to match its sources.
        StaleBinary = "stale-binary",
        /// A candidate that was measured before its baseline, in a gate.
        OlderCandidate = "older-candidate",
        /// Embedders and rerankers among the generators.
        NonGenerative = "non-generative",
        /// A row states another rate than its counts and times give.
        StatedRate = "stated-rate",
    }
}

words! {
    /// How several rows of one key are taken.
    pub enum Repeat ("way to take repeated rows") {
        /// Their median.
        Median = "median",
        /// The last one of the file.
        Last = "last",
        /// Their median, and the range of their ratios beside it.
        All = "all",
    }
}

/// What the user says.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is compared.
    pub metric: Metric,
    /// The one thing that may differ.
    pub axis: Axis,
    /// What is accepted.
    pub accepted: BTreeSet<Acceptance>,
    /// By which share of the smaller count prompt tokens may differ, where the user said.
    pub prompt_tolerance: Option<f64>,
    /// Largest age of a reference in days.
    pub max_date_gap_days: u32,
    /// Fewest tokens from which a decode rate is taken.
    pub min_generated: u64,
    /// Relative change from which a pair counts as moved.
    pub moved_threshold: f64,
    /// How far two measurements of the same thing lie apart on this host, where that is known; a smaller change is none.
    pub noise_floor: Option<f64>,
    /// How several rows of one key are taken; none for refusing them.
    pub repeat: Option<Repeat>,
    /// Smallest share of the smaller side that must be compared.
    pub min_share: Option<f64>,
    /// The command line, for the report.
    pub command: Vec<String>,
}

impl Options {
    /// The relative change from which a pair can have moved: the threshold, or the noise floor where that is larger.
    pub fn floor(&self) -> f64 {
        self.moved_threshold.max(self.noise_floor.unwrap_or(0.0))
    }
}

/// By which share of the smaller count prompt tokens may differ where the sides count with different programs.
pub const FOREIGN_PROMPT_TOLERANCE: f64 = 0.10;

impl Default for Options {
    fn default() -> Self {
        Self {
            metric: Metric::Decode,
            axis: Axis::Nothing,
            accepted: BTreeSet::new(),
            prompt_tolerance: None,
            max_date_gap_days: 1,
            min_generated: 64,
            moved_threshold: 0.10,
            noise_floor: None,
            repeat: None,
            min_share: None,
            command: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_reads_back_from_its_name() {
        for axis in [Axis::Commit, Axis::Mlx, Axis::Host, Axis::Runtime]
            .into_iter()
            .chain(settings().map(Axis::Setting))
        {
            assert_eq!(axis.to_string().parse::<Axis>(), Ok(axis));
            assert!(axis.principal().is_some_and(|field| axis.covers(field)), "{axis}");
        }
        assert_eq!("setting=kv-mode".parse(), Ok(Axis::Setting(Field::KvMode)));
        for text in ["", "setting=", "setting=hardware", "everything"] {
            assert!(text.parse::<Axis>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_axis_but_the_host_lets_the_host_differ() {
        for axis in [Axis::Nothing, Axis::Commit, Axis::Mlx, Axis::Runtime, Axis::Setting(Field::KvMode)] {
            assert!(!axis.covers(Field::Hardware), "{axis}");
        }
    }
}
