//! A comparison as CSV: one line a pair and one a drop, told apart by the first column.

use crate::compare::report::Comparison;

const HEADER: [&str; 14] = [
    "kind",
    "model",
    "shape",
    "metric",
    "unit",
    "before",
    "after",
    "ratio",
    "ratio_low",
    "ratio_high",
    "moved",
    "rule",
    "field",
    "message",
];

/// Pairs, drops, acceptances, warnings and one-sided names as rows of one table.
pub fn csv(comparison: &Comparison) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER)?;
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let (metric, unit) = (comparison.metric, comparison.unit);
    for pair in &comparison.pairs {
        writer.write_record([
            "pair",
            &pair.model,
            pair.shape.as_deref().unwrap_or_default(),
            metric,
            unit,
            &pair.before.to_string(),
            &pair.after.to_string(),
            &pair.ratio.to_string(),
            &number(pair.ratio_low),
            &number(pair.ratio_high),
            if pair.moved { "true" } else { "false" },
            "",
            "",
            "",
        ])?;
    }
    for (kind, findings) in [
        ("dropped", &comparison.dropped),
        ("accepted", &comparison.accepted),
        ("warning", &comparison.warnings),
    ] {
        for finding in findings {
            writer.write_record([
                kind,
                finding.model.as_deref().unwrap_or_default(),
                "",
                metric,
                "",
                finding.before.as_deref().unwrap_or_default(),
                finding.after.as_deref().unwrap_or_default(),
                "",
                "",
                "",
                "",
                finding.rule,
                finding.field,
                &finding.message,
            ])?;
        }
    }
    for (kind, names) in
        [("only_before", &comparison.one_sided.before), ("only_after", &comparison.one_sided.after)]
    {
        for name in names {
            writer.write_record([kind, name, "", metric, "", "", "", "", "", "", "", "", "", ""])?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
