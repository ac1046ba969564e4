//! Control rows: one small checkpoint measured first, last and in between, and what its rates say of the rows between two
//! of them.
//!
//! The rates of a host that stays the same stay within its noise. Where two controls in a row differ by more, nobody knows
//! which of the rows between them were measured on which host: those are invalid, and can be measured again alone.

use mlxcel_reports::row::{AnyRow, Figures};
use mlxcel_reports::status::{Exclusion, Rule, Status};

use super::band::WIDEST_PCT;
use crate::text::one_line;

/// So many rows without control are few enough, where nobody asked for one.
pub(super) const FEWEST_ROWS: usize = 4;
/// So many controls are tried in a row, where the first of a sweep say nothing.
const MOST_AT_FIRST: u32 = 3;
/// Rows between two controls, where nobody said.
pub(super) const DEFAULT_EVERY: u32 = 10;

/// When controls are due, and what the last one showed.
#[derive(Debug)]
pub(super) struct Controls {
    /// Place of the control checkpoint, and rows between two controls; `None` for no controls.
    every: Option<u32>,
    band_pct: f64,
    last: Option<Rates>,
    /// How the last one ended, where it says nothing of the host.
    unusable: Option<String>,
    /// How many in a row said nothing before the first that did.
    failed_at_first: u32,
    /// Places in the order of measurement since the last control.
    since: Vec<u32>,
    /// Those of the reference's rows, in their own set.
    references_since: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    prefill: f64,
    decode: f64,
    prefill_spread_pct: f64,
    decode_spread_pct: f64,
}

/// Two controls in a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Between {
    /// Places in the order of measurement of the rows between them.
    pub(super) rows: Vec<u32>,
    /// Those of the reference's rows between them.
    pub(super) references: Vec<u32>,
    /// How far apart they lie.
    pub(super) apart: Apart,
}

/// What a control shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seen {
    /// Nothing of the rows before it, which wait for the next.
    Nothing,
    /// Which rows lie between it and the one before.
    Between(Between),
    /// Rows before it that have no control before them.
    Unjudged(Unjudged),
}

/// Rows with a control on one side of them at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unjudged {
    /// Places in the order of measurement of the rows.
    pub(super) rows: Vec<u32>,
    /// Those of the reference's rows.
    pub(super) references: Vec<u32>,
    /// Why that is so, for these rows.
    pub(super) why: String,
}

/// How far apart two controls lie: of decode and prefill, what is further beyond its band.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Apart {
    pub(super) pct: f64,
    pub(super) band_pct: f64,
    /// In words, for the rows of controls that moved.
    pub(super) detail: String,
}

impl Controls {
    /// After every so many rows; 0 and `None` are never.
    pub(super) fn new(every: Option<u32>, band_pct: f64) -> Self {
        Self {
            every: every.filter(|every| *every > 0),
            band_pct,
            last: None,
            unusable: None,
            failed_at_first: 0,
            since: Vec::new(),
            references_since: Vec::new(),
        }
    }

    /// Whether there are controls at all.
    pub(super) const fn are_made(&self) -> bool {
        self.every.is_some()
    }

    /// The band, in percent.
    pub(super) const fn band_pct(&self) -> f64 {
        self.band_pct
    }

    /// Whether one is due before the next row.
    pub(super) fn due_before_row(&self, nothing_measured_yet: bool) -> bool {
        // Without one that says something, no row can be judged; one that fails again and again is no use.
        let again = self.last.is_none() && (1..MOST_AT_FIRST).contains(&self.failed_at_first);
        self.every.is_some_and(|every| nothing_measured_yet || again || self.since.len() >= every as usize)
    }

    /// Whether one is due after the last row.
    pub(super) fn due_at_end(&self) -> bool {
        self.are_made() && !(self.since.is_empty() && self.references_since.is_empty())
    }

    /// A row was measured.
    pub(super) fn row(&mut self, order_index: u32) {
        if self.are_made() {
            self.since.push(order_index);
        }
    }

    /// A row of the reference was measured.
    pub(super) fn reference(&mut self, order_index: u32) {
        if self.are_made() {
            self.references_since.push(order_index);
        }
    }

    /// The rows of the parts of a sweep before this one. Those that no control after them has judged are judged by the next,
    /// held against the last one before them.
    pub(super) fn go_on(&mut self, controls: &[AnyRow], rows: &[AnyRow], references: &[AnyRow]) {
        if !self.are_made() {
            return;
        }
        let waits = |row: &&AnyRow| {
            row.figures().is_some()
                && row.identity().conditions.control.model.is_none()
                && row.status() != Status::Excluded(Exclusion::Invalid(Rule::ControlDrift))
        };
        let begun = |row: &AnyRow| row.identity().run.started_at;
        let waiting = || rows.iter().chain(references).filter(waits);
        let earliest = waiting().map(begun).min();
        let before = |control: &&AnyRow| earliest.is_none_or(|earliest| begun(control) <= earliest);
        self.last = controls.iter().rev().filter(before).find_map(rates);
        let places = |rows: &[AnyRow]| {
            rows.iter().filter(waits).map(|row| row.identity().run.order_index).collect::<Vec<_>>()
        };
        self.since = places(rows);
        self.references_since = places(references);
    }

    /// Places of the rows that no control after them has judged.
    pub(super) fn waiting(&self) -> &[u32] {
        &self.since
    }

    /// A control was measured: which rows lie between it and the one before, and how far the two are apart. One that failed
    /// says nothing of the host, and the rows before it wait for the next.
    pub(super) fn control(&mut self, row: &AnyRow) -> Seen {
        let Some(rates) = rates(row) else {
            self.unusable = Some(one_line(row.status()));
            self.failed_at_first = self.failed_at_first.saturating_add(u32::from(self.last.is_none()));
            return Seen::Nothing;
        };
        self.unusable = None;
        let before = self.last.replace(rates);
        let rows = std::mem::take(&mut self.since);
        let references = std::mem::take(&mut self.references_since);
        if rows.is_empty() && references.is_empty() {
            return Seen::Nothing;
        }
        match before.and_then(|before| self.difference(before, rates)) {
            Some(apart) => Seen::Between(Between { rows, references, apart }),
            None => Seen::Unjudged(Unjudged {
                rows,
                references,
                why: "no control before this row says what the host was like".to_owned(),
            }),
        }
    }

    /// At the end of a sweep, the rows since the last control that said something of the host.
    pub(super) fn unjudged_at_end(&mut self) -> Option<Unjudged> {
        let rows = std::mem::take(&mut self.since);
        let references = std::mem::take(&mut self.references_since);
        let how = self.unusable.take().map(|how| format!(" (the last one: {how})")).unwrap_or_default();
        let why = format!("no control after this row says what the host was like{how}");
        (!rows.is_empty() || !references.is_empty()).then_some(Unjudged { rows, references, why })
    }

    fn difference(&self, before: Rates, after: Rates) -> Option<Apart> {
        let pairs = [
            ("decode", before.decode, after.decode, before.decode_spread_pct.max(after.decode_spread_pct)),
            (
                "prefill",
                before.prefill,
                after.prefill,
                before.prefill_spread_pct.max(after.prefill_spread_pct),
            ),
        ];
        let apart = pairs.map(|(what, one, other, spread)| {
            let pct = 100.0 * (one - other).abs() / f64::midpoint(one, other);
            // Controls that are themselves uneven by more than the band cannot show less; but uneven ones are no leave to see
            // nothing.
            let band_pct = self.band_pct.max(spread.min(WIDEST_PCT));
            let detail = format!(
                "the control's {what} rate was {one:.2} tok/s before this row and {other:.2} after it, {pct:.1} % apart \
                 where {band_pct:.1} % are noise"
            );
            Apart { pct, band_pct, detail }
        });
        apart
            .into_iter()
            .max_by(|one, other| (one.pct - one.band_pct).total_cmp(&(other.pct - other.band_pct)))
    }
}

/// The rates of a control; none of one that failed or was contended. That it was measured by another program, as in tests,
/// does not matter here.
fn rates(row: &AnyRow) -> Option<Rates> {
    let usable = matches!(
        row.status(),
        Status::Ok | Status::Excluded(Exclusion::Invalid(Rule::Provenance | Rule::Spread))
    );
    let figures = row.figures().filter(|_| usable)?;
    Some(Rates {
        prefill: figures.prefill().tok_s()?,
        decode: figures.decode().tok_s()?,
        prefill_spread_pct: Figures::prefill_spread_pct(figures).unwrap_or(0.0),
        decode_spread_pct: Figures::decode_spread_pct(figures).unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates_of(decode: f64) -> Rates {
        Rates { prefill: 100.0, decode, prefill_spread_pct: 0.0, decode_spread_pct: 0.0 }
    }

    #[test]
    fn controls_come_first_after_every_so_many_rows_and_last() {
        let mut controls = Controls::new(Some(2), 4.0);
        assert!(controls.due_before_row(true) && !controls.due_at_end());
        controls.row(0);
        assert!(!controls.due_before_row(false));
        controls.row(1);
        assert!(controls.due_before_row(false) && controls.due_at_end());
        for never in [None, Some(0)] {
            let mut controls = Controls::new(never, 4.0);
            controls.row(0);
            assert!(!controls.due_before_row(true) && !controls.due_at_end() && !controls.are_made());
        }
    }

    #[test]
    fn controls_that_differ_beyond_the_band_say_by_how_much() {
        let controls = Controls::new(Some(2), 4.0);
        let moved = |controls: &Controls, after: Rates| {
            controls.difference(rates_of(100.0), after).map(|apart| (apart.pct > apart.band_pct, apart))
        };
        assert!(matches!(moved(&controls, rates_of(103.0)), Some((false, _))));
        let Some((true, apart)) = moved(&controls, rates_of(90.0)) else { panic!("10 % apart did not move") };
        assert!(
            apart.detail.contains("decode rate was 100.00 tok/s before") && apart.detail.contains("10.5 %"),
            "{apart:?}"
        );
        assert!((apart.pct - 10.526).abs() < 0.001 && (apart.band_pct - 4.0).abs() < 1e-9, "{apart:?}");
        let narrow = Controls::new(Some(2), 1.0);
        assert!(matches!(moved(&narrow, rates_of(103.0)), Some((true, _))));
        let uneven = |decode| Rates { decode_spread_pct: 20.0, ..rates_of(decode) };
        assert!(matches!(moved(&controls, uneven(92.0)), Some((false, _))));
        // However uneven they are, the band has its limit.
        assert!(matches!(moved(&controls, uneven(85.0)), Some((true, _))));
        let slow_prefill = Rates { prefill: 80.0, ..rates_of(97.0) };
        let worst = controls.difference(rates_of(100.0), slow_prefill).map(|apart| apart.detail);
        assert!(worst.is_some_and(|detail| detail.contains("prefill rate was 100.00")));
    }
}
