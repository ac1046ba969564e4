//! Evidence of why a worker ended: the kernel's count of kills for memory, the memory it had at most, and the words
//! allocators use.
//!
//! A kill for memory is told from any other kill by evidence alone; what row it makes is left to `sweep`.

use std::fs;

/// How often the kernel has killed a process for want of memory. `None` is what cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OomKills {
    /// Of this process's control group, by whatever the kernel counts there: nobody else's.
    pub group: Option<u64>,
    /// Of the whole system: anybody's.
    pub system: Option<u64>,
}

impl OomKills {
    /// So far.
    pub fn now() -> Self {
        let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| {
            let path =
                text.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/').to_owned();
            fs::read_to_string(format!("/sys/fs/cgroup/{path}/memory.events")).ok()
        });
        let system = fs::read_to_string("/proc/vmstat").ok();
        let count = |text: Option<String>| counter(&text?, "oom_kill");
        Self { group: count(group), system: count(system) }
    }

    /// How many there were since then.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let risen = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Self { group: risen(self.group, before.group), system: risen(self.system, before.system) }
    }
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

/// Whether the text of an exception is one with which an allocator refuses: the exception's own, from its first letter on, so
/// that neither a path nor what others say around it counts.
pub fn is_refusal_of_allocator(exception: &str) -> bool {
    // MLX's allocators on the processor and on Metal; the C++ library's.
    const BEGINS: [&str; 4] = ["[malloc", "[metal::malloc", "[metal_malloc", "std::bad_alloc"];
    // Calls of the CUDA runtime and driver that MLX reports by their name and the system's word for the error.
    const CUDA: [&str; 3] = ["cudaMalloc", "cuMem", "[cuda"];
    const METAL: &str = "kIOGPUCommandBufferCallbackErrorOutOfMemory";
    let begins = |words: &[&str]| words.iter().any(|word| exception.starts_with(word));
    begins(&BEGINS)
        || (begins(&CUDA) && exception.contains("out of memory"))
        || (begins(&["[METAL]"]) && exception.contains(METAL))
}

/// Whether a message says that memory ran out. A bare "oom" does not count: it is part of other words. By itself it is no
/// evidence.
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
    fn only_what_an_allocator_itself_throws_is_its_refusal() {
        for refusal in [
            "[malloc] Unable to allocate 4096 bytes.",
            "[metal::malloc] Attempting to allocate 99 bytes which is greater than the maximum allowed buffer size of 9 bytes.",
            "std::bad_alloc",
            "cudaMallocAsync(&data, size, stream) failed: out of memory",
            "[METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
        ] {
            assert!(is_refusal_of_allocator(refusal), "{refusal}");
        }
        for other in [
            "models/cannot allocate memory: [malloc] of nothing",
            "failed to allocate the tensor `out of memory`",
            "cudaMallocAsync(&data, size, stream) failed: invalid argument",
            "",
        ] {
            assert!(!is_refusal_of_allocator(other), "{other}");
        }
    }

    #[test]
    fn kills_are_counted_from_the_start_of_a_worker_on() {
        let of = |group, system| OomKills { group, system };
        assert_eq!(of(Some(5), Some(9)).since(of(Some(4), Some(9))), of(Some(1), Some(0)));
        assert_eq!(of(None, Some(9)).since(of(Some(4), Some(7))), of(None, Some(2)));
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
