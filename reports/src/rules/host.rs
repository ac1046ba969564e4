//! Where it was measured: P09.

use super::identity::differing;
use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Acceptance;
use crate::record::{Facts, Field};

pub(super) static SAME_HOST: Rule = Rule {
    id: "P09",
    tier: Tier::Refuse,
    fields: &["hardware", "host_id", "usable_cores", "os", "driver"],
    accepted_by: &[Acceptance::HostSoftware],
    text: "both sides were measured on the same host with the same processors, system and driver, unless the host is what may differ",
    check: Check::Facts(same_host),
};

fn same_host(case: &Case<'_>, before: &Facts, after: &Facts) -> Vec<Finding> {
    let axis = case.options.axis;
    let mut findings =
        differing("P09", axis, [Field::Hardware, Field::HostId, Field::UsableCores], before, after);
    findings.extend(
        differing("P09", axis, [Field::Os, Field::Driver], before, after)
            .into_iter()
            .map(|finding: Finding| finding.unless(Acceptance::HostSoftware)),
    );
    findings
}
