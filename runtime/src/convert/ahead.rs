//! Work done ahead on several threads, its results taken in order on the thread that asked.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Threads that gain something: beyond, a disk or the memory is the limit.
const MOST_THREADS: usize = 16;
/// Results that may wait to be taken, for each thread.
const AHEAD: usize = 2;

/// Threads to use on this machine.
pub(super) fn threads() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_THREADS)
}

/// Calls `make` for every task, on `threads` threads at once, and `take` with each result in the tasks' order. The first
/// error, of `make` in that order or of `take`, ends it; what is being made then is finished and dropped.
pub(super) fn in_order<T: Sync, R: Send, E: Send>(
    tasks: &[T],
    threads: usize,
    make: impl Fn(&T) -> Result<R, E> + Sync,
    mut take: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    let window = Window::default();
    let limit = threads.max(1) * AHEAD;
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..threads.clamp(1, tasks.len().max(1)) {
            let sender: Sender<(usize, Result<R, E>)> = sender.clone();
            let (window, make) = (&window, &make);
            scope.spawn(move || {
                while let Some((index, task)) =
                    window.next(limit).and_then(|index| Some((index, tasks.get(index)?)))
                {
                    if sender.send((index, make(task))).is_err() {
                        return;
                    }
                }
            });
        }
        // The threads' own senders are the only ones left: a thread that panics ends the loop below.
        drop(sender);
        let _closed = Closer(&window);
        let mut waiting = BTreeMap::new();
        let mut tasks = tasks.iter().enumerate();
        let mut next = tasks.next();
        for (index, result) in receiver {
            waiting.insert(index, result);
            while let Some((index, task)) = next
                && let Some(result) = waiting.remove(&index)
            {
                take(task, result?)?;
                window.taken();
                next = tasks.next();
            }
        }
        Ok(())
    })
}

/// How far the work has got.
#[derive(Default)]
struct Window {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    begun: usize,
    taken: usize,
    closed: bool,
}

impl Window {
    fn state(&self) -> MutexGuard<'_, State> {
        // The numbers are whole whatever a thread that panicked was doing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task, once few enough results wait; `None` when nothing more is wanted.
    fn next(&self, limit: usize) -> Option<usize> {
        let mut state = self.state();
        while !state.closed && state.begun >= state.taken + limit {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return None;
        }
        state.begun += 1;
        Some(state.begun - 1)
    }

    fn taken(&self) {
        self.state().taken += 1;
        self.moved.notify_all();
    }
}

/// Lets the threads end however the taking ends.
struct Closer<'a>(&'a Window);

impl Drop for Closer<'_> {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn taken(threads: usize, count: usize) -> Vec<usize> {
        let tasks: Vec<usize> = (0..count).collect();
        let mut taken = Vec::new();
        let make = |&task: &usize| {
            // Later tasks are done first.
            thread::sleep(Duration::from_micros(if task.is_multiple_of(3) { 300 } else { 10 }));
            Ok::<_, ()>(task * 10)
        };
        let done = in_order(&tasks, threads, make, |_, result| {
            taken.push(result);
            Ok(())
        });
        assert_eq!(done, Ok(()));
        taken
    }

    #[test]
    fn results_come_in_order_for_any_number_of_threads() {
        for threads in [1, 2, 5] {
            for count in [0, 1, 3, 50] {
                let expected: Vec<usize> = (0..count).map(|task| task * 10).collect();
                assert_eq!(taken(threads, count), expected, "{threads} threads, {count} tasks");
            }
        }
    }

    #[test]
    fn no_more_is_made_ahead_than_the_window_holds() {
        let begun = AtomicUsize::new(0);
        let tasks: Vec<usize> = (0..100).collect();
        let make = |_: &usize| {
            begun.fetch_add(1, Ordering::SeqCst);
            Ok::<_, ()>(())
        };
        let mut most = 0;
        let mut count = 0;
        let done = in_order(&tasks, 2, make, |_, ()| {
            thread::sleep(Duration::from_micros(200));
            most = most.max(begun.load(Ordering::SeqCst) - count);
            count += 1;
            Ok(())
        });
        assert_eq!(done, Ok(()));
        assert!(most <= 2 * AHEAD, "{most} results waited");
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let tasks: Vec<usize> = (0..1000).collect();
        let begun = AtomicUsize::new(0);
        let make = |&task: &usize| {
            begun.fetch_add(1, Ordering::SeqCst);
            if task == 5 || task == 6 { Err(task) } else { Ok(task) }
        };
        let mut taken = Vec::new();
        let done = in_order(&tasks, 4, make, |_, result| {
            taken.push(result);
            Ok(())
        });
        assert_eq!((done, taken), (Err(5), vec![0, 1, 2, 3, 4]));
        assert!(begun.load(Ordering::SeqCst) < 100);
        assert_eq!(in_order(&tasks, 4, |&task| Ok(task), |_, task| Err(task)), Err(0));
    }
}
