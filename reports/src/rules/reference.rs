//! A reference is another program, measured at the same time: P16.

use jiff::civil::Date;
use jiff::{Timestamp, Unit};

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::{Acceptance, Axis};
use crate::history::is_one_boot;
use crate::record::{Facts, Field};

pub(super) static NEAR_REFERENCE: Rule = Rule {
    id: "P16",
    tier: Tier::Refuse,
    fields: &["date", "runtime", "boot_time"],
    accepted_by: &[Acceptance::MissingDate, Acceptance::Restart],
    text: "a reference (--vary runtime) is another program, measured at most one calendar day from the run \
           (--max-date-gap-days sets another number) and without a restart of the host between",
    check: Check::Facts(near_reference),
};

fn near_reference(case: &Case<'_>, before: &Facts, after: &Facts) -> Vec<Finding> {
    if case.options.axis != Axis::Runtime {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if let (Some(one), Some(other)) = (before.known(Field::Runtime), after.known(Field::Runtime))
        && one == other
    {
        let message =
            "both sides are of the same program, so neither is a reference; leave --vary runtime out";
        findings.push(Finding::new("P16", Tier::Refuse, "runtime", message).values(Some(one), Some(other)));
    }
    let shown = |date: Option<Date>| date.map(|date| date.to_string());
    let limit = case.options.max_date_gap_days;
    let finding = |message: String| {
        Finding::new("P16", Tier::Refuse, "date", message).values(shown(before.date), shown(after.date))
    };
    match before.date.zip(after.date) {
        None => findings.push(
            finding("a side has no date, so nobody knows how far the reference is from the run".to_owned())
                .unless(Acceptance::MissingDate),
        ),
        Some((one, other)) => match days_between(one, other) {
            Some(days) if days <= limit => {}
            days => {
                let days = days.map_or_else(|| "very many".to_owned(), |days| days.to_string());
                findings.push(finding(format!(
                    "the reference was measured {days} days from the run, and {limit} is the most; measure it anew"
                )));
            }
        },
    }
    findings.extend(restart(case));
    findings
}

/// Another start of the host is another state of its memory, clocks and drivers.
fn restart(case: &Case<'_>) -> Option<Finding> {
    let boots = [case.before, case.after].map(|file| file.boot_times_unix_seconds.as_slice());
    let shown = |boots: &[u64]| {
        let instant = |boot: &u64| Timestamp::from_second(i64::try_from(*boot).ok()?).ok();
        let texts: Vec<String> =
            boots.iter().filter_map(instant).map(|instant| instant.to_string()).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    };
    let finding = |tier, message| {
        Finding::new("P16", tier, "boot_time", message).values(shown(boots[0]), shown(boots[1]))
    };
    match boots {
        [[one], [other]] if is_one_boot(*one, *other) => None,
        [[_, ..], [_, ..]] => {
            let message = "the host was restarted between the reference and the run; measure both anew without a restart";
            Some(finding(Tier::Refuse, message).unless(Acceptance::Restart))
        }
        _ => {
            let message =
                "whether the host was restarted between the reference and the run is not known on both sides";
            Some(finding(Tier::Warn, message))
        }
    }
}

/// Days of the calendar.
fn days_between(one: Date, other: Date) -> Option<u32> {
    let span = one.until((Unit::Day, other)).ok()?;
    Some(span.get_days().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (one, other, days) in [
            ("2026-08-31", "2026-09-01", 1),
            ("2026-09-01", "2026-08-31", 1),
            ("2024-02-28", "2024-03-01", 2),
            ("2026-02-28", "2026-03-01", 1),
            ("2026-12-31", "2027-01-01", 1),
            ("2026-09-09", "2026-09-09", 0),
            ("2000-02-28", "2000-02-29", 1),
        ] {
            let date = |text: &str| text.parse::<Date>().expect("OK because it is a date");
            assert_eq!(days_between(date(one), date(other)), Some(days), "{one} {other}");
        }
    }
}
