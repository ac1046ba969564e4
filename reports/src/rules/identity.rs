//! The sides differ in the declared axis and in nothing else: P04, and V01 where they do not differ at all.

use super::{Case, Check, Rule, owned};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Axis;
use crate::compare::pairing::Pair;
use crate::history::SourceFile;
use crate::record::{Facts, Field, Record, SHAPE};
use crate::revision;

pub(super) static ONLY_THE_AXIS: Rule = Rule {
    id: "P04",
    tier: Tier::Refuse,
    fields: &[
        "runtime",
        "runtime_version",
        "commit",
        "max_tokens",
        "prompt",
        "prompt_target",
        "kv_mode",
        "sampling",
        "batch_size",
        "prefill_chunk",
        "eos_policy",
        "variant",
        "backend",
    ],
    accepted_by: &[],
    text: "the sides differ in what --vary names and in nothing else: program, version, commit and every setting agree",
    check: Check::Facts(only_the_axis),
};

fn only_the_axis(case: &Case<'_>, before: &Facts, after: &Facts) -> Vec<Finding> {
    let fields = [Field::Runtime, Field::RuntimeVersion, Field::Commit].into_iter().chain(SHAPE);
    differing("P04", case.options.axis, fields.chain([Field::Backend]), before, after)
}

/// A refusal for each of these facts that is known on both sides, differs, and is not what may differ.
pub(super) fn differing(
    rule: &'static str,
    axis: Axis,
    fields: impl IntoIterator<Item = Field>,
    before: &Facts,
    after: &Facts,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for field in fields.into_iter().filter(|field| !axis.covers(*field)) {
        let (one, other) = (before.known(field), after.known(field));
        if let (Some(one), Some(other)) = (one, other)
            && !same(field, one, other)
        {
            let message = format!("`{field}` differs, and {axis} is all that may; {}", remedy(field));
            findings.push(
                Finding::new(rule, Tier::Refuse, field.as_str(), message).values(Some(one), Some(other)),
            );
        }
    }
    findings
}

fn remedy(field: Field) -> String {
    match field {
        Field::Commit | Field::RuntimeVersion => {
            "name --vary commit if the change is what you measure".to_owned()
        }
        Field::MlxCommit | Field::MlxVersion | Field::MlxLibrary => {
            "name --vary mlx if MLX is what you measure".to_owned()
        }
        Field::Runtime => "name --vary runtime to compare with a reference".to_owned(),
        Field::Hardware | Field::HostId | Field::UsableCores | Field::Os | Field::Driver => {
            "name --vary host if the hosts are what you compare".to_owned()
        }
        field => format!("name --vary setting={field} if it is what you measure, or measure one side anew"),
    }
}

fn same(field: Field, one: &str, other: &str) -> bool {
    match field {
        Field::Commit | Field::MlxCommit => revision::same(one, other),
        _ => one == other,
    }
}

pub(super) static AXIS_DIFFERS: Rule = Rule {
    id: "V01",
    tier: Tier::Warn,
    fields: &["axis"],
    accepted_by: &[],
    text: "what --vary names differs between the sides",
    check: Check::Survivors(axis_differs),
};

fn axis_differs(case: &Case<'_>, pairs: &[&Pair<'_>]) -> Vec<Finding> {
    let Some(field) = case.options.axis.principal() else {
        return Vec::new();
    };
    let mut values = None;
    let axis = case.options.axis;
    for (before, after) in pairs.iter().flat_map(|pair| pair.combinations()) {
        let known = |field| before.facts.known(field).zip(after.facts.known(field));
        match known(field) {
            Some((one, other)) if same(field, one, other) => values = Some(one),
            _ => return Vec::new(),
        }
        // Another file of the same MLX, or another host of the same kind, is a change as well.
        let differs = |field| known(field).is_some_and(|(one, other)| !same(field, one, other));
        if Field::ALL.iter().any(|field| axis.covers(*field) && differs(*field)) {
            return Vec::new();
        }
    }
    let Some(value) = values else { return Vec::new() };
    let message =
        format!("`{field}` may differ and is the same on both sides: this shows noise, not a change");
    vec![
        Finding::new("V01", Tier::Warn, field.as_str(), message)
            .values(owned(Some(value)), owned(Some(value))),
    ]
}

pub(super) static TWO_MEASUREMENTS: Rule = Rule {
    id: "V02",
    tier: Tier::Refuse,
    fields: &["file", "row"],
    accepted_by: &[],
    text: "the sides are two measurements, not one twice: by what their rows say, however the files are written; a few equal \
           rows of files that name no run are a warning",
    check: Check::Files(two_measurements),
};

fn two_measurements(case: &Case<'_>) -> Vec<Finding> {
    let (before, after) = (case.before, case.after);
    if before.records.is_empty() {
        return Vec::new();
    }
    let shown = |file: &SourceFile| Some(file.path.display().to_string());
    let finding = |message: &str| {
        vec![Finding::new("V02", Tier::Refuse, "file", message).values(shown(before), shown(after))]
    };
    if is_one_file(case) && before.sha256 == after.sha256 {
        return finding(
            "both sides are one and the same file, so every ratio is 1 and none says anything; name another file",
        );
    }
    let say_the_same = before.records.len() == after.records.len()
        && before.records.iter().zip(&after.records).all(|(one, other)| one.says_the_same(other));
    if say_the_same {
        return finding(
            "the files differ in their bytes (line ends, a byte order mark, a comment) and in no row, so both sides are one \
             measurement; name another file",
        );
    }
    one_row_twice(case)
}

/// Sides of several files have no digest.
const fn is_one_file(case: &Case<'_>) -> bool {
    !case.before.sha256.is_empty()
}

/// Rows that stand on both sides.
#[derive(Default)]
struct Twice<'a> {
    first: Option<(&'a Record, u64)>,
    count: usize,
}

impl<'a> Twice<'a> {
    fn add(&mut self, record: &'a Record, other: u64) {
        self.first.get_or_insert((record, other));
        self.count += 1;
    }
}

/// A copy in which a column was changed by hand still holds the times of its run. Rows that name no run are of layouts with
/// hundredths of milliseconds: one of them may agree by chance, those of a whole file do not.
fn one_row_twice(case: &Case<'_>) -> Vec<Finding> {
    let (mut of_run, mut of_none) = (Twice::default(), Twice::default());
    let mut nameless = 0;
    for pair in &case.pairing.pairs {
        let mut afters: Vec<_> = pair.after.iter().filter_map(|row| Some((key(row)?, row.line))).collect();
        afters.sort_unstable();
        for (before, key) in pair.before.iter().filter_map(|row| Some((*row, key(row)?))) {
            let found = afters.partition_point(|(other, _)| *other < key);
            let twice = afters.get(found).filter(|(other, _)| *other == key);
            let of = if key.0.is_some() { &mut of_run } else { &mut of_none };
            nameless += usize::from(key.0.is_none() && !afters.is_empty());
            if let Some((_, line)) = twice {
                of.add(before, *line);
            }
        }
    }
    let shown = |file: &SourceFile, line: u64| Some(format!("{}:{line}", file.path.display()));
    let finding = |tier, (record, other): (&Record, u64), message: String| {
        Finding::new("V02", tier, "row", message)
            .values(shown(case.before, record.line), shown(case.after, other))
    };
    let mut findings = Vec::new();
    // Where a side is several files, a gate looks for the same measurement in any two of them itself.
    if let Some(first) = of_run.first.filter(|_| is_one_file(case)) {
        let message = format!(
            "{} rows of both sides are one measurement, that of `{}` the first of them: of one run and with the same times \
             to the nanosecond; name a file of another run",
            of_run.count, first.0.model
        );
        findings.push(finding(Tier::Refuse, first, message));
    }
    if let Some(first) = of_none.first {
        let (tier, remedy) = if of_none.count == nameless && nameless > 1 {
            (Tier::Refuse, "so one side is a copy of the other; name a file of another run")
        } else {
            (Tier::Warn, "so one side may hold rows of the other")
        };
        let message = format!(
            "{} of {nameless} rows have the same counts and times on both sides, that of `{}` the first of them, {remedy}",
            of_none.count, first.0.model
        );
        findings.push(finding(tier, first, message));
    }
    findings
}

/// Run, tokens and times of a measured row.
type Measurement<'a> = (Option<&'a str>, Option<u64>, Option<u64>, u64, u64);

fn key(record: &Record) -> Option<Measurement<'_>> {
    let run = record.extra.as_deref().and_then(|extra| extra.run_id.as_deref());
    let times = record.prefill_nanos.zip(record.decode_nanos);
    let (prefill, decode) = times.filter(|(prefill, decode)| *prefill > 0 && *decode > 0)?;
    let key = (run, record.prompt_tokens, record.generated_tokens, prefill, decode);
    record.outcome.is_ok().then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_of_different_lengths_agree_only_when_clean() {
        assert!(same(Field::Commit, "9be59134", "9be591346"));
        assert!(!same(Field::Commit, "9be59134", "9be59134-dirty"));
        assert!(!same(Field::MlxCommit, "v0.32.2", "v0.32.20"));
        assert!(!same(Field::TargetCpu, "abcdef01", "abcdef012"));
    }
}
