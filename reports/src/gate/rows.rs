//! What a gate makes of each row of one metric: whether it was compared, and if not, why.

use std::collections::HashSet;

use super::policy::Policy;
use super::report::{GateRow, State};
use super::spread::Spreads;
use crate::compare::pairing::{Pair, Pairing};
use crate::compare::report::Comparison;
use crate::names::NameResolver;
use crate::record::{Field, Metric, Record};
use crate::statistics::Summary;

/// Embedders and rerankers.
const NOT_GENERATIVE: &str = "M02";

/// Everything the rows of one metric are made of.
pub(super) struct Sheet<'a> {
    pub(super) metric: Metric,
    pub(super) comparison: &'a Comparison,
    pub(super) pairing: &'a Pairing<'a>,
    pub(super) baseline: &'a [Record],
    pub(super) names: &'a dyn NameResolver,
    pub(super) policy: &'a Policy,
    pub(super) spreads: &'a Spreads,
}

impl Sheet<'_> {
    /// The rows, before any test.
    pub(super) fn rows(&self) -> Vec<GateRow> {
        let compared: HashSet<(&str, Option<&str>)> =
            self.comparison.pairs.iter().map(|pair| (&*pair.model, pair.shape.as_deref())).collect();
        let is_compared = |pair: &Pair<'_>| compared.contains(&(&*pair.model, pair.shape.as_deref()));
        let paired = self.pairing.pairs.iter().filter_map(|pair| self.of_pair(pair, is_compared(pair)));
        let alone = self.pairing.only_before.iter().filter_map(|name| self.of_one_sided(name));
        paired.chain(alone).collect()
    }

    /// Rows that the candidate measured and the baseline did not.
    pub(super) fn new_rows(&self, candidate: &[Record]) -> Vec<String> {
        let unmeasured = self
            .pairing
            .pairs
            .iter()
            .filter(|pair| self.values(&pair.before).is_empty() && !self.values(&pair.after).is_empty());
        let alone = self
            .pairing
            .only_after
            .iter()
            .filter(|label| !self.values(&self.named(candidate, label)).is_empty());
        unmeasured.map(Pair::label).chain(alone.cloned()).collect()
    }

    fn of_pair(&self, pair: &Pair<'_>, is_compared: bool) -> Option<GateRow> {
        let label = pair.label();
        let (befores, afters) = (self.values(&pair.before), self.values(&pair.after));
        if befores.is_empty() {
            return None;
        }
        let host = pair.before.iter().find_map(|record| record.facts.known(Field::Hardware));
        let mut row = self.row(&label, &pair.model, host, befores, afters);
        if is_compared {
            row.ratio = row.before.zip(row.after).map(|(before, after)| after / before);
            return Some(row);
        }
        let reasons: Vec<&crate::compare::finding::Finding> =
            self.comparison.dropped.iter().filter(|finding| finding.model.as_ref() == Some(&label)).collect();
        let gone = !pair.after.iter().any(|record| record.outcome.is_ok() || record.outcome.is_invalid());
        row.state = if gone {
            State::Vanished
        } else if reasons.iter().any(|finding| finding.rule == NOT_GENERATIVE) {
            State::Excluded
        } else {
            State::Dropped
        };
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let texts: Vec<String> = reasons
            .iter()
            .map(|finding| {
                format!(
                    "{}: {} ({}: baseline {}, candidate {})",
                    finding.rule,
                    finding.message,
                    finding.field,
                    shown(&finding.before),
                    shown(&finding.after)
                )
            })
            .collect();
        row.reason = (!texts.is_empty()).then(|| texts.join("; "));
        Some(row)
    }

    /// A row of the baseline that the candidate does not name. One that the baseline did not measure either is no loss.
    fn of_one_sided(&self, label: &str) -> Option<GateRow> {
        let rows = self.named(self.baseline, label);
        let values = self.values(&rows);
        let record = rows.first()?;
        if values.is_empty() {
            return None;
        }
        let name = self.names.resolve(&record.model);
        let host = record.facts.known(Field::Hardware);
        let mut row = self.row(label, &name, host, values, Vec::new());
        row.state = State::Vanished;
        row.reason = Some("the candidate has no such row".to_owned());
        Some(row)
    }

    /// The rows that a pairing calls by this name, with or without a shape.
    fn named<'r>(&self, records: &'r [Record], label: &str) -> Vec<&'r Record> {
        let varying = self.policy.vary.setting();
        let is_it = |record: &&Record| {
            let name = self.names.resolve(&record.model);
            let shape = || {
                label.strip_prefix(name.as_ref()).and_then(|rest| rest.strip_prefix(" [")?.strip_suffix(']'))
            };
            name == label || shape().is_some_and(|shape| shape == record.shape(varying))
        };
        records.iter().filter(is_it).collect()
    }

    fn values(&self, rows: &[&Record]) -> Vec<f64> {
        rows.iter().filter(|row| row.outcome.is_ok()).filter_map(|row| row.value(self.metric)).collect()
    }

    fn row(
        &self,
        label: &str,
        model: &str,
        host: Option<&str>,
        befores: Vec<f64>,
        afters: Vec<f64>,
    ) -> GateRow {
        let aa_spread = host.and_then(|host| self.spreads.of(host, model, self.metric));
        let floor = self.policy.floor_of(model, self.metric);
        GateRow {
            model: label.to_owned(),
            metric: self.metric,
            state: State::Within,
            before: Summary::of(&befores).map(|summary| summary.median),
            after: Summary::of(&afters).map(|summary| summary.median),
            ratio: None,
            test: None,
            floor: aa_spread.map_or(floor, |spread| floor.max(self.policy.aa_factor * spread)),
            aa_spread,
            known_noise: None,
            reason: None,
            values_before: befores,
            values_after: afters,
            screened: None,
        }
    }
}
