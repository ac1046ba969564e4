//! One look at the host, and who takes it: this host, or a script of a test.

use std::time::Instant;

use super::gpu::{GpuReader, GpuReading};
use super::memory::{self, MemoryReading};
use super::processes::linux::HostCpu;
use super::processes::{self, Table};

/// The host at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// The processes; `None` when they could not be read.
    pub processes: Option<Table>,
    /// Processor time of the whole host, where the system tells it.
    pub host_cpu: Option<HostCpu>,
    /// Memory.
    pub memory: MemoryReading,
    /// The GPUs, where they can be read.
    pub gpu: Option<GpuReading>,
}

impl Reading {
    /// A reading of processes alone.
    pub fn of_processes(at: Instant, table: Table) -> Self {
        Self { at, processes: Some(table), host_cpu: None, memory: MemoryReading::default(), gpu: None }
    }
}

/// Takes readings, one after another.
pub trait Reader: Send {
    /// The next one.
    fn read(&mut self) -> Reading;
}

/// Reads this host.
#[derive(Debug)]
pub struct HostReader {
    gpu: GpuReader,
}

impl HostReader {
    /// Finds out what can be read.
    pub fn open() -> Self {
        Self { gpu: GpuReader::open() }
    }
}

impl Reader for HostReader {
    fn read(&mut self) -> Reading {
        let at = Instant::now();
        let processes = processes::table();
        Reading { at, processes, host_cpu: host_cpu(), memory: memory::read(), gpu: self.gpu.read() }
    }
}

#[cfg(target_os = "linux")]
fn host_cpu() -> Option<HostCpu> {
    processes::linux::host_cpu()
}

#[cfg(not(target_os = "linux"))]
fn host_cpu() -> Option<HostCpu> {
    None
}
