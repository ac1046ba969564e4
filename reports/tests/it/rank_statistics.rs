//! The rank statistics against scipy's, on random data with and without ties (`scripts/oracle/rank_statistics.py`).

use mlxcel_reports::stats::hodges_lehmann::Shift;
use mlxcel_reports::stats::mann_whitney::mann_whitney;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Case {
    before: Vec<f64>,
    after: Vec<f64>,
    u: f64,
    p: Option<f64>,
    shift: f64,
    interval: Option<[f64; 2]>,
    interval_checked: bool,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../golden/rank_statistics.json")).expect("OK because it is ours")
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs().max(1e-3)
}

#[test]
fn tests_agree_with_scipy() {
    let (mut exact_with_ties, mut approximate) = (0, 0);
    for case in cases() {
        let found = mann_whitney(&case.before, &case.after).expect("OK because all are finite");
        assert!(close(found.u, case.u), "{case:?}: {found:?}");
        let Some(p) = case.p else { continue };
        assert!(close(found.p, p), "{case:?}: {found:?}");
        let mut pooled: Vec<f64> = case.before.iter().chain(&case.after).copied().collect();
        let all = pooled.len();
        pooled.sort_by(f64::total_cmp);
        pooled.dedup();
        exact_with_ties += usize::from(found.exact && pooled.len() < all);
        approximate += usize::from(!found.exact);
    }
    assert!(exact_with_ties > 40 && approximate >= 8, "{exact_with_ties} {approximate}");
}

#[test]
fn shifts_and_intervals_agree_with_scipy() {
    let mut intervals = 0;
    for case in cases() {
        let shift = Shift::of(&case.before, &case.after).expect("OK because all are finite");
        assert!((shift.estimate() - case.shift).abs() < 1e-9, "{case:?}: {}", shift.estimate());
        if !case.interval_checked {
            continue;
        }
        let found = shift.interval(0.95);
        match (case.interval, found) {
            (None, None) => {}
            (Some([low, high]), Some(found)) => {
                assert!(
                    (found.low - low).abs() < 1e-9 && (found.high - high).abs() < 1e-9,
                    "{case:?}: {found:?}"
                );
                assert!(found.confidence >= 0.95 - 1e-12, "{found:?}");
                intervals += 1;
            }
            (expected, found) => panic!("{case:?}: {expected:?} {found:?}"),
        }
    }
    assert!(intervals > 30, "{intervals}");
}
