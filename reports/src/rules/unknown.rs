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
        "libmlx_sha256",
        "variant",
    ],
    accepted_by: &[
        Acceptance::MissingRuntime,
        Acceptance::MissingMlx,
        Acceptance::MissingMlxLibrary,
        Acceptance::MissingBuild,
        Acceptance::MissingHost,
        Acceptance::MissingHostId,
        Acceptance::MissingHostSoftware,
        Acceptance::MissingSettings,
    ],
    text: "what must agree is known on both sides; what a layout has no place for is a warning",
    check: Check::Facts(unknown_equals_nothing),
};

/// Facts that later layouts added, and what accepts that one is not known where the layout has a place for it. Where one
/// layout has none, that is a remark; historical files have few of these.
const ADDED: [(Field, Acceptance); 12] = [
    (Field::RuntimeVersion, Acceptance::MissingRuntime),
    (Field::MlxVersion, Acceptance::MissingMlx),
    (Field::MlxCommit, Acceptance::MissingMlx),
    (Field::MlxLibrary, Acceptance::MissingMlxLibrary),
    (Field::Features, Acceptance::MissingBuild),
    (Field::TargetCpu, Acceptance::MissingBuild),
    (Field::Kernels, Acceptance::MissingBuild),
    (Field::Backend, Acceptance::MissingBuild),
    (Field::Hardware, Acceptance::MissingHost),
    (Field::HostId, Acceptance::MissingHostId),
    (Field::Os, Acceptance::MissingHostSoftware),
    (Field::Driver, Acceptance::MissingHostSoftware),
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
    let varied = |field: Field| axis.setting() == Some(field);
    for (field, accept) in ADDED.into_iter().filter(|(field, _)| varied(*field) || !axis.covers(*field)) {
        match (before.get(field), after.get(field)) {
            (Fact::Known(_), Fact::Known(_)) => {}
            // What varies has to be known, whatever the layout has a place for.
            _ if varied(field) => findings.push(unknown(field, before, after).unless(accept)),
            (Fact::NotRecorded, Fact::NotRecorded) => {}
            (Fact::NotRecorded, _) | (_, Fact::NotRecorded) => {
                let message =
                    format!("the layout of one side has no place for `{field}`, so it was not compared");
                findings.push(
                    Finding::new("P10", Tier::Warn, field.as_str(), message)
                        .values(owned(before.known(field)), owned(after.known(field))),
                );
            }
            _ => findings.push(unknown(field, before, after).unless(accept)),
        }
    }
    findings
}

fn unknown(field: Field, before: &Facts, after: &Facts) -> Finding {
    let message = format!("`{field}` is not known on both sides, and an unknown equals nothing");
    Finding::new("P10", Tier::Refuse, field.as_str(), message)
        .values(owned(before.known(field)), owned(after.known(field)))
}
