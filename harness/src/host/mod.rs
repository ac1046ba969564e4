//! The host while something is measured on it: is it quiet, what else ran, how warm is it, how fast can it be.
//!
//! What others need of it:
//! - [`Watch::start`] samples in the background; [`Watch::between`] says what happened in an interval: the share of it in
//!   which somebody else was busy, and the busiest of them by name and process id. The own processes are this one and its
//!   descendants, and whatever [`Own::add`] adds; every other copy of this project's programs is foreign.
//! - [`quiet::wait_on_this_host`] is the gate: it waits until nobody else has been busy for a while, and hands back
//!   [`QuietOutcome`], how that ended and what was waited.
//! - [`thermal::ThermalLog`] keeps temperature, clocks, throttling and power as [`thermal::Thermal`] readings: start, worst,
//!   end. The watch has one, see [`Watch::thermal_between`].
//! - [`llc::last_level_cache`], [`stream::measure`] and [`gemm::measure`] say how large the last-level cache is, how fast this
//!   host's processor reads memory and how fast it multiplies matrices; [`device_stream`] is how fast a GPU reaches its own.
//! - [`doctor`] measures the noise of a host; [`doctor::stored`] is what it found, with the noise floor of single rows
//!   ([`doctor::Diagnosis::noise_floor_pct`]).
//! - [`cooldown::wait`] waits until a short control kernel is as fast as it was at first.
//! - [`pause`] suspends other programs while a command runs; [`pause::of_this_process`] is the record of it, for the
//!   provenance.
//!
//! Everything works on Linux and macOS without more rights than the user has. What cannot be read is `None`, never 0. What
//! a reading means is decided by pure functions over parsed text ([`window`], [`interval`], [`processes`], [`memory`], [`gpu`], [`thermal`]),
//! so that tests feed recorded data. What a row makes of it is left to `sweep`.

pub mod cooldown;
pub mod device_stream;
pub mod doctor;
pub mod gemm;
pub mod gpu;
pub mod interval;
pub mod llc;
pub mod memory;
pub mod own;
pub mod pause;
pub mod processes;
pub mod quiet;
pub mod reading;
pub mod stream;
mod system;
pub mod thermal;
mod threads;
pub mod watch;
pub mod window;

pub use interval::Interval;
pub use own::Own;
pub use quiet::{GateSettings, QuietOutcome, QuietState};
pub use reading::{HostReader, Reader, Reading};
pub use watch::{Watch, WatchSettings};
pub use window::{Foreigner, Kind, Limits, Window};
