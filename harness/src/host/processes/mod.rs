//! The processes of the host and the processor time of each: `/proc` on Linux, `ps` on macOS.
//!
//! Nothing is decided here; see `window`.

pub mod linux;
pub mod ps;

use std::collections::BTreeMap;
use std::time::Duration;

/// One process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The number of its parent; 0 for none.
    pub parent: u32,
    /// Its name: the program's, without a path. Linux cuts it to 15 bytes.
    pub name: String,
    /// One letter for its state, as `ps` shows it; `T` is stopped.
    pub state: char,
    /// Tells it from an earlier process of the same number: when it was started, in the system's own terms.
    pub started: String,
    /// Processor time it has used, in user and in kernel mode.
    pub cpu: Duration,
    /// Processor time of its children that have ended, and of theirs; zero where the system does not say.
    pub children_cpu: Duration,
}

impl Process {
    /// Whether two readings are of one process.
    pub fn is(&self, other: &Self) -> bool {
        self.pid == other.pid && self.started == other.started
    }

    /// Whether it has ended and waits for its parent to notice.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether it is stopped by a signal (not by a debugger).
    pub fn is_stopped(&self) -> bool {
        self.state == 'T'
    }
}

/// All processes that can be seen, by number.
pub type Table = BTreeMap<u32, Process>;

/// The processes there are now; `None` when they cannot be read.
pub fn table() -> Option<Table> {
    #[cfg(target_os = "linux")]
    let table = linux::table(std::path::Path::new("/proc"));
    #[cfg(target_os = "macos")]
    let table = super::system::output(ps::PROGRAM, &ps::ARGUMENTS).map(|text| ps::parse(&text));
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    let table = None;
    table.filter(|table: &Table| !table.is_empty())
}

/// One process as it is now; `None` when there is none of that number.
pub fn one(pid: u32) -> Option<Process> {
    #[cfg(target_os = "linux")]
    return linux::process(std::path::Path::new("/proc"), pid);
    #[cfg(not(target_os = "linux"))]
    return table()?.remove(&pid);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A process that has used so many milliseconds.
    pub(crate) fn process(pid: u32, parent: u32, name: &str, cpu_ms: u64) -> Process {
        Process {
            pid,
            parent,
            name: name.to_owned(),
            state: 'S',
            started: "1".to_owned(),
            cpu: Duration::from_millis(cpu_ms),
            children_cpu: Duration::ZERO,
        }
    }

    pub(crate) fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// The processes of these ids, parents, names and milliseconds used.
    pub(crate) fn table(processes: &[(u32, u32, &str, u64)]) -> Table {
        let made =
            processes.iter().map(|(pid, parent, name, cpu)| (*pid, process(*pid, *parent, name, *cpu)));
        made.collect()
    }

    #[test]
    fn this_very_process_is_in_the_table_with_its_time_and_its_parent() {
        let begun = std::time::Instant::now();
        let mut number = 1_u64;
        while begun.elapsed() < Duration::from_millis(100) {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005));
        }
        let table = super::table().unwrap_or_default();
        let this = table.get(&std::process::id());
        assert!(this.is_some_and(|this| this.cpu >= Duration::from_millis(50)), "{this:?}");
        assert!(this.is_some_and(|this| table.contains_key(&this.parent)), "{this:?}");
        assert_eq!(one(std::process::id()).map(|one| one.started), this.map(|this| this.started.clone()));
    }

    #[test]
    fn a_number_that_nobody_has_is_nobody() {
        assert_eq!(one(u32::MAX), None);
    }
}
