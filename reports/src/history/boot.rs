//! When the host of a file's rows was started: by the provenance beside them, or by each row's uptime.

use crate::row::{AnyRow, Figures};
use crate::wire::Light;

/// How much the time of one start may differ by, since it is computed from a clock that is put right now and then.
const SAME_BOOT_SECONDS: u64 = 120;

/// First version whose rows hold the uptime at the beginning of their measurement; older ones hold that at its end.
const UPTIME_AT_BEGIN_SINCE: u32 = 3;

/// Whether two times of a start are those of one.
pub(crate) const fn is_one_boot(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= SAME_BOOT_SECONDS
}

/// The starts that rows of a file of this version were measured after, each once. What the provenance recorded was read
/// from the system when the run began; rows tell of a restart that a run went on after.
pub(super) fn times(rows: &[AnyRow], version: u32, recorded: Option<u64>) -> Vec<u64> {
    let mut boots = Boots::new(version, recorded);
    for row in rows {
        boots.add(&Light::of_row(row));
    }
    boots.times()
}

/// The same, row by row.
pub(super) struct Boots {
    times: Vec<u64>,
    at_begin: bool,
    /// An uptime at the end of a measurement of unknown length is no evidence against what was recorded.
    is_settled: bool,
}

impl Boots {
    pub(super) fn new(version: u32, recorded: Option<u64>) -> Self {
        let at_begin = version >= UPTIME_AT_BEGIN_SINCE;
        Self { times: recorded.into_iter().collect(), at_begin, is_settled: recorded.is_some() && !at_begin }
    }

    pub(super) fn add(&mut self, row: &Light<'_>) {
        if self.is_settled {
            return;
        }
        if let Some(time) = time(row, self.at_begin)
            && !self.times.iter().any(|known| is_one_boot(*known, time))
        {
            self.times.push(time);
        }
    }

    pub(super) fn times(mut self) -> Vec<u64> {
        self.times.sort_unstable();
        self.times
    }
}

fn time(row: &Light<'_>, at_begin: bool) -> Option<u64> {
    let uptime = row.uptime_s?;
    let begun = u64::try_from(row.started_at.as_second()).ok()?;
    let read_at = if at_begin { begun } else { begun.saturating_add(duration_s(row)) };
    read_at.checked_sub(uptime)
}

/// About how long a row took: loading, a warm-up and the repetitions.
fn duration_s(row: &Light<'_>) -> u64 {
    let passes = |figures: &Figures| {
        let pass = figures.prefill().nanos().saturating_add(figures.decode().nanos());
        pass.saturating_mul(u64::from(figures.reps()).saturating_add(1))
    };
    let nanos = row.load_nanos.unwrap_or(0).saturating_add(row.figures.as_ref().map_or(0, passes));
    nanos / 1_000_000_000
}
