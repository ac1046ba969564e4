//! Who may be suspended: processes of the wanted names, and never ourselves, our ancestors, the command, or the system's own.

use std::collections::BTreeSet;

use super::super::own::Own;
use super::super::processes::{Process, Table};

/// Processes that are never suspended.
#[derive(Clone, Debug)]
pub struct Protected {
    /// The wrapper and the watcher, with all their ancestors as they were at first: a killed wrapper takes none of them along.
    ours: BTreeSet<u32>,
    /// The command and whatever was seen to descend from it.
    command: BTreeSet<u32>,
}

impl Protected {
    /// Ourselves and our ancestors.
    pub fn of(ours: &[u32], table: &Table) -> Self {
        let mut protected = BTreeSet::new();
        for pid in ours {
            let mut next = Some(*pid);
            while let Some(pid) = next.filter(|pid| protected.insert(*pid)) {
                next = table.get(&pid).map(|process| process.parent);
            }
        }
        Self { ours: protected, command: BTreeSet::new() }
    }

    /// The command as well, and its descendants from now on.
    pub fn add_command(&mut self, pid: u32) {
        self.command.insert(pid);
    }

    /// Looks for new descendants of the command. Those whose parents have ended stay protected.
    pub fn look(&mut self, table: &Table) {
        self.command.retain(|pid| table.contains_key(pid));
        self.command = Own::of(self.command.iter().copied()).among(&[table]);
    }

    /// Whether a process is one of them, or the system's.
    pub fn covers(&self, process: &Process) -> bool {
        self.ours.contains(&process.pid)
            || self.command.contains(&process.pid)
            || process.pid <= 1
            || is_kernel_thread(process)
    }
}

/// Threads of the Linux kernel take no signals.
fn is_kernel_thread(process: &Process) -> bool {
    cfg!(target_os = "linux") && (process.pid == 2 || process.parent == 2)
}

/// Whether a process has one of the names. Linux knows the first 15 bytes of a name only, so a longer one must be confirmed.
pub fn is_named(process: &Process, names: &[String], full_name: impl Fn(&Process) -> Option<String>) -> bool {
    const KNOWN: usize = 15;
    names.iter().any(|name| {
        if cfg!(target_os = "linux") && name.len() > KNOWN {
            process.name.as_bytes() == name.as_bytes().get(..KNOWN).unwrap_or_default()
                && full_name(process).is_some_and(|full| full == *name)
        } else {
            process.name == *name
        }
    })
}

/// The name a process was started by, from its command line.
pub fn full_name(process: &Process) -> Option<String> {
    #[cfg(target_os = "linux")]
    return super::super::processes::linux::name_in_command_line(process.pid);
    #[cfg(not(target_os = "linux"))]
    return Some(process.name.clone());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::processes::tests::process;

    fn table(processes: &[(u32, u32, &str)]) -> Table {
        processes.iter().map(|(pid, parent, name)| (*pid, process(*pid, *parent, name, 0))).collect()
    }

    fn covered(protected: &Protected, table: &Table) -> Vec<u32> {
        table.values().filter(|process| protected.covers(process)).map(|process| process.pid).collect()
    }

    #[test]
    fn ancestors_the_command_and_the_first_process_are_protected() {
        let mut table = table(&[
            (1, 0, "init"),
            (10, 1, "login"),
            (11, 10, "sh"),
            (20, 11, "quiet"),
            (21, 20, "quiet"),
            (30, 10, "sh"),
        ]);
        let mut protected = Protected::of(&[20, 21], &table);
        assert_eq!(covered(&protected, &table), [1, 10, 11, 20, 21]);
        for (pid, parent) in [(40, 20), (41, 40), (42, 41)] {
            table.insert(pid, process(pid, parent, "sh", 0));
        }
        protected.add_command(40);
        protected.look(&table);
        assert_eq!(covered(&protected, &table), [1, 10, 11, 20, 21, 40, 41, 42]);
        // The wrapper and a process in the middle of the command are gone.
        table.remove(&20);
        table.remove(&41);
        table.insert(42, process(42, 1, "sh", 0));
        table.insert(43, process(43, 42, "sh", 0));
        protected.look(&table);
        assert_eq!(covered(&protected, &table), [1, 10, 11, 21, 40, 42, 43]);
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let table = table(&[(5, 6, "a"), (6, 5, "b")]);
        assert_eq!(covered(&Protected::of(&[5], &table), &table), [5, 6]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_of_the_kernel_are_the_systems() {
        let table = table(&[(2, 0, "kthreadd"), (9, 2, "kworker/0:1"), (10, 1, "cron")]);
        assert_eq!(covered(&Protected::of(&[], &table), &table), [2, 9]);
    }

    #[test]
    fn names_are_whole_names() {
        let named = |name: &str, wanted: &str, full: &str| {
            is_named(&process(9, 1, name, 0), &[wanted.to_owned()], |_| Some(full.to_owned()))
        };
        assert!(named("mdworker", "mdworker", ""));
        assert!(!named("mdworker_shared", "mdworker", "") && !named("mdworker", "mdworker_shared", ""));
        if cfg!(target_os = "linux") {
            assert!(named("a-rather-long-n", "a-rather-long-name", "a-rather-long-name"));
            assert!(!named("a-rather-long-n", "a-rather-long-name", "a-rather-long-nose"));
            assert!(!named("a-rather-long-n", "a-rather", "a-rather-long-n"));
        }
    }
}
