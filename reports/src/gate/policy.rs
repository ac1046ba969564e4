//! What a gate demands: the policy file.
//!
//! A TOML file; every key has a default, an unknown key is an error. `docs/gating.md` explains each.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use super::pattern::Pattern;
use crate::compare::options::{Acceptance, Axis};
use crate::record::Metric;
use crate::stats::verdict::Certainty;
use crate::text::words;

/// Version of the policy files this program reads.
pub const POLICY_VERSION: u32 = 1;

/// A policy that cannot be used.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind.
    #[error("{}: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The complaint, with its place.
        reason: String,
    },
    /// A value that no gate can work with.
    #[error("{}: `{key}` is {found}; it must be {expected}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
}

words! {
    /// What becomes of a gate with rows of which nothing can be said.
    pub enum OnUnclear ("treatment of unclear rows") {
        /// They passed the screening, and pass.
        Pass = "pass",
        /// The gate is inconclusive.
        Inconclusive = "inconclusive",
    }
}

/// The policy.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Version of this file's form.
    pub schema_version: u32,
    /// What is looked at.
    pub metrics: Vec<Metric>,
    /// The one thing that may differ between baseline and candidate.
    #[serde(deserialize_with = "axis", serialize_with = "shown")]
    pub vary: Axis,
    /// Refusals that are accepted.
    pub accept: BTreeSet<Acceptance>,
    /// Largest chance of even one false alarm in the whole gate.
    pub alpha: f64,
    /// Confidence of each row's interval.
    pub confidence: f64,
    /// The smallest change that matters, as a share, where no threshold says otherwise.
    pub floor: f64,
    /// How many times its A/A spread a row's floor is at least.
    pub aa_factor: f64,
    /// What becomes of rows that are unclear and not flagged.
    pub unclear: OnUnclear,
    /// How many days older than the candidate a baseline may be; none for any age.
    pub max_baseline_age_days: Option<u32>,
    /// Branch, tag or commit whose copies the baseline's files must be; none for not looking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected_branch: Option<String>,
    /// Fewest generated tokens from which a decode rate is taken.
    pub min_generated: u64,
    /// Smallest share of the smaller side's rows that must be compared.
    pub min_share: Option<f64>,
    /// Rows that the candidate must have measured.
    pub required: Vec<Pattern>,
    /// Floors of some rows and metrics; the last that fits counts.
    pub threshold: Vec<Threshold>,
    /// Rows that are known to be noisy.
    pub known_noise: Vec<KnownNoise>,
}

impl Default for Policy {
    fn default() -> Self {
        let certainty = Certainty::default();
        Self {
            schema_version: POLICY_VERSION,
            metrics: vec![Metric::Decode, Metric::Prefill],
            vary: Axis::Commit,
            accept: BTreeSet::new(),
            alpha: certainty.alpha,
            confidence: certainty.confidence,
            floor: 0.05,
            aa_factor: 2.0,
            unclear: OnUnclear::Pass,
            max_baseline_age_days: None,
            protected_branch: None,
            min_generated: 64,
            min_share: None,
            required: Vec::new(),
            threshold: Vec::new(),
            known_noise: Vec::new(),
        }
    }
}

/// A floor of some rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// The metric; none for all.
    #[serde(default)]
    pub metric: Option<Metric>,
    /// The rows' names; none for all.
    #[serde(default = "all")]
    pub models: Vec<Pattern>,
    /// The smallest change that matters, as a share.
    pub floor: f64,
}

impl Threshold {
    /// Whether the threshold is about this.
    pub fn fits(&self, model: &str, metric: Metric) -> bool {
        fits(&self.models, self.metric, model, metric)
    }
}

/// What a command line says in place of a policy file, or beside it.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The one thing that may differ.
    pub vary: Option<Axis>,
    /// What is looked at; none for the policy's.
    pub metrics: Vec<Metric>,
    /// What is accepted as well.
    pub accept: Vec<Acceptance>,
    /// The protected branch.
    pub protected_branch: Option<String>,
}

impl Overrides {
    /// The policy as the command line has it.
    #[must_use]
    pub fn of(self, mut policy: Policy) -> Policy {
        if let Some(vary) = self.vary {
            policy.vary = vary;
        }
        if !self.metrics.is_empty() {
            policy.metrics = self.metrics;
            policy.metrics.sort();
            policy.metrics.dedup();
        }
        if self.protected_branch.is_some() {
            policy.protected_branch = self.protected_branch;
        }
        policy.accept.extend(self.accept);
        policy
    }
}

/// Rows that are known to be noisy: what they show is reported and fails nothing, until a day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownNoise {
    /// The rows' names.
    pub models: Vec<Pattern>,
    /// The metric; none for all.
    #[serde(default)]
    pub metric: Option<Metric>,
    /// Who answers for the entry.
    pub owner: String,
    /// The last day on which it counts.
    #[serde(deserialize_with = "day")]
    pub expires: Date,
    /// What is known.
    pub reason: String,
}

impl KnownNoise {
    /// Whether the entry is about this.
    pub fn covers(&self, model: &str, metric: Metric) -> bool {
        fits(&self.models, self.metric, model, metric)
    }
}

fn fits(models: &[Pattern], of: Option<Metric>, model: &str, metric: Metric) -> bool {
    of.is_none_or(|of| of == metric) && models.iter().any(|pattern| pattern.matches(model))
}

fn all() -> Vec<Pattern> {
    vec![Pattern::new("*")]
}

fn axis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Axis, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text == "nothing" { Ok(Axis::Nothing) } else { text.parse().map_err(D::Error::custom) }
}

fn shown<S: serde::Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Date, D::Error> {
    let found = toml::value::Datetime::deserialize(deserializer)?;
    match (found.date, found.time, found.offset) {
        (Some(_), None, None) => found.to_string().parse().map_err(D::Error::custom),
        _ => Err(D::Error::custom(format!("`{found}` is no day; write it as 2026-12-31"))),
    }
}

impl Policy {
    /// Reads a policy file.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| PolicyError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// Reads a policy that is in memory; `path` is for complaints.
    pub fn parse(path: &Path, text: &str) -> Result<Self, PolicyError> {
        let failed = |error: toml::de::Error| PolicyError::Parse {
            path: path.to_owned(),
            reason: error.to_string().trim_end().to_owned(),
        };
        let policy: Self = toml::from_str(text).map_err(failed)?;
        policy.check(path)?;
        Ok(policy)
    }

    fn check(&self, path: &Path) -> Result<(), PolicyError> {
        let refuse = |key: &str, found: String, expected| {
            Err(PolicyError::Value { path: path.to_owned(), key: key.to_owned(), found, expected })
        };
        if self.schema_version != POLICY_VERSION {
            return refuse(
                "schema_version",
                self.schema_version.to_string(),
                "1, the version this program reads",
            );
        }
        if self.metrics.is_empty() {
            return refuse("metrics", "empty".to_owned(), "at least one metric");
        }
        if let Some(twice) = self.metrics.iter().enumerate().find_map(|(index, metric)| {
            self.metrics.iter().skip(index + 1).any(|other| other == metric).then_some(metric)
        }) {
            return refuse("metrics", format!("a list with {twice} twice"), "a list of each metric once");
        }
        for (key, value) in [("alpha", self.alpha), ("confidence", self.confidence)] {
            if !(value > 0.0 && value < 1.0) {
                return refuse(key, value.to_string(), "between 0 and 1");
            }
        }
        let floors = self.threshold.iter().map(|threshold| ("threshold.floor", threshold.floor));
        for (key, value) in [("floor", self.floor)].into_iter().chain(floors) {
            if !(0.0..1.0).contains(&value) {
                return refuse(key, value.to_string(), "a share from 0 on and below 1, such as 0.05 for 5%");
            }
        }
        if !(self.aa_factor >= 0.0 && self.aa_factor.is_finite()) {
            return refuse("aa_factor", self.aa_factor.to_string(), "a number from 0 on");
        }
        if let Some(share) = self.min_share.filter(|share| !(0.0..=1.0).contains(share)) {
            return refuse("min_share", share.to_string(), "a share from 0 to 1");
        }
        if self.protected_branch.as_ref().is_some_and(|branch| branch.trim().is_empty()) {
            return refuse(
                "protected_branch",
                "empty".to_owned(),
                "a branch, tag or commit, such as origin/main",
            );
        }
        if self.known_noise.iter().any(|entry| entry.owner.trim().is_empty()) {
            return refuse("known_noise.owner", "empty".to_owned(), "the name of who answers for the entry");
        }
        Ok(())
    }

    /// The smallest change of a row that matters: the last threshold that fits, else the general floor.
    pub fn floor_of(&self, model: &str, metric: Metric) -> f64 {
        let threshold = self.threshold.iter().rfind(|entry| entry.fits(model, metric));
        threshold.map_or(self.floor, |threshold| threshold.floor)
    }

    /// How sure the gate is to be.
    pub const fn certainty(&self) -> Certainty {
        Certainty { alpha: self.alpha, confidence: self.confidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Policy, String> {
        Policy::parse(Path::new("gate.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_policy_is_the_default_one() {
        let policy = parse("").expect("OK because every key has a default");
        assert_eq!(format!("{policy:?}"), format!("{:?}", Policy::default()));
    }

    #[test]
    fn the_last_threshold_that_fits_counts() {
        let policy = parse(
            "floor = 0.02\n[[threshold]]\nmodels = [\"*-4bit\"]\nfloor = 0.1\n[[threshold]]\nmetric = \"prefill\"\nfloor = 0.2\n",
        )
        .expect("OK because the policy is good");
        let found = [("x", Metric::Decode), ("x-4bit", Metric::Decode), ("x-4bit", Metric::Prefill)]
            .map(|(model, metric)| (policy.floor_of(model, metric) * 100.0).round());
        assert_eq!(format!("{found:?}"), "[2.0, 10.0, 20.0]");
    }

    #[test]
    fn known_noise_has_an_owner_and_a_last_day() {
        let entry = "[[known_noise]]\nmodels = [\"a\"]\nreason = \"two states\"\n";
        for missing in ["owner = \"me\"\n", "expires = 2026-12-31\n", "owner = \" \"\nexpires = 2026-12-31\n"]
        {
            assert!(parse(&format!("{entry}{missing}")).is_err(), "{missing}");
        }
        let policy = parse(&format!("{entry}owner = \"me\"\nexpires = 2026-12-31\n"))
            .expect("OK because the entry is whole");
        assert_eq!(policy.known_noise[0].expires, Date::constant(2026, 12, 31));
        assert!(
            policy.known_noise[0].covers("a", Metric::Load)
                && !policy.known_noise[0].covers("b", Metric::Load)
        );
        let error = parse(&format!("{entry}owner = \"me\"\nexpires = 2026-12-31T12:00:00\n"));
        assert!(error.is_err_and(|error| error.contains("no day")));
    }

    #[test]
    fn refuses_what_no_gate_can_work_with() {
        for (text, part) in [
            ("flor = 0.1", "unknown field `flor`"),
            ("schema_version = 2", "`schema_version` is 2"),
            ("metrics = []", "at least one metric"),
            ("metrics = [\"speed\"]", "speed"),
            ("metrics = [\"load\", \"load\"]", "load twice"),
            ("alpha = 0.0", "`alpha` is 0"),
            ("confidence = nan", "`confidence` is NaN"),
            ("floor = -0.1", "`floor` is -0.1"),
            ("aa_factor = inf", "`aa_factor` is inf"),
            ("min_share = 1.5", "`min_share` is 1.5"),
            ("vary = \"all\"", "thing that may differ"),
            ("accept = [\"everything\"]", "everything"),
            ("[[threshold]]\nfloor = 5.0", "`threshold.floor` is 5"),
        ] {
            let error = parse(text).expect_err("OK because each of these is wrong");
            assert!(error.starts_with("gate.toml: ") && error.contains(part), "{text}: {error}");
        }
    }
}
