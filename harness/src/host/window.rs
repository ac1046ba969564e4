//! What happened between two readings.
//!
//! Processor shares are percent of one core, as `ps` shows them, so 200 are two cores.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::gpu;
use super::memory::MemoryChange;
use super::own::Own;
use super::processes::{Process, Table};
use super::reading::Reading;

/// From when on somebody else counts as busy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Busiest foreign process, in percent of one core.
    pub cpu_pct: f64,
    /// Busiest foreign user of a GPU, in percent.
    pub gpu_pct: f64,
    /// A foreign copy of this project's programs, in percent of one core. Far lower: such a program works on a GPU or waits for
    /// one, and shows little of it on the processor.
    pub own_program_cpu_pct: f64,
    /// Time that the hypervisor took, in percent of one core.
    pub steal_pct: f64,
    /// Names of processes that do not count, however busy.
    pub ignored: Vec<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { cpu_pct: 15.0, gpu_pct: 15.0, own_program_cpu_pct: 1.0, steal_pct: 15.0, ignored: Vec::new() }
    }
}

/// The programs of this project.
const OWN_PROGRAMS: [&str; 3] = ["mlxcel", "mlxcel-bench", "mlxcel-server"];
/// Between the host's processor time and the sum of its processes' lie rounding errors, for every core; percent of one core.
const ROUNDING_PCT_PER_CORE: f64 = 1.0;

/// Somebody else who used the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Foreigner {
    /// What it used.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its number; `None` where it is no one process.
    pub pid: Option<u32>,
    /// How busy it was: percent of one core, or of a GPU.
    pub pct: f64,
}

/// What a foreigner used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The processor.
    Cpu,
    /// The processor, by processes that cannot be seen one by one: short-lived ones, or those outside of a container.
    UnseenCpu,
    /// The processor, taken by the hypervisor.
    Steal,
    /// A GPU.
    Gpu,
}

impl Foreigner {
    /// In words, as `cargo (process 123), 96% of a core`.
    pub fn describe(&self) -> String {
        let number = self.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
        let of = if self.kind == Kind::Gpu { "the GPU" } else { "a core" };
        format!("{}{number}, {:.0}% of {of}", self.name, self.pct)
    }

    /// Whether it was at its limit or beyond.
    fn is_busy(&self, limits: &Limits) -> bool {
        let limit = self.general_limit(limits);
        let limit = if self.kind == Kind::Cpu && OWN_PROGRAMS.contains(&self.name.as_str()) {
            limits.own_program_cpu_pct.min(limit)
        } else {
            limit
        };
        self.pct >= limit
    }

    /// How much it was in the way: whoever was busy before all who were not, and then by the share of its limit. That one of our
    /// own programs has a lower limit makes it busy sooner, not more.
    pub(super) fn weight(&self, limits: &Limits) -> (bool, f64) {
        let limit = self.general_limit(limits);
        (self.is_busy(limits), if limit > 0.0 { self.pct / limit } else { f64::INFINITY })
    }

    fn general_limit(&self, limits: &Limits) -> f64 {
        match self.kind {
            Kind::Cpu | Kind::UnseenCpu => limits.cpu_pct,
            Kind::Steal => limits.steal_pct,
            Kind::Gpu => limits.gpu_pct,
        }
    }
}

/// What happened between two readings.
#[derive(Clone, Debug)]
pub struct Window {
    /// When the first was taken.
    pub from: Instant,
    /// When the second was taken.
    pub to: Instant,
    /// Whether the processes could be read; without, nothing is known of others.
    pub readable: bool,
    /// Whoever was most in the way; `None` when nobody else did anything.
    pub foreigner: Option<Foreigner>,
    /// Whether it was at its limit or beyond.
    pub busy: bool,
    /// Memory.
    pub memory: MemoryChange,
}

impl Window {
    /// Between two readings.
    pub fn between(before: &Reading, after: &Reading, own: &Own, limits: &Limits) -> Self {
        let elapsed = after.at.saturating_duration_since(before.at);
        let foreigner = match (&before.processes, &after.processes) {
            (Some(one), Some(other)) if !elapsed.is_zero() => {
                let found = foreigners(before, after, [one, other], elapsed, own);
                found
                    .into_iter()
                    .filter(|foreigner| foreigner.pct > 0.0 && !limits.ignored.contains(&foreigner.name))
                    .max_by(|one, other| {
                        let (one, other) = (one.weight(limits), other.weight(limits));
                        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
                    })
            }
            _ => None,
        };
        Self {
            from: before.at,
            to: after.at,
            readable: before.processes.is_some() && after.processes.is_some(),
            busy: foreigner.as_ref().is_some_and(|foreigner| foreigner.is_busy(limits)),
            foreigner,
            memory: before.memory.until(&after.memory, elapsed),
        }
    }
}

fn foreigners(
    before: &Reading,
    after: &Reading,
    [one, other]: [&Table; 2],
    elapsed: Duration,
    own: &Own,
) -> Vec<Foreigner> {
    let own = own.among(&[one, other]);
    let pct = |time: Duration| 100.0 * time.as_secs_f64() / elapsed.as_secs_f64();
    let mut found = Vec::new();
    let mut accounted = Duration::ZERO;
    let brought = brought_by_the_ended(one, other);
    // What one of ours had started, and that ended after it, may have brought its time to a process that is not ours.
    let orphans = one.values().any(|process| {
        own.contains(&process.pid)
            && !other.contains_key(&process.pid)
            && !other.contains_key(&process.parent)
    });
    for process in other.values() {
        let used = used(process, one, &brought);
        accounted = accounted.saturating_add(used.alone).saturating_add(used.by_children);
        if !own.contains(&process.pid) {
            let time = used.alone.saturating_add(if orphans { Duration::ZERO } else { used.by_children });
            let (name, pid) = (process.name.clone(), Some(process.pid));
            found.push(Foreigner { kind: Kind::Cpu, name, pid, pct: pct(time) });
        }
    }
    if let Some((first, second)) = before.host_cpu.zip(after.host_cpu) {
        let busy = second.busy.saturating_sub(first.busy);
        let unseen = pct(busy.saturating_sub(accounted)) - ROUNDING_PCT_PER_CORE * f64::from(second.cores);
        if !orphans && unseen > 0.0 {
            let name = "short-lived or invisible processes".to_owned();
            found.push(Foreigner { kind: Kind::UnseenCpu, name, pid: None, pct: unseen });
        }
        let steal = pct(second.steal.saturating_sub(first.steal));
        found.push(Foreigner { kind: Kind::Steal, name: "the hypervisor".to_owned(), pid: None, pct: steal });
    }
    if let Some(gpu) = &after.gpu {
        let worker_runs = worker_runs(&own, other);
        found.extend(gpu::busiest_foreigner(before.gpu.as_ref(), gpu, elapsed, &own, worker_runs, other));
    }
    found
}

/// Whether there is an own process beside this one.
fn worker_runs(own: &BTreeSet<u32>, table: &Table) -> bool {
    own.iter().any(|pid| *pid != std::process::id() && table.contains_key(pid))
}

/// Processor time between two tables.
struct Used {
    /// Of the process itself.
    alone: Duration,
    /// Of its children that ended.
    by_children: Duration,
}

fn used(process: &Process, one: &Table, brought: &BTreeMap<u32, Duration>) -> Used {
    let Some(earlier) = one.get(&process.pid).filter(|earlier| earlier.is(process)) else {
        // It was started since, so all it has used was used since.
        return Used { alone: process.cpu, by_children: process.children_cpu };
    };
    let known = brought.get(&process.pid).copied().unwrap_or_default();
    Used {
        alone: process.cpu.saturating_sub(earlier.cpu),
        by_children: process.children_cpu.saturating_sub(earlier.children_cpu).saturating_sub(known),
    }
}

/// What ended processes had used before the first table: by waiting for them their parents got that too, and what ended with
/// its parent went on to the next that lives.
fn brought_by_the_ended(one: &Table, other: &Table) -> BTreeMap<u32, Duration> {
    let lives = |process: &Process| other.get(&process.pid).is_some_and(|later| later.is(process));
    let mut brought: BTreeMap<u32, Duration> = BTreeMap::new();
    for ended in one.values().filter(|process| !lives(process)) {
        let mut heir = one.get(&ended.parent);
        // No chain of parents is longer than the table.
        for _ in 0..one.len() {
            match heir {
                Some(process) if !lives(process) => heir = one.get(&process.parent),
                _ => break,
            }
        }
        if let Some(heir) = heir {
            let sum = brought.entry(heir.pid).or_default();
            *sum = sum.saturating_add(ended.cpu).saturating_add(ended.children_cpu);
        }
    }
    brought
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::processes::linux::HostCpu;
    use crate::host::processes::tests::{millis, process, table};

    const WORKER: u32 = 50;

    /// A second, in which the processes used what they are listed with.
    fn second(before: Table, after: Table, limits: &Limits) -> Window {
        let begun = Instant::now();
        Window::between(
            &Reading::of_processes(begun, before),
            &Reading::of_processes(begun + millis(1000), after),
            &Own::of([WORKER]),
            limits,
        )
    }

    fn seen(window: &Window) -> Option<(String, Option<u32>, u32)> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small percentages")]
        window.foreigner.as_ref().map(|who| (who.name.clone(), who.pid, who.pct.round() as u32))
    }

    #[test]
    fn the_busiest_foreigner_is_named_and_our_own_are_not() {
        let before = table(&[
            (1, 0, "init", 5),
            (WORKER, 1, "mlxcel-bench", 100),
            (60, 1, "make", 10),
            (70, 1, "cat", 0),
        ]);
        let after = table(&[
            (1, 0, "init", 5),
            (WORKER, 1, "mlxcel-bench", 1100),
            (60, 1, "make", 310),
            (70, 1, "cat", 90),
        ]);
        let window = second(before, after, &Limits::default());
        assert_eq!(seen(&window), Some(("make".to_owned(), Some(60), 30)));
        assert!(window.busy && window.readable);
    }

    #[test]
    fn just_under_the_limit_is_not_busy_and_the_limit_is() {
        for (used, busy) in [(149, false), (150, true)] {
            let window = second(
                table(&[(1, 0, "init", 0), (60, 1, "make", 0)]),
                table(&[(1, 0, "init", 0), (60, 1, "make", used)]),
                &Limits::default(),
            );
            assert_eq!(window.busy, busy, "{used}");
        }
    }

    #[test]
    fn other_copies_of_our_programs_are_foreign_and_busy_from_one_percent_on() {
        for (name, pid, used, busy) in [
            ("mlxcel-bench", 60, 20, true),
            ("mlxcel", 60, 10, true),
            ("mlxcel-bench", 60, 5, false),
            ("make", 60, 20, false),
            ("mlxcel-bench", WORKER, 900, false),
        ] {
            let window = second(
                table(&[(1, 0, "init", 0), (pid, 1, name, 0)]),
                table(&[(1, 0, "init", 0), (pid, 1, name, used)]),
                &Limits::default(),
            );
            assert_eq!(window.busy, busy, "{name} {pid} {used}");
        }
    }

    #[test]
    fn whoever_did_most_is_named_among_the_busy_and_a_busy_one_before_all_others() {
        let of = |make: u64, ours: u64| {
            let names = |make, ours| {
                table(&[(1, 0, "init", 0), (60, 1, "make", make), (61, 1, "mlxcel-bench", ours)])
            };
            seen(&second(names(0, 0), names(make, ours), &Limits::default())).map(|seen| seen.0)
        };
        assert_eq!(of(900, 60).as_deref(), Some("make"));
        assert_eq!(of(100, 60).as_deref(), Some("mlxcel-bench"));
        assert_eq!(of(200, 300).as_deref(), Some("mlxcel-bench"));
    }

    #[test]
    fn a_process_whose_number_was_given_anew_has_not_used_less_than_nothing() {
        let mut again = process(60, 1, "make", 40);
        again.started = "2".to_owned();
        let window =
            second(table(&[(60, 1, "old", 90_000)]), [(60, again)].into_iter().collect(), &Limits::default());
        assert_eq!(seen(&window), Some(("make".to_owned(), Some(60), 4)));
    }

    #[test]
    fn short_lived_children_count_for_the_parent_that_waited_for_them() {
        let mut make = process(60, 1, "make", 10);
        // Of 1,500 ms that its children brought, 600 had been used before: 500 by a child, 100 by a grandchild.
        make.children_cpu = millis(1500);
        let window = second(
            table(&[(60, 1, "make", 10), (61, 60, "sh", 500), (62, 61, "cc1", 100)]),
            [(60, make)].into_iter().collect(),
            &Limits::default(),
        );
        assert_eq!(seen(&window), Some(("make".to_owned(), Some(60), 90)));
    }

    #[test]
    fn what_no_process_accounts_for_is_somebody_unseen() {
        let begun = Instant::now();
        let reading = |at: Instant, own: u64, busy: u64, steal: u64| Reading {
            host_cpu: Some(HostCpu { busy: millis(busy), steal: millis(steal), cores: 2 }),
            ..Reading::of_processes(at, table(&[(WORKER, 1, "mlxcel-bench", own)]))
        };
        let after = begun + millis(1000);
        let between = |busy, steal| {
            let own = Own::of([WORKER]);
            let before = reading(begun, 0, 0, 0);
            Window::between(&before, &reading(after, 1000, busy, steal), &own, &Limits::default())
        };
        // Rounding errors of two cores are forgiven.
        assert!(between(1015, 0).foreigner.is_none());
        let window = between(1520, 0);
        assert_eq!(seen(&window).map(|seen| (seen.1, seen.2)), Some((None, 50)));
        assert_eq!(window.foreigner.map(|who| who.kind), Some(Kind::UnseenCpu));
        let window = between(1000, 400);
        assert_eq!(window.foreigner.as_ref().map(|who| who.kind), Some(Kind::Steal));
        assert!(window.busy);
    }

    #[test]
    fn what_outlived_our_worker_is_not_held_against_whoever_buried_it() {
        let mut init = process(1, 0, "init", 0);
        let before =
            || table(&[(1, 0, "init", 0), (WORKER, 7, "mlxcel-bench", 100), (51, WORKER, "sh", 90_000)]);
        init.children_cpu = millis(90_000);
        let after: Table = [(1, init.clone())].into_iter().collect();
        assert_eq!(seen(&second(before(), after, &Limits::default())), None);
        // Where nothing of ours was left alone, whoever buried much had much.
        let before = table(&[(1, 0, "init", 0), (WORKER, 1, "mlxcel-bench", 100)]);
        let after: Table =
            [(1, init), (WORKER, process(WORKER, 1, "mlxcel-bench", 100))].into_iter().collect();
        let window = second(before, after, &Limits::default());
        assert_eq!(seen(&window).map(|seen| seen.0), Some("init".to_owned()));
    }

    #[test]
    fn ignored_names_do_not_count() {
        let limits = Limits { ignored: vec!["make".to_owned()], ..Limits::default() };
        let window = second(
            table(&[(60, 1, "make", 0), (61, 1, "cat", 0)]),
            table(&[(60, 1, "make", 900), (61, 1, "cat", 20)]),
            &limits,
        );
        assert_eq!((seen(&window), window.busy), (Some(("cat".to_owned(), Some(61), 2)), false));
    }
}
