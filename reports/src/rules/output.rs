//! The same output where nothing that could change it may differ: P25.

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Axis;
use crate::compare::pairing::Pair;
use crate::record::{Field, Record};

pub(super) static SAME_OUTPUT: Rule = Rule {
    id: "P25",
    tier: Tier::Warn,
    fields: &["output_sha256"],
    accepted_by: &[],
    text: "greedy decoding of the same prompt gave the same tokens, where nothing or the commit alone may differ",
    check: Check::Survivors(same_output),
};

/// Another MLX, host, program or setting may round otherwise, and one rounding is another token; a commit that changes
/// tokens did not only change speed.
fn same_output(case: &Case<'_>, pairs: &[&Pair<'_>]) -> Vec<Finding> {
    if !matches!(case.options.axis, Axis::Nothing | Axis::Commit) {
        return Vec::new();
    }
    pairs.iter().filter_map(|pair| differing(pair)).collect()
}

fn output(record: &Record) -> Option<&str> {
    record.extra.as_deref()?.generation.output_sha256.as_deref()
}

fn differing(pair: &Pair<'_>) -> Option<Finding> {
    let greedy = |record: &Record| record.facts.known(Field::Sampling) == Some("greedy");
    let comparable = |(before, after): &(&Record, &Record)| {
        greedy(before) && greedy(after) && before.generated_tokens == after.generated_tokens
    };
    pair.combinations().filter(comparable).find_map(|(before, after)| {
        let message = match (output(before), output(after)) {
            (Some(one), Some(other)) if one != other => {
                "the sides generated different tokens from one prompt, so more than speed changed"
            }
            // One remark for all: that one layout has no digest, or that repetitions differed.
            (Some(_), None) | (None, Some(_)) => {
                let message = "the digest of the output is known on one side only, so it was not compared";
                return Some(Finding::new("P25", Tier::Warn, "output_sha256", message));
            }
            _ => return None,
        };
        let finding = Finding::new("P25", Tier::Warn, "output_sha256", message);
        Some(finding.values(output(before), output(after)).about(pair.label()))
    })
}
