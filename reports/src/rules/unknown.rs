//! An unknown equals nothing, not even another unknown: P10.

use super::{Case, Check, Rule, owned};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Acceptance;
use crate::record::{Fact, Facts, Field, SHAPE};

pub(super) static UNKNOWN_EQUALS_NOTHING: Rule = Rule {
    id: "P10",
    tier: Tier::Refuse,
    fields: &[
        "runtime",
        "mlx_commit",
        "mlx_version",
        "build_type",
        "hardware",
        "max_tokens",
        "prompt",
        "prompt_target",
        "kv_mode",
        "sampling",
        "batch_size",
        "prefill_chunk",
        "eos_policy",
        "runtime_version",
        "features",
        "target_cpu",
        "kernels",
        "backend",
        "host_id",
        "os",
        "driver",
        "variant",
    ],
    accepted_by: &[
        Acceptance::MissingRuntime,
        Acceptance::MissingMlx,
        Acceptance::MissingBuild,
        Acceptance::MissingHost,
        Acceptance::MissingSettings,
    ],
    text: "what must agree is known on both sides; a setting for which neither layout has a place is a warning",
    check: Check::Facts(unknown_equals_nothing),
};

/// Facts that later layouts added: known on one side alone is worth a remark.
const ADDED: [Field; 10] = [
    Field::RuntimeVersion,
    Field::MlxVersion,
    Field::MlxCommit,
    Field::Features,
    Field::TargetCpu,
    Field::Kernels,
    Field::Backend,
    Field::HostId,
    Field::Os,
    Field::Driver,
];

fn unknown_equals_nothing(case: &Case<'_>, before: &Facts, after: &Facts) -> Vec<Finding> {
    let axis = case.options.axis;
    let must = |field: Field| !axis.covers(field) || axis.principal() == Some(field);
    let mut findings = Vec::new();
    for (field, others, accept) in [
        (Field::Runtime, &[][..], Acceptance::MissingRuntime),
        (Field::MlxCommit, &[Field::MlxVersion][..], Acceptance::MissingMlx),
        (Field::BuildType, &[][..], Acceptance::MissingBuild),
        (Field::Hardware, &[Field::HostId][..], Acceptance::MissingHost),
    ] {
        let comparable = |field: Field| before.known(field).is_some() && after.known(field).is_some();
        if must(field) && !comparable(field) && !others.iter().any(|other| comparable(*other)) {
            findings.push(unknown(field, before, after).unless(accept));
        }
    }
    for field in SHAPE.into_iter().filter(|field| must(*field)) {
        match (before.get(field), after.get(field)) {
            (Fact::Known(_), Fact::Known(_)) => {}
            // No variant is named where there is none.
            (Fact::NotRecorded, Fact::NotRecorded) if field == Field::Variant => {}
            (Fact::NotRecorded, Fact::NotRecorded) if !axis.covers(field) => {
                let message =
                    format!("neither layout records `{field}`; that it was the same is taken on trust");
                findings.push(Finding::new("P10", Tier::Warn, field.as_str(), message));
            }
            _ => findings.push(unknown(field, before, after).unless(Acceptance::MissingSettings)),
        }
    }
    for field in ADDED.into_iter().filter(|field| !axis.covers(*field)) {
        let (one, other) = (before.known(field), after.known(field));
        if one.is_some() != other.is_some() {
            let message = format!("`{field}` is known on one side only, so it was not compared");
            findings.push(
                Finding::new("P10", Tier::Warn, field.as_str(), message).values(owned(one), owned(other)),
            );
        }
    }
    findings
}

fn unknown(field: Field, before: &Facts, after: &Facts) -> Finding {
    let message = format!("`{field}` is not known on both sides, and an unknown equals nothing");
    Finding::new("P10", Tier::Refuse, field.as_str(), message)
        .values(owned(before.known(field)), owned(after.known(field)))
}
