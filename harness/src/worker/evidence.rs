//! Evidence of why a worker ended: the kernel's count of kills for memory, the memory it had at most, and the words
//! allocators use.
//!
//! A kill for memory is told from any other kill by evidence alone; what row it makes is left to `sweep`.

use std::fs;

/// How often the kernel has killed a process for want of memory: of the control group where that is counted,
/// else of the system. `None` where neither can be read.
pub fn kernel_oom_kills() -> Option<u64> {
    let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/').to_owned();
        fs::read_to_string(format!("/sys/fs/cgroup/{path}/memory.events")).ok()
    });
    let system = fs::read_to_string("/proc/vmstat").ok();
    let counts: Vec<u64> =
        [group, system].into_iter().flatten().filter_map(|text| counter(&text, "oom_kill")).collect();
    // Either one rising is evidence, so the sum does.
    (!counts.is_empty()).then(|| counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count)))
}

/// The highest resident memory of a process so far; `None` where the system does not say, and of one that is dead.
pub fn peak_memory_bytes(pid: u32) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        high_water_mark(&status)
    }
    #[cfg(not(target_os = "linux"))]
    {
        // Only what it has now is told here.
        use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
        let pid = Pid::from_u32(pid);
        let mut system = System::new();
        system.refresh_processes_specifics(
            ProcessesToUpdate::Some(&[pid]),
            false,
            ProcessRefreshKind::nothing().with_memory(),
        );
        system.process(pid).map(sysinfo::Process::memory).filter(|bytes| *bytes > 0)
    }
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "the parser is tested on every system"))]
fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Whether a message says that memory ran out. A bare "oom" does not count: it is part of other words.
pub fn says_out_of_memory(message: &str) -> bool {
    const WORDS: [&str; 14] = [
        "out of memory",
        "out-of-memory",
        "insufficient memory",
        "failed to allocate",
        "cannot allocate memory",
        "unable to allocate",
        "attempting to allocate",
        "bad_alloc",
        "bad alloc",
        "greater than the maximum allowed buffer size",
        "metal::malloc",
        "cuda_error_out_of_memory",
        "cudaerrormemoryallocation",
        "cumemalloc failed",
    ];
    let message = message.to_lowercase();
    let rust_allocator = message.match_indices("memory allocation of ").any(|(at, found)| {
        message
            .get(at + found.len()..)
            .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
    });
    rust_allocator || WORDS.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_are_understood() {
        for message in [
            "terminate called after throwing an instance of 'std::bad_alloc'",
            "[metal::malloc] Attempting to allocate 18446744073709551615 bytes",
            "memory allocation of 4096 bytes failed",
            "cudaMallocAsync failed: CUDA_ERROR_OUT_OF_MEMORY",
            "Out of memory",
        ] {
            assert!(says_out_of_memory(message), "{message}");
        }
    }

    #[test]
    fn other_words_are_no_want_of_memory() {
        for message in ["no room in the zoom-oom folder", "memory allocation of weights", "broken pipe", ""] {
            assert!(!says_out_of_memory(message), "{message}");
        }
    }

    #[test]
    fn the_high_water_mark_is_read_in_bytes() {
        assert_eq!(high_water_mark("VmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 7 kB\n"), Some(2 << 20));
        assert_eq!(high_water_mark("Name:\tworker\nState:\tZ (zombie)\n"), None);
        #[cfg(target_os = "linux")]
        assert!(peak_memory_bytes(std::process::id()).is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let text = "oom 7\noom_kill_disable 3\noom_kill 5\n";
        assert_eq!(counter(text, "oom_kill"), Some(5));
        assert_eq!(counter("pgfault 3\n", "oom_kill"), None);
    }
}
