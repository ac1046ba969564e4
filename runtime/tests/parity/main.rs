//! Parity with mlx-lm: the same token ids in, the same logits out, within tolerances that are stated and explained.
//!
//! The oracle is prepared by `scripts/oracle_env.sh` and `scripts/oracle/`, once; its results lie in the project's
//! cache folder. Without Python or the network these tests fail and say why; `MLXCEL_SKIP_ORACLE=1` skips them, aloud.
//! Each test reports the worst difference it met for every checkpoint on standard error.

mod compare;
mod oracle;
mod real;
mod tiny;
mod tolerance;

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a test ends with.
type Outcome = Result<(), Box<dyn std::error::Error>>;

/// One model in memory at a time, whatever the number of test threads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn one_at_a_time() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says something that is to be read even when the test passes: written past the capture of the test runner.
fn report(line: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "parity: {line}");
}

/// Whether the person who runs the tests asked to do without the oracle.
fn skipped(test: &str) -> bool {
    let skip = std::env::var_os("MLXCEL_SKIP_ORACLE").is_some_and(|value| value == "1");
    if skip {
        report(&format!("SKIPPED {test}: MLXCEL_SKIP_ORACLE=1, nothing was compared with mlx-lm"));
    }
    skip
}
