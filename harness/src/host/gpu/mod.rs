//! Who uses the GPU: NVIDIA's management library, loaded while the program runs, or the I/O registry of macOS.
//!
//! A host without either has no reading, which is no error.

pub mod ioreg;
#[cfg(target_os = "linux")]
pub mod nvml;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::processes::Table;
use super::window::{Foreigner, Kind};

/// The GPUs at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuReading {
    /// How busy the busiest GPU was lately, whoever used it, in percent.
    pub utilization_pct: Option<f64>,
    /// Who has a context on one.
    pub users: Vec<GpuUser>,
}

/// A process with a context on a GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuUser {
    /// Its number, as the driver knows it: within a container it may be another's.
    pub pid: u32,
    /// Its name, where the driver tells it.
    pub name: Option<String>,
    /// Device memory it holds.
    pub memory_bytes: Option<u64>,
    /// How busy it kept the GPU since the last reading, in percent.
    pub busy_pct: Option<f64>,
    /// GPU time it has used in all.
    pub time: Option<Duration>,
}

/// Reads the GPUs again and again.
#[derive(Debug, Default)]
pub struct GpuReader {
    #[cfg(target_os = "linux")]
    nvml: Option<nvml::Nvidia>,
}

impl GpuReader {
    /// Looks for GPUs whose use can be read.
    pub fn open() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            nvml: nvml::Nvidia::open(),
        }
    }

    /// The GPUs now; `None` where nothing can be read.
    pub fn read(&mut self) -> Option<GpuReading> {
        #[cfg(target_os = "linux")]
        return self.nvml.as_mut().map(nvml::Nvidia::users);
        #[cfg(target_os = "macos")]
        return super::system::output(ioreg::PROGRAM, &ioreg::ARGUMENTS).and_then(|text| ioreg::parse(&text));
        #[cfg(not(any(target_os = "linux", target_os = "macos")))]
        return None;
    }

    /// Temperature, clocks and throttling of the GPUs; none where they cannot be read.
    pub fn conditions(&self) -> Vec<super::thermal::GpuConditions> {
        #[cfg(target_os = "linux")]
        return self.nvml.as_ref().map(nvml::Nvidia::conditions).unwrap_or_default();
        #[cfg(not(target_os = "linux"))]
        return Vec::new();
    }
}

/// The foreign process that used a GPU most between two readings.
///
/// A user whose number no visible process has is taken for one of ours when no other user is and `worker_runs`, since
/// within a container the driver gives other numbers than the system.
pub fn busiest_foreigner(
    before: Option<&GpuReading>,
    after: &GpuReading,
    elapsed: Duration,
    own: &BTreeSet<u32>,
    worker_runs: bool,
    table: &Table,
) -> Option<Foreigner> {
    let times: BTreeMap<u32, Duration> = before
        .iter()
        .flat_map(|reading| &reading.users)
        .filter_map(|user| Some((user.pid, user.time?)))
        .collect();
    let busy = |user: &GpuUser| {
        user.busy_pct.or_else(|| {
            // One that was not there before has used all its time since.
            let used = user.time?.checked_sub(times.get(&user.pid).copied().unwrap_or_default())?;
            before?;
            Some(100.0 * used.as_secs_f64() / elapsed.as_secs_f64()).filter(|pct| pct.is_finite())
        })
    };
    let (ours, others): (Vec<&GpuUser>, Vec<&GpuUser>) =
        after.users.iter().partition(|user| own.contains(&user.pid));
    let (known, mut unknown): (Vec<&GpuUser>, Vec<&GpuUser>) =
        others.into_iter().partition(|user| table.contains_key(&user.pid));
    let mut ours_run = !ours.is_empty();
    if !ours_run && worker_runs {
        unknown.sort_by(|one, other| busy(other).unwrap_or(0.0).total_cmp(&busy(one).unwrap_or(0.0)));
        ours_run = !unknown.is_empty();
        unknown = unknown.into_iter().skip(1).collect();
    }
    let name = |user: &GpuUser| {
        let listed = table.get(&user.pid).map(|process| process.name.clone());
        listed.or_else(|| user.name.clone()).unwrap_or_else(|| "a process that cannot be seen".to_owned())
    };
    let named = known.into_iter().chain(unknown).filter_map(|user| {
        Some(Foreigner { kind: Kind::Gpu, name: name(user), pid: Some(user.pid), pct: busy(user)? })
    });
    // Where the driver does not say who is busy, a busy GPU that nobody of ours uses is somebody else's.
    let whole = after.utilization_pct.filter(|_| !ours_run && !worker_runs).map(|pct| Foreigner {
        kind: Kind::Gpu,
        name: "a process that cannot be seen".to_owned(),
        pid: None,
        pct,
    });
    named
        .filter(|foreigner| foreigner.pct > 0.0)
        .max_by(|one, other| one.pct.total_cmp(&other.pct))
        .or_else(|| whole.filter(|foreigner| foreigner.pct > 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::processes::tests::process;

    fn user(pid: u32, busy_pct: f64) -> GpuUser {
        GpuUser { pid, busy_pct: Some(busy_pct), ..GpuUser::default() }
    }

    fn table(pids: &[u32]) -> Table {
        pids.iter().map(|pid| (*pid, process(*pid, 1, &format!("p{pid}"), 0))).collect()
    }

    fn found(reading: &GpuReading, own: &[u32], worker_runs: bool) -> Option<(Option<u32>, f64)> {
        let own: BTreeSet<u32> = own.iter().copied().collect();
        let second = Duration::from_secs(1);
        busiest_foreigner(None, reading, second, &own, worker_runs, &table(&[10, 20, 30]))
            .map(|foreigner| (foreigner.pid, foreigner.pct))
    }

    #[test]
    fn the_busiest_user_that_is_not_ours_is_named() {
        let reading = GpuReading {
            utilization_pct: Some(99.0),
            users: vec![user(10, 90.0), user(20, 5.0), user(30, 40.0)],
        };
        assert_eq!(found(&reading, &[10], true), Some((Some(30), 40.0)));
        assert_eq!(found(&reading, &[10, 30], true), Some((Some(20), 5.0)));
        assert_eq!(found(&reading, &[10, 20, 30], true), None);
    }

    #[test]
    fn within_a_container_the_one_user_without_a_process_is_our_worker_and_the_next_is_not() {
        let mut reading = GpuReading { utilization_pct: Some(99.0), users: vec![user(777, 90.0)] };
        assert_eq!(found(&reading, &[10], true), None);
        assert_eq!(found(&reading, &[10], false), Some((Some(777), 90.0)));
        reading.users.push(user(778, 30.0));
        assert_eq!(found(&reading, &[10], true), Some((Some(778), 30.0)));
        // Where one of ours is known by its number, nobody else is taken for ours.
        reading.users.push(user(10, 50.0));
        assert_eq!(found(&reading, &[10], true), Some((Some(777), 90.0)));
    }

    #[test]
    fn a_gpu_that_is_busy_while_we_do_nothing_is_used_by_somebody() {
        let reading = GpuReading { utilization_pct: Some(60.0), users: Vec::new() };
        assert_eq!(found(&reading, &[10], false), Some((None, 60.0)));
        assert_eq!(found(&reading, &[10], true), None);
    }

    #[test]
    fn gpu_time_is_counted_between_the_readings() {
        let at = |millis: u64| GpuReading {
            utilization_pct: None,
            users: vec![GpuUser { pid: 20, time: Some(Duration::from_millis(millis)), ..GpuUser::default() }],
        };
        let own = BTreeSet::from([10]);
        let second = Duration::from_secs(1);
        let foreigner =
            busiest_foreigner(Some(&at(5_000)), &at(5_250), second, &own, true, &table(&[10, 20]));
        assert_eq!(
            foreigner.map(|foreigner| (foreigner.name, foreigner.pct)),
            Some(("p20".to_owned(), 25.0))
        );
    }
}
