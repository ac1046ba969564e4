//! Threads that keep a worker's pipes empty: its events into a channel, the end of its stderr into memory.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::protocol::Event;

/// No event is longer: a million token times fit.
const LONGEST_LINE: u64 = 64 << 20;
/// How much of the stderr of a worker is kept.
const STDERR_KEPT: usize = 64 << 10;
/// How long the end of a dead worker's stderr may take to arrive.
const PATIENCE: Duration = Duration::from_secs(2);

/// What came out of a worker's stdout.
#[derive(Debug)]
pub(super) enum Incoming {
    /// An event.
    Event(Event),
    /// A line that is none, with the reason.
    Garbage(String),
}

/// Starts reading events. The channel closes with the pipe.
pub(super) fn read_events(stdout: impl Read + Send + 'static) -> std::io::Result<Receiver<Incoming>> {
    let (sender, receiver) = sync_channel(64);
    thread::Builder::new()
        .name("worker-stdout".to_owned())
        .spawn(move || pump(BufReader::new(stdout), &sender))?;
    Ok(receiver)
}

fn pump(mut stdout: impl BufRead, sender: &SyncSender<Incoming>) {
    loop {
        let mut line = Vec::new();
        let incoming = match (&mut stdout).take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => match serde_json::from_slice::<Event>(&line) {
                Ok(event) => Incoming::Event(event),
                // The worker ended within a line: how it ended says more than the piece of a line.
                Err(_) if line.last() != Some(&b'\n') && (line.len() as u64) < LONGEST_LINE => return,
                Err(error) => {
                    let text = String::from_utf8_lossy(&line);
                    let start: String = text.trim().chars().take(120).collect();
                    Incoming::Garbage(format!("{start:?} ({error})"))
                }
            },
        };
        let last = matches!(incoming, Incoming::Garbage(_));
        if sender.send(incoming).is_err() || last {
            return;
        }
    }
}

/// The end of a worker's stderr.
#[derive(Debug)]
pub(super) struct StderrTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinHandle<()>,
}

impl StderrTail {
    /// Starts reading.
    pub(super) fn read(mut stderr: impl Read + Send + 'static) -> std::io::Result<Self> {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let shared = Arc::clone(&kept);
        let reader = thread::Builder::new().name("worker-stderr".to_owned()).spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(buffer.iter().take(count));
                let excess = kept.len().saturating_sub(STDERR_KEPT);
                kept.drain(..excess);
            }
        })?;
        Ok(Self { kept, reader })
    }

    /// What was written last. To be called once the worker has ended, and with it the pipe.
    pub(super) fn finish(&self) -> String {
        // A process that left the worker's group may hold the pipe open for ever, so not without end.
        let begun = Instant::now();
        while !self.reader.is_finished() && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_until_the_first_line_that_is_none() -> std::io::Result<()> {
        let events = read_events(&b"{\"event\":\"done\"}\nLoading...\n{\"event\":\"done\"}\n"[..])?;
        let all: Vec<_> = events.iter().collect();
        assert!(
            matches!(all.as_slice(), [Incoming::Event(Event::Done), Incoming::Garbage(text)] if text.contains("Loading")),
            "{all:?}"
        );
        Ok(())
    }

    #[test]
    fn the_end_of_a_long_stderr_is_kept() -> std::io::Result<()> {
        let mut text = vec![b'a'; 1 << 20];
        text.extend_from_slice(b"the reason");
        let kept = StderrTail::read(std::io::Cursor::new(text))?.finish();
        assert!(kept.ends_with("the reason") && kept.len() == STDERR_KEPT);
        Ok(())
    }
}
