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
    text: "the prompts have equally many tokens; within 10% where the sides are of different programs, which count differently",
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
    for (before, after) in pair.combinations() {
        let runtimes = (before.facts.known(Field::Runtime), after.facts.known(Field::Runtime));
        let same_counting = matches!(runtimes, (Some(one), Some(other)) if one == other);
        let default = if same_counting { 0.0 } else { FOREIGN_PROMPT_TOLERANCE };
        let tolerance = case.options.prompt_tolerance.unwrap_or(default);
        let message = match (before.prompt_tokens, after.prompt_tokens) {
            (Some(one), Some(other)) if within(one, other, tolerance) => {
                let digests = (digest(before), digest(after));
                match digests {
                    (Some(one), Some(other)) if same_counting && one != other => {
                        return vec![
                            Finding::new(
                                "P12",
                                Tier::Drop,
                                "prompt_sha256",
                                "the prompts are different texts",
                            )
                            .values(Some(one), Some(other))
                            .about(pair.label()),
                        ];
                    }
                    _ => continue,
                }
            }
            (Some(_), Some(_)) => {
                format!("the prompts differ by more than {}% in tokens", tolerance * 100.0)
            }
            _ => "a side does not say how many tokens the prompt had".to_owned(),
        };
        return vec![
            Finding::new("P12", Tier::Drop, "prompt_tokens", message)
                .values(shown(before.prompt_tokens), shown(after.prompt_tokens))
                .about(pair.label()),
        ];
    }
    Vec::new()
}

fn digest(record: &Record) -> Option<String> {
    record.extra.as_deref()?.prompt_sha256.as_ref().map(ToString::to_string)
}

fn within(before: u64, after: u64, tolerance: f64) -> bool {
    before > 0 && before.abs_diff(after) as f64 <= tolerance * before as f64
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
    let finish = |record: &Record| record.extra.as_deref().and_then(|extra| extra.generation.finish.clone());
    let (one, other) = (finish(before), finish(after));
    let message = "generation did not end because all tokens asked for were there";
    [&one, &other]
        .iter()
        .any(|finish| finish.as_deref().is_some_and(|finish| finish != "length"))
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
