//! Work on all cores that this process may use, at the same moment.

use std::io;
use std::num::NonZero;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Cores this process may use: the affinity mask and the quota of the control group count.
pub(super) fn usable_cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs `passes` passes on every worker's own state, one thread each. All begin a pass together, and a pass lasts until the
/// last has ended. Gives the passes' times, the slowest thread's of each.
///
/// # Errors
/// When a thread cannot be started, as under a limit on memory or on processes; then none has worked.
pub(super) fn passes<S: Send>(
    states: &mut [S],
    passes: usize,
    work: impl Fn(&mut S) + Sync,
) -> io::Result<Vec<Duration>> {
    let barrier = Barrier::new(states.len().max(1));
    let times: Vec<Vec<(Instant, Instant)>> = thread::scope(|scope| {
        let (mut threads, mut starts) = (Vec::new(), Vec::new());
        for state in states.iter_mut() {
            let (barrier, work) = (&barrier, &work);
            let (start, started) = mpsc::channel::<()>();
            let thread = thread::Builder::new().spawn_scoped(scope, move || {
                // Without all of them nobody waits at the barrier.
                if started.recv().is_err() {
                    return Vec::new();
                }
                (0..passes)
                    .map(|_| {
                        barrier.wait();
                        let begun = Instant::now();
                        work(state);
                        (begun, Instant::now())
                    })
                    .collect()
            })?;
            threads.push(thread);
            starts.push(start);
        }
        for start in starts {
            // A thread that is not there any more has ended, and is joined below.
            let _ = start.send(());
        }
        io::Result::Ok(threads.into_iter().filter_map(|thread| thread.join().ok()).collect())
    })?;
    Ok((0..passes)
        .filter_map(|pass| {
            let of_pass = || times.iter().filter_map(move |thread| thread.get(pass));
            let begun = of_pass().map(|(begun, _)| *begun).min()?;
            let ended = of_pass().map(|(_, ended)| *ended).max()?;
            Some(ended.saturating_duration_since(begun))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_worked_on_in_every_pass_and_a_pass_lasts_as_long_as_its_slowest_thread()
    -> io::Result<()> {
        let mut states = [(0, 1_u64), (0, 30)];
        let times = passes(&mut states, 3, |(count, millis)| {
            *count += 1;
            thread::sleep(Duration::from_millis(*millis));
        })?;
        assert_eq!(states.map(|(count, _)| count), [3, 3]);
        assert_eq!(times.len(), 3);
        assert!(times.iter().all(|time| *time >= Duration::from_millis(30)), "{times:?}");
        Ok(())
    }

    #[test]
    fn nothing_to_work_on_takes_no_passes() {
        assert!(passes(&mut [] as &mut [u8], 2, |_| {}).is_ok_and(|times| times.is_empty()));
    }
}
