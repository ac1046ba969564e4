//! How far two controls in a row may lie apart: what somebody asked for, else the noise that `doctor` found of the host up to
//! a hard limit, else a usual figure.
//!
//! Controls on a host whose own noise is larger than the limit cannot tell whether it has changed: there their rows are
//! invalid rather than the band so wide that nothing ever is.

use crate::text::complain;

/// The band of a host whose own noise is not known, in percent: the spread that a valid row may have.
pub(super) const DEFAULT_PCT: f64 = 4.0;
/// No band is wider than this many percent unless that was asked for.
pub(super) const WIDEST_PCT: f64 = 10.0;

/// The band in percent, and what is to be said of it.
pub(super) fn band(asked_pct: Option<f64>, floor_pct: Option<f64>) -> (f64, Option<String>) {
    if let Some(asked) = asked_pct {
        let note = (asked > WIDEST_PCT).then(|| {
            format!(
                "note: controls may lie {asked} % apart, as --control-band says: what changes less on this host is not noticed"
            )
        });
        return (asked, note);
    }
    match floor_pct {
        Some(floor) if floor > WIDEST_PCT => {
            let note = format!(
                "note: the noise that doctor found of this host is {floor:.1} %, and controls may lie {WIDEST_PCT} % apart at most: a \
                 host noisier than that cannot be watched by controls, and rows between two that differ by more are invalid. \
                 Make the host quiet and ask doctor again; --control-band PERCENT sets another band, which every row says"
            );
            (WIDEST_PCT, Some(note))
        }
        floor => (floor.unwrap_or(DEFAULT_PCT), None),
    }
}

/// The same, said to people where controls are made.
pub(super) fn told_band(asked_pct: Option<f64>, floor_pct: Option<f64>, made: bool) -> f64 {
    let (band, note) = band(asked_pct, floor_pct);
    if let Some(note) = note.filter(|_| made) {
        complain(&note);
    }
    band
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_of_a_host_is_the_band_up_to_a_limit_that_only_a_flag_lifts() {
        for (asked, floor, expected, words) in [
            (None, None, 4.0, ""),
            (None, Some(2.5), 2.5, ""),
            (None, Some(10.0), 10.0, ""),
            (None, Some(126.5), 10.0, "is 126.5 %, and controls may lie 10 % apart at most"),
            (Some(3.0), Some(126.5), 3.0, ""),
            (Some(40.0), Some(2.0), 40.0, "--control-band"),
        ] {
            let (band, note) = band(asked, floor);
            assert!((band - expected).abs() < 1e-9, "{asked:?} {floor:?}: {band}");
            let note = note.unwrap_or_default();
            assert_eq!(note.is_empty(), words.is_empty(), "{note}");
            assert!(note.contains(words), "{note}");
        }
    }
}
