//! How far measurements of one and the same thing lie apart on a host: A/A spreads, from a file.
//!
//! Such a file holds one entry a host, row and metric, and is written by whoever measured the same build against itself.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::policy::PolicyError;
use crate::record::{Field, Metric, Record};

/// The A/A spread of one row on one host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The host, as its rows name it (`hardware`).
    pub host: String,
    /// The row's name; `*` for every row of the host that has no entry of its own.
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

    /// The form that [`Spreads::read`] reads.
    ///
    /// # Errors
    /// When a value has no form in TOML.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// The entries that are about these metrics on a host of these rows.
    pub fn in_force(&self, rows: &[Record], metrics: &[Metric]) -> Vec<Spread> {
        let hosts: BTreeSet<&str> = rows.iter().filter_map(|row| row.facts.known(Field::Hardware)).collect();
        let is_about =
            |entry: &&Spread| hosts.contains(entry.host.as_str()) && metrics.contains(&entry.metric);
        self.spread.iter().filter(is_about).cloned().collect()
    }

    /// The spread of a row, the largest where there are several entries: those of its name, or without any, those of `*`.
    pub fn of(&self, host: &str, model: &str, metric: Metric) -> Option<f64> {
        let named = |name: &str| {
            self.spread
                .iter()
                .filter(|entry| entry.host == host && entry.model == name && entry.metric == metric)
                .map(|entry| entry.spread)
                .max_by(f64::total_cmp)
        };
        named(model).or_else(|| named("*"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str, model: &str, spread: f64) -> Spread {
        Spread { host: host.to_owned(), model: model.to_owned(), metric: Metric::Decode, spread }
    }

    #[test]
    fn a_row_without_an_entry_of_its_own_has_that_of_all_rows_of_its_host() {
        let spreads = Spreads {
            spread: vec![
                entry("h", "*", 0.05),
                entry("h", "a", 0.01),
                entry("h", "a", 0.02),
                entry("i", "*", 0.5),
            ],
        };
        let of = |host, model, metric| spreads.of(host, model, metric);
        assert_eq!(of("h", "a", Metric::Decode), Some(0.02));
        assert_eq!(of("h", "b", Metric::Decode), Some(0.05));
        assert_eq!(of("h", "a", Metric::Prefill), None);
        assert_eq!(of("j", "a", Metric::Decode), None);
    }

    #[test]
    fn what_is_written_reads_back() -> Result<(), Box<dyn std::error::Error>> {
        let text = Spreads { spread: vec![entry("h", "*", 0.0123), entry("h", "a b", 0.0)] }.to_toml()?;
        let read: Spreads = toml::from_str(&text)?;
        assert_eq!(read.of("h", "x", Metric::Decode), Some(0.0123));
        assert_eq!(read.of("h", "a b", Metric::Decode), Some(0.0));
        Ok(())
    }
}
