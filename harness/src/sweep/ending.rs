//! How a sweep ends by its rows and those of the reference, and what is to be said where none is valid or one is missing. What
//! an interruption or a lack of rows makes of that is left to `run`.

use std::collections::BTreeSet;

use mlxcel_reports::row::AnyRow;
use mlxcel_reports::status::{Exclusion, Rule, Status};

use crate::exit::Exit;
use crate::text::one_line;

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

/// The exit of a sweep that has a reference: one of its rows that failed counts as ours does, and so does one that there is
/// not. Where ours are fine, a reference without valid rows leaves nothing to compare them with.
pub(super) fn exit_beside(own: Exit, reference: &[AnyRow], missing: &[String]) -> Exit {
    let statuses: Vec<Status> = reference.iter().map(AnyRow::status).collect();
    let failed = !missing.is_empty() || statuses.iter().any(Status::is_fail);
    let incomparable = !statuses.is_empty() && exit_of(&statuses) != Exit::Fine;
    if failed || (own == Exit::Fine && incomparable) { Exit::Failure } else { own }
}

/// The rows of ours that hold a measurement and have none of the reference beside them, in words.
pub(super) fn without_reference(own: &[AnyRow], reference: &[AnyRow]) -> Vec<String> {
    let key = |row: &AnyRow| {
        let identity = row.identity();
        (identity.checkpoint.model_path.clone(), identity.workload.prompt_requested_len)
    };
    let there: BTreeSet<_> = reference.iter().map(key).collect();
    let alone = own.iter().filter(|row| row.figures().is_some() && !there.contains(&key(row)));
    alone
        .map(|row| {
            let model = one_line(&row.identity().checkpoint.model);
            let length = row.identity().workload.prompt_requested_len;
            length.map_or_else(|| model.clone(), |length| format!("{model} at {length} prompt tokens"))
        })
        .collect()
}

/// What to say of rows that the reference has none for.
pub(super) fn no_reference_rows(missing: &[String]) -> Option<String> {
    (!missing.is_empty()).then(|| {
        format!(
            "no reference row of {}: nothing can be said of how these compare; why is in the provenance (no_reference_row)",
            missing.join(", ")
        )
    })
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
    /// A valid row, and one that failed, of the files that the tests of the reports read.
    fn rows() -> Result<[AnyRow; 2], Box<dyn std::error::Error>> {
        let golden =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/tests/golden/rows_v3.csv");
        let rows = mlxcel_reports::wire::read_rows(&golden)?;
        let find = |test: fn(&AnyRow) -> bool| rows.iter().find(|row| test(row)).cloned();
        Ok([
            find(|row| row.status().is_ok()).ok_or("no valid row")?,
            find(|row| row.status().is_fail()).ok_or("no failed row")?,
        ])
    }

    #[test]
    fn a_reference_that_failed_or_is_missing_is_a_failure_of_the_sweep()
    -> Result<(), Box<dyn std::error::Error>> {
        let [ok, failed] = rows()?;
        let missing = [String::from("x at 8 prompt tokens")];
        for own in [Exit::Fine, Exit::InvalidOnly, Exit::Failure] {
            assert_eq!(exit_beside(own, &[], &missing), Exit::Failure, "{own:?}");
            assert_eq!(exit_beside(own, &[ok.clone(), failed.clone()], &[]), Exit::Failure, "{own:?}");
            assert_eq!(exit_beside(own, std::slice::from_ref(&ok), &[]), own);
            assert_eq!(exit_beside(own, &[], &[]), own, "nothing of ours was measured");
        }
        let AnyRow::Measured(measured) = &ok else { return Err("not measured".into()) };
        let uneven: AnyRow = measured.clone().invalidated(Rule::Spread, String::new()).into();
        assert_eq!(exit_beside(Exit::Fine, std::slice::from_ref(&uneven), &[]), Exit::Failure);
        assert_eq!(exit_beside(Exit::InvalidOnly, &[uneven], &[]), Exit::InvalidOnly);
        Ok(())
    }

    #[test]
    fn a_measured_row_without_its_reference_is_named_with_its_length()
    -> Result<(), Box<dyn std::error::Error>> {
        let [ok, failed] = rows()?;
        let name = without_reference(&[ok.clone(), failed], &[]);
        assert!(
            matches!(name.as_slice(), [one] if one.starts_with(&ok.identity().checkpoint.model)),
            "{name:?}"
        );
        assert_eq!(
            without_reference(std::slice::from_ref(&ok), std::slice::from_ref(&ok)),
            Vec::<String>::new()
        );
        assert!(no_reference_rows(&name).is_some() && no_reference_rows(&[]).is_none());
        Ok(())
    }
}
