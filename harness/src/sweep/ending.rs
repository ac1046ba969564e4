//! How a sweep ends by its rows, and what is to be said where none is valid. What an interruption or a lack of rows makes of that is left to `run`.

use std::collections::BTreeSet;

use mlxcel_reports::row::AnyRow;
use mlxcel_reports::status::{Exclusion, Rule, Status};

use crate::exit::Exit;

/// The exit of a sweep by how its rows ended: a failure counts before everything, then whether there is a
/// valid row at all.
pub(super) fn exit_of(statuses: &[Status]) -> Exit {
    let any = |test: fn(&Status) -> bool| statuses.iter().any(test);
    match (any(Status::is_fail), any(Status::is_ok), any(Status::is_invalid)) {
        (true, _, _) | (false, true, true) => Exit::Failure,
        (false, true, false) => Exit::Fine,
        (false, false, _) => Exit::InvalidOnly,
    }
}

/// What to say of a sweep without a valid row: that nothing was measured, or that what was measured does not stand, and why.
pub(super) fn nothing_valid(rows: &[AnyRow]) -> Option<String> {
    let statuses: Vec<Status> = rows.iter().map(AnyRow::status).collect();
    if statuses.iter().any(Status::is_ok) {
        return None;
    }
    let read = rows.iter().filter(|row| row.status().is_invalid() && row.figures().is_some()).count();
    if read == 0 {
        return Some(format!(
            "nothing was measured: none of the {} rows holds a valid measurement",
            rows.len()
        ));
    }
    let rules: BTreeSet<String> =
        statuses.iter().filter(|status| status.is_invalid()).map(ToString::to_string).collect();
    let unquiet = statuses.iter().any(|status| {
        matches!(
            status,
            Status::Excluded(Exclusion::Invalid(Rule::Spread | Rule::Contended | Rule::ControlDrift))
        )
    });
    let remedy = if unquiet {
        "; most often something else is at work on the host: end it and sweep again, or let the sweep wait for a quiet host \
         (--quiet-hold 90)"
    } else {
        ""
    };
    Some(format!(
        "no row is valid ({}): the figures that were read are shown in square brackets and must not be quoted{remedy}",
        rules.into_iter().collect::<Vec<_>>().join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlxcel_reports::status::{Fail, Rule, Skip};

    #[test]
    fn the_exit_follows_the_worst_row() {
        let (ok, skip): (Status, Status) = (Status::Ok, Skip::NotACheckpoint.into());
        let (fail, invalid): (Status, Status) = (Fail::Crash.into(), Rule::ShortGeneration.into());
        for (statuses, exit) in [
            (vec![ok.clone(), skip.clone()], Exit::Fine),
            (vec![ok.clone(), fail.clone()], Exit::Failure),
            (vec![ok, invalid.clone()], Exit::Failure),
            (vec![invalid.clone(), fail], Exit::Failure),
            (vec![invalid, skip.clone()], Exit::InvalidOnly),
            (vec![skip], Exit::InvalidOnly),
            (vec![], Exit::InvalidOnly),
        ] {
            assert_eq!(exit_of(&statuses), exit, "{statuses:?}");
        }
    }
}
