//! A result set as JSON, for programs: the columns of the CSV file as keys, an unknown as null.

use serde_json::{Map, Value, json};

use crate::row::AnyRow;
use crate::store::Completeness;
use crate::wire;

/// The rows as objects with the column names as keys.
pub fn rows(rows: &[AnyRow]) -> Vec<Map<String, Value>> {
    rows.iter().map(wire::row_json).collect()
}

/// The rows together with whether they are all: `complete` is null when nobody knows.
pub fn document(rows: &[AnyRow], completeness: &Completeness) -> Value {
    let (complete, reason) = match completeness {
        Completeness::Complete => (Some(true), None),
        Completeness::Partial { reason, .. } => (Some(false), reason.as_deref()),
        Completeness::Unknown => (None, None),
    };
    json!({
        "schema_version": wire::SCHEMA_VERSION,
        "complete": complete,
        "partial_reason": reason,
        "rows": self::rows(rows),
    })
}
