//! Rows that are measured again: how often they were, and what came of each attempt before, so that whoever reads the last
//! one knows of the others. Their samples are the store's to keep.

use mlxcel_reports::row::{AnyRow, Figures};
use serde_json::{Value, json};

/// The setting of the provenance that lists what came of the attempts before the rows.
pub(super) const SETTING: &str = "superseded";

/// Where a row is to stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seat {
    /// Its place in the order of measurement.
    pub(super) order_index: u32,
    /// How often the row of this place was measured before.
    pub(super) before: u32,
    /// What came of that, in words.
    pub(super) outcomes: Vec<String>,
}

impl Seat {
    /// One that no row had.
    pub(super) fn new(order_index: u32) -> Self {
        Self { order_index, ..Self::default() }
    }

    /// Which attempt this one is; none of a row that was never measured.
    pub(super) fn attempt(&self, measured: bool) -> Option<u32> {
        (measured || self.before > 0).then(|| self.before.saturating_add(1))
    }

    /// What a row says of the attempts before it.
    pub(super) fn words(&self) -> String {
        if self.before == 0 {
            return String::new();
        }
        format!("attempt {}; before: {}", self.before.saturating_add(1), self.outcomes.join(", "))
    }
}

/// The record of a row that gives way to another attempt; none of one that was never measured.
pub(super) fn outcome(row: &AnyRow) -> Option<Value> {
    let identity = row.identity();
    let attempt = identity.conditions.attempts?;
    let figures = row.figures();
    Some(json!({
        "order_index": identity.run.order_index,
        "attempt": attempt,
        "model": identity.checkpoint.model,
        "status": row.status().to_string(),
        "detail": row.detail(),
        "started_at": identity.run.started_at,
        "prefill_spread_pct": figures.and_then(Figures::prefill_spread_pct),
        "decode_spread_pct": figures.and_then(Figures::decode_spread_pct),
    }))
}

/// Whether a record is of this place, and of an attempt before this one.
pub(super) fn is_before(record: &Value, order_index: u32, attempt: u32) -> bool {
    let number = |key: &str| record.get(key).and_then(Value::as_u64);
    number("order_index") == Some(order_index.into())
        && number("attempt").is_some_and(|of| of < attempt.into())
}

/// A record in a few words: its status, and how far its repetitions spread where that is why.
pub(super) fn words(record: &Value) -> String {
    let status = record.get("status").and_then(Value::as_str).unwrap_or_default();
    let spread = |key: &str| record.get(key).and_then(Value::as_f64).unwrap_or_default();
    match status {
        "" => "ok".to_owned(),
        "INVALID:spread" => {
            let spread = spread("prefill_spread_pct").max(spread("decode_spread_pct"));
            format!("{status} {spread:.1} %")
        }
        _ => status.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_came_of_the_attempts_before_it() {
        assert_eq!(Seat::new(3).words(), "");
        assert_eq!((Seat::new(3).attempt(true), Seat::new(3).attempt(false)), (Some(1), None));
        let records = [
            json!({ "order_index": 3, "attempt": 1, "status": "INVALID:spread", "decode_spread_pct": 103.04 }),
            json!({ "order_index": 3, "attempt": 2, "status": "FAIL:load" }),
            json!({ "order_index": 3, "attempt": 3, "status": "" }),
        ];
        let seat = Seat { order_index: 3, before: 3, outcomes: records.iter().map(words).collect() };
        assert_eq!(seat.words(), "attempt 4; before: INVALID:spread 103.0 %, FAIL:load, ok");
        assert_eq!((seat.attempt(true), seat.attempt(false)), (Some(4), Some(4)));
        assert!(
            is_before(&records[1], 3, 3) && !is_before(&records[1], 3, 2) && !is_before(&records[1], 2, 9)
        );
    }
}
