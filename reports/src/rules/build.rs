//! What executed: P06, P07, P08.

use super::identity::differing;
use super::{Case, Check, Rule, owned};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Acceptance;
use crate::record::{Facts, Field, Record};
use crate::status;

pub(super) static PROVED_EXECUTABLE: Rule = Rule {
    id: "P06",
    tier: Tier::Refuse,
    fields: &["stale_binary_allowed", "csv_sha256", "status"],
    accepted_by: &[Acceptance::StaleBinary],
    text: "the stamp is what the executable says of itself, the executable matches its sources, and the file is the one its \
           run finished",
    check: Check::Files(proved_executable),
};

fn proved_executable(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let word = |altered: bool| Some(if altered { "altered" } else { "as recorded" });
    if case.before.altered || case.after.altered {
        let message = "a file, or the samples beside it, was changed after its run finished; compare what the run wrote";
        findings.push(
            Finding::new("P06", Tier::Refuse, "csv_sha256", message)
                .values(word(case.before.altered), word(case.after.altered)),
        );
    }
    let unproved = |record: &Record| {
        record.facts.known(Field::StaleBinary) == Some("true")
            || matches!(record.outcome.broken(), Some(status::Rule::StaleBinary | status::Rule::Provenance))
    };
    let count = |records: &[Record]| records.iter().filter(|record| unproved(record)).count();
    let (before, after) = (count(&case.before.records), count(&case.after.records));
    if before + after > 0 {
        let rows = |count: usize| Some(format!("{count} rows"));
        let message = "rows were measured with an executable that was not shown to match its sources; build and measure \
                       anew";
        findings.push(
            Finding::new("P06", Tier::Refuse, "stale_binary_allowed", message)
                .values(rows(before), rows(after))
                .unless(Acceptance::StaleBinary),
        );
    }
    findings
}

pub(super) static SAME_MLX: Rule = Rule {
    id: "P07",
    tier: Tier::Refuse,
    fields: &["mlx_commit", "mlx_version", "libmlx_sha256"],
    accepted_by: &[Acceptance::MlxLibrary],
    text: "both sides ran the same MLX, unless MLX is what may differ; the library's file too, unless the host may",
    check: Check::Facts(same_mlx),
};

fn same_mlx(case: &Case<'_>, before: &Facts, after: &Facts) -> Vec<Finding> {
    let axis = case.options.axis;
    let mut findings = differing("P07", axis, [Field::MlxCommit, Field::MlxVersion], before, after);
    let library = differing("P07", axis, [Field::MlxLibrary], before, after);
    findings.extend(library.into_iter().map(|finding| finding.unless(Acceptance::MlxLibrary)));
    findings
}

pub(super) static OPTIMISED_ALIKE: Rule = Rule {
    id: "P08",
    tier: Tier::Refuse,
    fields: &["build_type", "features", "target_cpu", "kernels"],
    accepted_by: &[],
    text: "both executables are optimised and compiled alike",
    check: Check::Facts(optimised_alike),
};

fn optimised_alike(case: &Case<'_>, before: &Facts, after: &Facts) -> Vec<Finding> {
    let fields = [Field::BuildType, Field::Features, Field::TargetCpu, Field::Kernels];
    let mut findings = differing("P08", case.options.axis, fields, before, after);
    let types = [before.known(Field::BuildType), after.known(Field::BuildType)];
    if types.iter().flatten().any(|build| !matches!(*build, "release" | "python")) {
        let message =
            "a side was measured with a build that is not optimised; a debug build measures nothing";
        findings.push(
            Finding::new("P08", Tier::Refuse, "build_type", message).values(owned(types[0]), owned(types[1])),
        );
    }
    findings
}
