//! Linux: `/proc/<pid>/stat`, as described in proc_pid_stat(5).

use std::path::Path;
use std::time::Duration;

use super::{Process, Table};
use crate::host::system::names;

/// The processes under a folder that is `/proc`.
pub fn table(proc: &Path) -> Option<Table> {
    Some(
        names(proc)
            .iter()
            .filter_map(|name| name.parse().ok())
            .filter_map(|pid| Some((pid, process(proc, pid)?)))
            .collect(),
    )
}

/// One process; `None` when it is gone.
pub fn process(proc: &Path, pid: u32) -> Option<Process> {
    let folder = proc.join(pid.to_string());
    // Names are bytes of any kind.
    let stat = std::fs::read(folder.join("stat")).ok()?;
    let mut process = parse_stat(&String::from_utf8_lossy(&stat), ticks_per_second())?;
    if process.name == "exe" {
        // Started as /proc/self/exe, which says nothing; its first argument does.
        if let Some(name) = std::fs::read(folder.join("cmdline")).ok().and_then(|line| first_argument(&line))
        {
            process.name = name;
        }
    }
    Some(process)
}

/// One line of `/proc/<pid>/stat`. The name stands in parentheses and may itself hold spaces and parentheses.
pub fn parse_stat(text: &str, ticks_per_second: u64) -> Option<Process> {
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The numbers are those of the manual, where the state is field 3.
    let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
    let ticks = |number: usize| field(number)?.parse::<u64>().ok();
    let time = |ticks: u64| {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    Some(Process {
        pid: pid.trim().parse().ok()?,
        parent: field(4)?.parse().ok()?,
        name: name.to_owned(),
        state: field(3)?.chars().next()?,
        started: field(22)?.to_owned(),
        cpu: time(ticks(14)?.saturating_add(ticks(15)?)),
        // Signed in the manual; a kernel that wrote a negative one would mean nothing by it.
        children_cpu: time(ticks(16).unwrap_or(0).saturating_add(ticks(17).unwrap_or(0))),
    })
}

/// The name in a process's command line, whole; `None` when it cannot be read.
#[cfg(target_os = "linux")]
pub fn name_in_command_line(pid: u32) -> Option<String> {
    first_argument(&std::fs::read(format!("/proc/{pid}/cmdline")).ok()?)
}

/// The name of the program in a command line of `/proc/<pid>/cmdline`.
fn first_argument(line: &[u8]) -> Option<String> {
    let first = line.split(|byte| *byte == 0).next()?;
    let name = String::from_utf8_lossy(first);
    Some(name.rsplit('/').next()?.to_owned()).filter(|name| !name.is_empty())
}

/// Processor time as the whole host has it, in `/proc/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCpu {
    /// In programs and in the kernel on their behalf, interrupts not counted; of all cores together.
    pub busy: Duration,
    /// Taken by the hypervisor while something here wanted to run.
    pub steal: Duration,
    /// Cores that are counted.
    pub cores: u32,
}

/// The first line and the count of cores of `/proc/stat`.
pub fn parse_host_cpu(text: &str, ticks_per_second: u64) -> Option<HostCpu> {
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = all.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, _irq, _softirq, rest @ ..] = ticks.as_slice() else {
        return None;
    };
    let time = |ticks: u64| {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    let is_core = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    Some(HostCpu {
        busy: time(user.saturating_add(*nice).saturating_add(*system)),
        steal: time(rest.first().copied().unwrap_or(0)),
        cores: u32::try_from(text.lines().filter(is_core).count()).ok().filter(|cores| *cores > 0)?,
    })
}

/// The host's processor time now.
#[cfg(target_os = "linux")]
pub fn host_cpu() -> Option<HostCpu> {
    parse_host_cpu(&std::fs::read_to_string("/proc/stat").ok()?, ticks_per_second())
}

#[cfg(target_os = "linux")]
fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

#[cfg(not(target_os = "linux"))]
fn ticks_per_second() -> u64 {
    100
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4242 (a (nice) name) R 4000 4242 4000 34816 4242 4194304 500 90 0 0 150 50 30 20 20 0 8 0 \
                        991234 4521984 300 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0\n";

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name_holds() {
        let process = parse_stat(STAT, 100);
        let expected = Process {
            pid: 4242,
            parent: 4000,
            name: "a (nice) name".to_owned(),
            state: 'R',
            started: "991234".to_owned(),
            cpu: Duration::from_secs(2),
            children_cpu: Duration::from_millis(500),
        };
        assert_eq!(process, Some(expected));
    }

    #[test]
    fn a_cut_line_is_no_process() {
        for end in 0..STAT.find("991234").unwrap_or(0) {
            assert_eq!(parse_stat(STAT.get(..end).unwrap_or_default(), 100), None, "{end}");
        }
    }

    #[test]
    fn a_program_started_through_proc_has_the_name_it_was_given() -> std::io::Result<()> {
        let proc = tempfile::tempdir()?;
        let folder = proc.path().join("7");
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("stat"), STAT.replace("4242 (a (nice) name)", "7 (exe)"))?;
        std::fs::write(folder.join("cmdline"), b"/opt/bin/mlxcel-bench\0worker\0")?;
        std::fs::create_dir(proc.path().join("sys"))?;
        let table = table(proc.path()).unwrap_or_default();
        assert_eq!(table.get(&7).map(|process| process.name.as_str()), Some("mlxcel-bench"));
        assert_eq!(table.len(), 1);
        Ok(())
    }

    #[test]
    fn the_host_is_busy_in_programs_and_not_in_waiting_or_interrupts() {
        let text = "cpu  1000 10 200 9000 500 70 80 40 5 0\ncpu0 500 5 100 4500 250 35 40 20 0 0\n\
                    cpu1 500 5 100 4500 250 35 40 20 0 0\nintr 5\nctxt 6\n";
        let expected =
            HostCpu { busy: Duration::from_millis(12_100), steal: Duration::from_millis(400), cores: 2 };
        assert_eq!(parse_host_cpu(text, 100), Some(expected));
        assert_eq!(parse_host_cpu("cpu 1 2 3\n", 100), None);
        assert_eq!(parse_host_cpu("", 100), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,200}", ticks in 0_u64..3) {
            let _ = parse_stat(&text, ticks);
            let _ = parse_host_cpu(&text, ticks);
        }
    }
}
