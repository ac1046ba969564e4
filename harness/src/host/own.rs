//! Which processes are our own: the harness, what was added, and all their descendants.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::processes::Table;

/// The roots of our own process trees. Clones share one set.
#[derive(Clone, Debug)]
pub struct Own(Arc<Mutex<BTreeSet<u32>>>);

impl Own {
    /// This process and its descendants, which workers are.
    pub fn this_process() -> Self {
        Self::of([std::process::id()])
    }

    /// These processes and their descendants, and nobody else: a watcher that lives beside what it guards.
    pub fn of(roots: impl IntoIterator<Item = u32>) -> Self {
        Self(Arc::new(Mutex::new(roots.into_iter().collect())))
    }

    /// Counts another process, and its descendants, as our own: one that was not started by this process.
    pub fn add(&self, pid: u32) {
        self.set(|roots| roots.insert(pid));
    }

    /// No longer counts it: it ended, and its number may become another's.
    pub fn remove(&self, pid: u32) {
        self.set(|roots| roots.remove(&pid));
    }

    fn set<T>(&self, change: impl FnOnce(&mut BTreeSet<u32>) -> T) -> T {
        // A set of numbers is whole whatever happened to the thread that held it.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All that is our own among these processes.
    pub fn among(&self, tables: &[&Table]) -> BTreeSet<u32> {
        let mut own = self.set(|roots| roots.clone());
        // Parents may have higher numbers than their children, so until nothing is added.
        loop {
            let before = own.len();
            for process in tables.iter().flat_map(|table| table.values()) {
                if own.contains(&process.parent) {
                    own.insert(process.pid);
                }
            }
            if own.len() == before {
                return own;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::processes::tests::process;

    #[test]
    fn descendants_are_our_own_and_siblings_are_not() {
        let table: Table = [(1, 0), (10, 1), (9, 10), (5, 9), (11, 1), (12, 11)]
            .into_iter()
            .map(|(pid, parent)| (pid, process(pid, parent, "x", 0)))
            .collect();
        let own = Own::of([10]);
        assert_eq!(own.among(&[&table]), BTreeSet::from([5, 9, 10]));
        own.add(11);
        assert_eq!(own.among(&[&table]), BTreeSet::from([5, 9, 10, 11, 12]));
        own.remove(11);
        assert_eq!(own.among(&[&table]), BTreeSet::from([5, 9, 10]));
    }
}
