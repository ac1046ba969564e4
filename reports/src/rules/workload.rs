//! The same work: P12, P13, P14.

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::FOREIGN_PROMPT_TOLERANCE;
use crate::compare::pairing::Pair;
use crate::record::{Field, Metric, Record};

pub(super) static SAME_PROMPT: Rule = Rule {
    id: "P12",
    tier: Tier::Drop,
    fields: &["prompt_tokens", "prompt_sha256"],
    accepted_by: &[],
    text: "the prompts have equally many tokens, and the same where digests tell; within 10% of the smaller count where the \
           sides are of different programs, which count differently; an empty column for the digest is a warning",
    check: Check::Pair(same_prompt),
};

fn both_measured(pair: &Pair<'_>) -> bool {
    pair.before.iter().chain(&pair.after).all(|record| record.outcome.is_ok())
}

fn shown(count: Option<u64>) -> Option<String> {
    count.map(|count| count.to_string())
}

/// Kernels alone have no prompt.
fn has_tokens(metric: Metric) -> bool {
    metric != Metric::Bandwidth
}

fn same_prompt(case: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    if !both_measured(pair) || !has_tokens(case.options.metric) {
        return Vec::new();
    }
    let mut remark = None;
    for (before, after) in pair.combinations() {
        let runtimes = (before.facts.known(Field::Runtime), after.facts.known(Field::Runtime));
        let same_counting = matches!(runtimes, (Some(one), Some(other)) if one == other);
        let default = if same_counting { 0.0 } else { FOREIGN_PROMPT_TOLERANCE };
        let tolerance = case.options.prompt_tolerance.unwrap_or(default);
        let drop = |field, message: String, (one, other)| {
            vec![Finding::new("P12", Tier::Drop, field, message).values(one, other).about(pair.label())]
        };
        let counts = (shown(before.prompt_tokens), shown(after.prompt_tokens));
        match (before.prompt_tokens, after.prompt_tokens) {
            (Some(one), Some(other)) if within(one, other, tolerance) => {}
            (Some(_), Some(_)) => {
                let percent = tolerance * 100.0;
                let message =
                    format!("the prompts differ by more than {percent}% of the smaller count of tokens");
                return drop("prompt_tokens", message, counts);
            }
            _ => {
                let message = "a side does not say how many tokens the prompt had".to_owned();
                return drop("prompt_tokens", message, counts);
            }
        }
        match (digest(before), digest(after)) {
            _ if !same_counting => {}
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => {
                let message = "the prompts are different texts".to_owned();
                return drop("prompt_sha256", message, (Some(one), Some(other)));
            }
            // Historical layouts have no digest; the prompt's text and length are all they say.
            _ if !case.before.is_own() || !case.after.is_own() => {}
            _ => {
                // One remark for all pairs.
                let message = "the digest of the prompt is not known on both sides, so that it is one text is taken on trust";
                remark = Some(Finding::new("P12", Tier::Warn, "prompt_sha256", message));
            }
        }
    }
    remark.into_iter().collect()
}

fn digest(record: &Record) -> Option<String> {
    record.extra.as_deref()?.prompt_sha256.as_ref().map(ToString::to_string)
}

/// Whether two counts differ by at most this share of the smaller one, so that it does not matter which is which.
fn within(one: u64, other: u64, tolerance: f64) -> bool {
    let smaller = one.min(other);
    // The share of a count is off by a rounding, the difference of two counts is not.
    let most = tolerance * smaller as f64 * (1.0 + 1e-12);
    smaller > 0 && one.abs_diff(other) as f64 <= most
}

pub(super) static ALL_TOKENS: Rule = Rule {
    id: "P13",
    tier: Tier::Drop,
    fields: &["generated_tokens", "finish"],
    accepted_by: &[],
    text: "both rows generated as many tokens as were asked for, and equally many, and ended for that reason alone (for the \
           decode rate)",
    check: Check::Pair(all_tokens),
};

fn all_tokens(case: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    if case.options.metric != Metric::Decode || !both_measured(pair) {
        return Vec::new();
    }
    let asked =
        |record: &Record| record.facts.known(Field::MaxTokens).and_then(|text| text.parse::<u64>().ok());
    for (before, after) in pair.combinations() {
        let short = |record: &Record| matches!((record.generated_tokens, asked(record)), (Some(tokens), Some(asked)) if tokens != asked);
        let message = match (before.generated_tokens, after.generated_tokens) {
            (Some(one), Some(other)) if one != other => "the sides generated different numbers of tokens",
            (Some(_), Some(_)) if short(before) || short(after) => {
                "generation ended before the tokens asked for"
            }
            (Some(_), Some(_)) => match ended_otherwise(before, after) {
                Some(finding) => return vec![finding.about(pair.label())],
                None => continue,
            },
            _ => "a side does not say how many tokens it generated",
        };
        return vec![
            Finding::new("P13", Tier::Drop, "generated_tokens", message)
                .values(shown(before.generated_tokens), shown(after.generated_tokens))
                .about(pair.label()),
        ];
    }
    Vec::new()
}

/// A generation that was about to go on is another workload than one that the model had ended. Older layouts do not say.
fn ended_otherwise(before: &Record, after: &Record) -> Option<Finding> {
    fn finish(record: &Record) -> Option<&str> {
        record.extra.as_deref()?.generation.finish.as_deref()
    }
    let (one, other) = (finish(before), finish(after));
    let message = "generation did not end because all tokens asked for were there";
    [one, other]
        .iter()
        .any(|finish| finish.is_some_and(|finish| finish != "length"))
        .then(|| Finding::new("P13", Tier::Drop, "finish", message).values(one, other))
}

pub(super) static ENOUGH_TOKENS: Rule = Rule {
    id: "P14",
    tier: Tier::Drop,
    fields: &["generated_tokens"],
    accepted_by: &[],
    text: "a decode rate is taken over at least 64 tokens (--min-generated sets another number)",
    check: Check::Pair(enough_tokens),
};

fn enough_tokens(case: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let least = case.options.min_generated;
    let few = |record: &&Record| record.generated_tokens.is_some_and(|tokens| tokens < least);
    if case.options.metric != Metric::Decode
        || !both_measured(pair)
        || !pair.before.iter().chain(&pair.after).copied().any(|record| few(&record))
    {
        return Vec::new();
    }
    let fewest = |rows: &[&Record]| shown(rows.iter().filter_map(|row| row.generated_tokens).min());
    let message = format!(
        "a decode rate over fewer than {least} tokens is noise; measure longer, or set --min-generated"
    );
    vec![
        Finding::new("P14", Tier::Drop, "generated_tokens", message)
            .values(fewest(&pair.before), fewest(&pair.after))
            .about(pair.label()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_is_a_share_of_the_smaller_count_whichever_side_has_it() {
        for (one, other, tolerance, expected) in [
            (100, 110, 0.10, true),
            (100, 111, 0.10, false),
            // 11 is not more than 10% of 111, and more than 10% of 100.
            (111, 100, 0.10, false),
            (100, 129, 0.29, true),
            (512, 512, 0.0, true),
            (512, 513, 0.0, false),
            (0, 0, 0.10, false),
            (0, 1, 0.10, false),
        ] {
            assert_eq!(within(one, other, tolerance), expected, "{one} {other} {tolerance}");
            assert_eq!(within(other, one, tolerance), expected, "{other} {one} {tolerance}");
        }
    }
}
