//! The host around each row: the quiet gate before the first, the watch while rows are measured, and what both make of a row.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mlxcel_reports::row::{Backend, HostState, QuietGate};
use serde_json::{Value, json};

use super::rows::Surrounding;
use crate::cli::QuietGateArgs;
use crate::host::device_stream::{DeviceStream, LARGEST_CACHE_BYTES};
use crate::host::doctor::stored;
use crate::host::thermal::{Thermal, ThermalReading};
use crate::host::{
    GateSettings, Limits, Own, QuietOutcome, QuietState, Watch, WatchSettings, llc, pause, quiet, stream,
};
use crate::text::{complain, duration};

/// How long a measured stream bandwidth stands for the host.
const STREAM_AGE: Duration = Duration::from_hours(1);
/// Passes over memory that are counted.
const STREAM_PASSES: usize = 5;

/// The variable of the older scripts that turns the gate off when it is 0.
const WAIT: &str = "WAIT_FOR_QUIET";
/// The variable that turns the watch off when it is 0.
const WATCH: &str = "BENCH_WATCH";

/// What is known of the host while a sweep runs.
#[derive(Debug)]
pub(super) struct HostWatch {
    gate: QuietOutcome,
    watch: Option<Watch>,
    /// What streams, and what it was seen to do.
    stream: Option<(Streaming, RefCell<Stream>)>,
    last_level_cache_bytes: Option<u64>,
    noise_floor_pct: Option<f64>,
}

/// Whose way to memory bounds what is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streaming {
    /// The processor's.
    Processor,
    /// That of the device on which MLX computes.
    Device,
}

/// The stream bandwidth, since when it stands, and how it was measured each time.
#[derive(Debug, Default)]
struct Stream {
    at: Option<Instant>,
    bytes_s: Option<f64>,
    measured: Vec<Value>,
}

/// How the host is looked at.
#[derive(Debug)]
pub(super) struct Looking {
    pub(super) gate: GateSettings,
    /// From when on somebody else counts as busy while rows are measured; `None` where nobody looks. The figures are the
    /// methodology's: a gate that lets more pass is no reason to see less afterwards.
    pub(super) watch: Option<Limits>,
    /// Whose bandwidth bounds what is measured; `None` where it is not asked for.
    pub(super) stream: Option<Streaming>,
}

impl Looking {
    /// By flags and variables. A worker that is not this program measures nothing, and a first look at the default models is
    /// not to begin with a minute and a half of waiting: in both, nothing is waited for unless that is asked for.
    pub(super) fn new(
        arguments: &QuietGateArgs,
        backend: Backend,
        (foreign, first_look): (bool, bool),
    ) -> Self {
        let off = |name: &str| std::env::var_os(name).is_some_and(|value| value == "0");
        let asked = !foreign || arguments.quiet_hold.is_some();
        let waits = asked && (!first_look || arguments.quiet_hold.is_some());
        let usual = GateSettings::default();
        let limits = Limits {
            cpu_pct: arguments.quiet_limit.unwrap_or(usual.limits.cpu_pct),
            ignored: arguments.quiet_ignore.clone(),
            ..usual.limits
        };
        let hold = arguments.quiet_hold.unwrap_or(usual.hold);
        let watch =
            Limits { cpu_pct: arguments.watch_limit.unwrap_or(usual.limits.cpu_pct), ..limits.clone() };
        let gate = GateSettings {
            enabled: waits && !arguments.no_quiet_gate && !off(WAIT),
            limits,
            hold,
            limit: arguments
                .quiet_timeout
                .map_or(usual.limit, |limit| Some(limit).filter(|limit| !limit.is_zero())),
            every: usual.every.min(hold.max(Duration::from_millis(500))),
        };
        Self {
            gate,
            watch: (asked && !arguments.no_watch && !off(WATCH)).then_some(watch),
            stream: match backend {
                Backend::Cpu if foreign => None,
                Backend::Cpu => Some(Streaming::Processor),
                Backend::Cuda | Backend::Metal => Some(Streaming::Device),
            },
        }
    }
}

impl HostWatch {
    /// Waits for a quiet host and begins to watch it; `None` when the sweep was interrupted meanwhile.
    ///
    /// # Errors
    /// When the watch cannot be started.
    pub(super) fn begin(
        looking: &Looking,
        chip: Option<&str>,
        noise_floor_pct: Option<f64>,
        interrupted: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<Self>> {
        let own = Own::this_process();
        if looking.gate.enabled {
            complain(&format!(
                "waiting until nobody else has been busy for {}{}; --no-quiet-gate begins at once, and every row says so",
                duration(looking.gate.hold),
                looking.gate.limit.map_or_else(String::new, |limit| format!(", {} at most", duration(limit)))
            ));
        }
        let Ok(gate) = quiet::wait_on_this_host(&own, &looking.gate, interrupted, &mut |line| complain(line))
        else {
            return Ok(None);
        };
        if gate.state == QuietState::TimedOut {
            complain("the host did not become quiet in time; measuring all the same, and every row says so");
        }
        let watch = match &looking.watch {
            Some(limits) => {
                Some(Watch::start(WatchSettings { limits: limits.clone(), own, ..WatchSettings::default() })?)
            }
            None => None,
        };
        Ok(Some(Self {
            gate,
            watch,
            stream: looking.stream.map(|streaming| (streaming, RefCell::default())),
            last_level_cache_bytes: llc::last_level_cache(chip)?.map(|cache| cache.bytes),
            noise_floor_pct,
        }))
    }

    /// To be called before a row is measured: renews what has become old. `device` measures the bandwidth of the device, where
    /// that is what counts.
    pub(super) fn before_row(&self, device: &dyn Fn() -> Result<DeviceStream, String>) {
        if let Some(watch) = &self.watch {
            watch.read_thermal();
        }
        let Some((streaming, stream)) = &self.stream else { return };
        if stream.borrow().at.is_some_and(|at| at.elapsed() < STREAM_AGE) {
            return;
        }
        let found = measured_stream(*streaming, device);
        let mut stream = stream.borrow_mut();
        stream.at = Some(Instant::now());
        stream.bytes_s = None;
        match found {
            Ok((bytes_s, found)) => {
                stream.bytes_s = bytes_s;
                stream.measured.push(found);
            }
            Err(error) => complain(&format!(
                "note: the stream bandwidth is not known, so nothing is held against it: {error}"
            )),
        }
    }

    /// To be called before a row is taken for faster than memory: somebody may have been busy when the stream bandwidth was
    /// measured. Measures it once more, of which the larger figure stands; hands that back.
    pub(super) fn stream_again(&self, device: &dyn Fn() -> Result<DeviceStream, String>) -> Option<f64> {
        let (streaming, stream) = self.stream.as_ref()?;
        let found = measured_stream(*streaming, device);
        let mut stream = stream.borrow_mut();
        match found {
            Ok((bytes_s, mut found)) => {
                found["why"] = json!("a row seemed implausible");
                stream.measured.push(found);
                if bytes_s > stream.bytes_s {
                    stream.at = Some(Instant::now());
                    stream.bytes_s = bytes_s;
                }
            }
            Err(error) => complain(&format!(
                "note: the stream bandwidth could not be measured again, and the first figure stands: {error}"
            )),
        }
        stream.bytes_s
    }

    /// What was around a measurement from one moment to another.
    pub(super) fn around(&self, measured: Option<(Instant, Instant)>, waited: Duration) -> Surrounding {
        let mut host_state = HostState {
            quiet_gate: Some(match self.gate.state {
                QuietState::Quiet => QuietGate::Quiet,
                QuietState::TimedOut => QuietGate::TimedOut,
                QuietState::Disabled => QuietGate::Disabled,
            }),
            quiet_wait_nanos: Duration::try_from_secs_f64(self.gate.waited_seconds)
                .ok()
                .and_then(|waited| u64::try_from(waited.as_nanos()).ok()),
            noise_floor_pct: self.noise_floor_pct,
            ..HostState::default()
        };
        let mut contended = None;
        if let (Some(watch), Some((from, to))) = (&self.watch, measured) {
            watch.read_thermal();
            let interval = watch.between(from, to);
            host_state.contended_pct = interval.contended_fraction.map(|fraction| fraction * 100.0);
            host_state.swap_growth_bytes =
                interval.swap_growth_bytes.map(|growth| u64::try_from(growth).unwrap_or(0));
            contended =
                interval.is_contended(HostState::MOST_CONTENDED_PCT / 100.0).then(|| interval.describe());
            if let Some(thermal) = watch.thermal_between(from, to) {
                of_thermal(&thermal, &mut host_state);
            }
        }
        Surrounding {
            waited: Some(waited),
            remark: None,
            quiet_limit_pct: (self.gate.state != QuietState::Disabled)
                .then_some(self.gate.settings.limits.cpu_pct),
            host_state,
            stream_bytes_s: self.stream.as_ref().and_then(|(_, stream)| stream.borrow().bytes_s),
            last_level_cache_bytes: match &self.stream {
                Some((Streaming::Device, _)) => Some(LARGEST_CACHE_BYTES),
                _ => self.last_level_cache_bytes,
            },
            contended,
        }
    }

    /// What the gate saw and what is suspended, for the provenance.
    pub(super) fn at_begin(&self) -> Value {
        let suspended = pause::of_this_process().ok().flatten();
        json!({ "quiet_gate": self.gate, "suspended": suspended, "last_level_cache_bytes": self.last_level_cache_bytes })
    }

    /// What became known on the way, for the provenance: what the watch saw, each measurement of the stream bandwidth, and what
    /// is suspended by now.
    pub(super) fn at_end(&self) -> Vec<(&'static str, Value)> {
        let mut known = Vec::new();
        if let Some(watch) = &self.watch {
            known.push(("watch", json!(watch.record())));
        }
        if let Some((_, stream)) = &self.stream
            && !stream.borrow().measured.is_empty()
        {
            known.push(("stream", json!(stream.borrow().measured)));
        }
        if let Some(suspended) = pause::of_this_process().ok().flatten() {
            known.push(("suspended_at_end", json!(suspended)));
        }
        known
    }
}

/// The stream bandwidth now, where it is one to hold something against, and how it was measured.
fn measured_stream(
    streaming: Streaming,
    device: &dyn Fn() -> Result<DeviceStream, String>,
) -> Result<(Option<f64>, Value), String> {
    let (bytes_s, mut found, by) = match streaming {
        Streaming::Processor => {
            let cache = llc::last_level_cache(None).ok().flatten();
            let found = stream::measure(cache.as_ref(), STREAM_PASSES).map_err(|error| error.to_string())?;
            // Without optimizations it would be too low to hold anything against it.
            (Some(found.best_bytes_per_second).filter(|_| found.optimized), json!(found), "processor")
        }
        Streaming::Device => {
            let found = device()?;
            (Some(found.best_bytes_per_second), json!(found), "device")
        }
    };
    found["measured_at"] = json!(Timestamp::now());
    found["by"] = json!(by);
    Ok((bytes_s, found))
}

/// The smallest difference of two decode rates that this host can tell from noise, in percent, as `doctor` has found with the
/// same backend; `None` where it has not, or not with a program that was compiled to be measured.
pub(super) fn noise_floor_pct(host_id: Option<&str>, backend: Backend) -> Option<f64> {
    let diagnosis = stored(host_id?).unwrap_or_else(|error| {
        complain(&format!("note: the noise floor of the host is not known: {error}"));
        None
    })?;
    let same = diagnosis.host.backend == backend.to_string() && diagnosis.program.foreign_worker.is_none();
    let floor = diagnosis.noise_floor_pct().filter(|floor| same && floor.is_finite())?;
    if let Some(why) = diagnosis.conditions.disturbed() {
        complain(&format!(
            "note: the noise that doctor found of this host ({floor:.1} %) is not taken: {why}; ask doctor again while nobody \
             else is at work"
        ));
        return None;
    }
    Some(floor)
}

fn of_thermal(thermal: &Thermal, state: &mut HostState) {
    state.thermal_start = described(&thermal.start, &thermal.start.throttle());
    state.thermal_worst = described(&thermal.worst, &thermal.throttle);
    state.thermal_end = described(&thermal.end, &thermal.end.throttle());
    state.power = thermal.worst.power();
}

/// Temperature, clocks and reasons of throttling; `None` where nothing can be read.
fn described(reading: &ThermalReading, throttle: &[String]) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(celsius) = reading.hottest_celsius() {
        parts.push(format!("{celsius:.0} C"));
    }
    if let Some(mhz) = reading.cpu_mhz {
        parts.push(format!("{mhz:.0} MHz"));
    }
    for gpu in &reading.gpus {
        if let Some(mhz) = gpu.sm_mhz {
            parts.push(format!("GPU {} at {mhz} MHz", gpu.index));
        }
    }
    if !throttle.is_empty() {
        parts.push(format!("throttled: {}", throttle.join(", ")));
    } else if reading.pressure.is_some() {
        parts.push("nominal".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn looking(flags: &[&str], foreign: bool) -> Result<Looking, String> {
        match crate::cli::Cli::try_parse_from(["mlxcel-bench", "sweep"].iter().chain(flags)) {
            Ok(crate::cli::Cli { command: crate::cli::Command::Sweep(arguments) }) => {
                Ok(Looking::new(&arguments.quiet, Backend::Cpu, (foreign, false)))
            }
            Ok(_) => Err("another command".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_gate_has_the_figures_of_the_methodology_and_its_flags_change_them() -> Result<(), String> {
        let gate = looking(&[], false)?.gate;
        assert_eq!((gate.hold, gate.limit), (Duration::from_secs(90), Some(Duration::from_mins(30))));
        assert_eq!(gate.limits.cpu_pct.to_bits(), 15.0_f64.to_bits());
        let flags =
            ["--quiet-limit", "30", "--quiet-hold", "10", "--quiet-timeout", "0", "--quiet-ignore", "Dock"];
        let gate = looking(&flags, false)?.gate;
        assert_eq!((gate.hold, gate.limit), (Duration::from_secs(10), None));
        assert_eq!(gate.limits.ignored, ["Dock"]);
        assert!(!looking(&["--no-quiet-gate"], false)?.gate.enabled);
        // What the watch takes for busy is not the gate's to say, but for names that are never busy.
        let watch = looking(&flags, false)?.watch.ok_or("nobody looks")?;
        assert_eq!((watch.cpu_pct.to_bits(), watch.ignored), (15.0_f64.to_bits(), vec!["Dock".to_owned()]));
        let watch = looking(&["--watch-limit", "50"], false)?.watch.ok_or("nobody looks")?;
        assert_eq!(watch.cpu_pct.to_bits(), 50.0_f64.to_bits());
        Ok(())
    }

    #[test]
    fn nothing_is_waited_for_a_program_that_measures_nothing_unless_that_is_asked_for() -> Result<(), String>
    {
        let foreign = looking(&[], true)?;
        assert!(!foreign.gate.enabled && foreign.watch.is_none() && foreign.stream.is_none());
        assert!(looking(&["--quiet-hold", "1"], true)?.gate.enabled);
        Ok(())
    }

    #[test]
    fn what_is_measured_on_a_gpu_is_held_against_its_own_way_to_memory() -> Result<(), String> {
        assert_eq!(looking(&[], false)?.stream, Some(Streaming::Processor));
        for backend in [Backend::Cuda, Backend::Metal] {
            let arguments = QuietGateArgs {
                quiet_limit: None,
                watch_limit: None,
                quiet_hold: None,
                quiet_timeout: None,
                quiet_ignore: Vec::new(),
                no_quiet_gate: true,
                no_watch: true,
            };
            assert_eq!(Looking::new(&arguments, backend, (false, false)).stream, Some(Streaming::Device));
        }
        Ok(())
    }

    #[test]
    fn a_condition_is_told_by_what_can_be_read() {
        assert_eq!(described(&ThermalReading::default(), &[]), None);
        let warm = ThermalReading { cpu_mhz: Some(2450.4), ..ThermalReading::default() };
        let told = described(&warm, &["processor throttled 3 times".to_owned()]);
        assert_eq!(told.as_deref(), Some("2450 MHz; throttled: processor throttled 3 times"));
    }
}
