//! How far measurements of one and the same thing lie apart on a host: A/A spreads, from a file.
//!
//! Such a file holds one entry a host, row and metric, and is written by whoever measured the same build against itself.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::policy::PolicyError;
use crate::record::Metric;

/// The A/A spread of one row on one host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The host, as its rows name it (`hardware`).
    pub host: String,
    /// The row's name.
    pub model: String,
    /// The metric.
    pub metric: Metric,
    /// The spread, as a share of the median.
    pub spread: f64,
}

/// A file of A/A spreads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spreads {
    /// The entries.
    pub spread: Vec<Spread>,
}

impl Spreads {
    /// Reads a file of spreads.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| PolicyError::Read { path: path.to_owned(), source })?;
        let spreads: Self = toml::from_str(&text).map_err(|error| PolicyError::Parse {
            path: path.to_owned(),
            reason: error.to_string().trim_end().to_owned(),
        })?;
        match spreads.spread.iter().find(|entry| !(entry.spread >= 0.0 && entry.spread.is_finite())) {
            None => Ok(spreads),
            Some(entry) => Err(PolicyError::Value {
                path: path.to_owned(),
                key: format!("spread of `{}`", entry.model),
                found: entry.spread.to_string(),
                expected: "a share from 0 on, such as 0.01 for 1%",
            }),
        }
    }

    /// The spread of a row, the largest where there are several entries.
    pub fn of(&self, host: &str, model: &str, metric: Metric) -> Option<f64> {
        self.spread
            .iter()
            .filter(|entry| entry.host == host && entry.model == model && entry.metric == metric)
            .map(|entry| entry.spread)
            .max_by(f64::total_cmp)
    }
}
