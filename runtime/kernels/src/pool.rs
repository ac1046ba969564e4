//! One pool of threads for all kernels, as many as there are cores this process may use.
//!
//! A job is a number of pieces. Whoever is free takes the next piece, the caller included, so that a thread that the
//! system has set aside delays its own piece only. Which thread computes a piece never shows in the result: a piece
//! writes its own part of the output, in an order of operations of its own.
//!
//! Between jobs a worker watches for the next one for some microseconds, since the products of a decode step follow
//! each other closely, and sleeps after that.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

/// Rounds that a worker watches for the next job before it sleeps: some 50 µs.
const WATCHING_ROUNDS: u32 = 4_000;
/// Rounds that a caller waits for workers before it sleeps: some 10 µs.
const ROUNDS_BEFORE_SLEEPING: u32 = 500;
/// Rounds between two offers of the core to other threads.
const ROUNDS_BEFORE_YIELDING: u32 = 64;

/// A pool of threads.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    /// Held by the job that runs: another caller computes its own pieces alone meanwhile.
    busy: AtomicBool,
    workers: usize,
}

#[derive(Debug)]
struct Shared {
    /// Counts the jobs; a worker that sees it change takes part in the job in `job`.
    epoch: AtomicU64,
    job: Mutex<Option<Job>>,
    wake: Condvar,
    sleeping: AtomicUsize,
    closing: AtomicBool,
}

/// What workers know of a job.
#[derive(Debug, Clone)]
struct Job {
    progress: Arc<Progress>,
    body: Body,
    pieces: usize,
}

#[derive(Debug)]
struct Progress {
    next: AtomicUsize,
    /// Workers that are within the job's body or about to enter it.
    inside: AtomicUsize,
    failed: AtomicBool,
    caller: Thread,
    /// Whether the caller sleeps until `inside` is zero.
    asleep: AtomicBool,
}

impl Progress {
    fn new() -> Self {
        Self {
            next: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            caller: thread::current(),
            asleep: AtomicBool::new(false),
        }
    }

    /// Returns when no worker is inside. A worker that is still at work is soon done, unless the system has set it aside
    /// for another thread: then sleeping leaves it this core.
    fn wait_for_workers(&self) {
        let mut rounds = 0;
        while self.inside.load(Ordering::SeqCst) > 0 {
            if rounds < ROUNDS_BEFORE_SLEEPING {
                rounds += 1;
                std::hint::spin_loop();
            } else {
                // As an exchange: emulators of Arm were seen to let the load below overtake a plain store, after which nobody
                // would wake this thread. It costs nothing more.
                self.asleep.swap(true, Ordering::SeqCst);
                while self.inside.load(Ordering::SeqCst) > 0 {
                    thread::park();
                }
            }
        }
    }

    fn leave(&self) {
        if self.inside.fetch_sub(1, Ordering::SeqCst) == 1 && self.asleep.load(Ordering::SeqCst) {
            self.caller.unpark();
        }
    }
}

/// The caller's closure, whose lifetime `Pool::run` guards: it does not return while a worker is inside.
#[derive(Clone, Copy, Debug)]
struct Body(*const (dyn Fn(usize) + Sync));

// SAFETY: the closure is `Sync`, and `Pool::run` outlives every use of the pointer.
unsafe impl Send for Body {}

impl Pool {
    /// The pool of this process: a thread for each core that it may use, of which the caller is one.
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Pool> = OnceLock::new();
        GLOBAL.get_or_init(|| Self::new(usable_cores()))
    }

    /// A pool in which `threads` compute, the caller of [`run`](Self::run) being one. Threads that the system refuses
    /// to start are done without.
    pub fn new(threads: NonZeroUsize) -> Self {
        let shared = Arc::new(Shared {
            epoch: AtomicU64::new(0),
            job: Mutex::new(None),
            wake: Condvar::new(),
            sleeping: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
        });
        let started = (1..threads.get())
            .filter(|index| {
                let shared = Arc::clone(&shared);
                thread::Builder::new().name(format!("kernel-{index}")).spawn(move || shared.work()).is_ok()
            })
            .count();
        Self { shared, busy: AtomicBool::new(false), workers: started }
    }

    /// How many threads compute.
    pub fn threads(&self) -> usize {
        self.workers + 1
    }

    /// Calls `body` once with each number below `pieces`, on this thread and the pool's, and returns when all are done.
    ///
    /// # Panics
    /// Where a piece does.
    pub fn run(&self, pieces: usize, body: &(dyn Fn(usize) + Sync)) {
        if pieces <= 1 || self.workers == 0 || self.busy.swap(true, Ordering::Acquire) {
            (0..pieces).for_each(body);
            return;
        }
        let progress = Arc::new(Progress::new());
        // SAFETY: only the lifetime changes. A worker enters the body while the job stands in `job`, under its lock,
        // and counts itself into `inside` there; below, the job is taken out under the same lock, and then `inside` is
        // waited for. So no worker uses the pointer after this function returns.
        let body_pointer = Body(unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(body)
        });
        *lock(&self.shared.job) = Some(Job { progress: Arc::clone(&progress), body: body_pointer, pieces });
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        if self.shared.sleeping.load(Ordering::SeqCst) > 0 {
            // Under the lock, so that a worker between its last look and its sleep does not miss it.
            drop(lock(&self.shared.job));
            self.shared.wake.notify_all();
        }
        let own = catch_unwind(AssertUnwindSafe(|| take_pieces(&progress, pieces, body)));
        if own.is_err() {
            progress.next.store(pieces, Ordering::Relaxed);
        }
        *lock(&self.shared.job) = None;
        progress.wait_for_workers();
        self.busy.store(false, Ordering::Release);
        match own {
            Err(panic) => resume_unwind(panic),
            Ok(()) => assert!(!progress.failed.load(Ordering::Acquire), "a piece of a kernel panicked"),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        drop(lock(&self.shared.job));
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        let mut seen = 0;
        loop {
            let epoch = self.wait_past(seen);
            if self.closing.load(Ordering::SeqCst) {
                return;
            }
            seen = epoch;
            let job = {
                let job = lock(&self.job);
                if let Some(job) = &*job {
                    job.progress.inside.fetch_add(1, Ordering::SeqCst);
                }
                job.clone()
            };
            if let Some(job) = job {
                job.carry_out();
            }
        }
    }

    /// The epoch, once it is not `seen` or the pool closes.
    fn wait_past(&self, seen: u64) -> u64 {
        let moved_on = || {
            let epoch = self.epoch.load(Ordering::SeqCst);
            (epoch != seen || self.closing.load(Ordering::Relaxed)).then_some(epoch)
        };
        let mut rounds = 0;
        while rounds < WATCHING_ROUNDS {
            if let Some(epoch) = moved_on() {
                return epoch;
            }
            wait_a_little(&mut rounds);
        }
        let mut job = lock(&self.job);
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        let epoch = loop {
            if let Some(epoch) = moved_on() {
                break epoch;
            }
            job = self.wake.wait(job).unwrap_or_else(PoisonError::into_inner);
        };
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        epoch
    }
}

impl Job {
    fn carry_out(&self) {
        // SAFETY: this thread is counted in `inside`, which `Pool::run` waits for before the closure goes.
        let body = unsafe { &*self.body.0 };
        if catch_unwind(AssertUnwindSafe(|| take_pieces(&self.progress, self.pieces, body))).is_err() {
            self.progress.failed.store(true, Ordering::Release);
            self.progress.next.store(self.pieces, Ordering::Relaxed);
        }
        self.progress.leave();
    }
}

fn take_pieces(progress: &Progress, pieces: usize, body: &(dyn Fn(usize) + Sync)) {
    loop {
        let piece = progress.next.fetch_add(1, Ordering::Relaxed);
        if piece >= pieces {
            return;
        }
        body(piece);
    }
}

fn wait_a_little(rounds: &mut u32) {
    *rounds = rounds.saturating_add(1);
    if rounds.is_multiple_of(ROUNDS_BEFORE_YIELDING) {
        thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

fn lock(job: &Mutex<Option<Job>>) -> MutexGuard<'_, Option<Job>> {
    // Nothing panics while it is held.
    job.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cores that this process may use: its affinity and its control group's quota are heeded by the standard library.
fn usable_cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).expect("OK because the tests ask for at least one")
    }

    #[test]
    fn every_piece_is_computed_exactly_once() {
        for count in [1, 2, 5] {
            let pool = Pool::new(threads(count));
            for pieces in [0, 1, 2, 7, 1_000] {
                let calls: Vec<AtomicU32> = (0..pieces).map(|_| AtomicU32::new(0)).collect();
                pool.run(pieces, &|piece| {
                    calls[piece].fetch_add(1, Ordering::Relaxed);
                });
                assert!(calls.iter().all(|calls| calls.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn many_jobs_from_many_callers_all_end() {
        let pool = Pool::new(threads(3));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let sum = AtomicUsize::new(0);
                        pool.run(9, &|piece| {
                            sum.fetch_add(piece, Ordering::Relaxed);
                        });
                        assert_eq!(sum.into_inner(), 36);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_in_a_piece_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::new(threads(2));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.run(100, &|piece| assert!(piece != 50, "piece 50"));
        }));
        assert!(outcome.is_err());
        let sum = AtomicUsize::new(0);
        pool.run(4, &|piece| {
            sum.fetch_add(piece, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 6);
    }

    #[test]
    fn a_job_inside_a_job_is_computed_by_its_caller() {
        let pool = Pool::new(threads(2));
        let sum = AtomicUsize::new(0);
        pool.run(3, &|_| {
            pool.run(3, &|piece| {
                sum.fetch_add(piece, Ordering::Relaxed);
            });
        });
        assert_eq!(sum.into_inner(), 9);
    }
}
