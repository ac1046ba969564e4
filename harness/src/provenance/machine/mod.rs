//! The machine: chip, cores, memory, system, GPU. Its name is not recorded.

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "parsers are tested on every system"))]
mod linux;
#[cfg_attr(not(target_os = "macos"), allow(dead_code, reason = "parsers are tested on every system"))]
mod macos;
mod names;
mod nvidia;

use mlxcel_reports::row::Backend;
use serde::Serialize;

pub use names::{hardware_string, short_name};
pub use nvidia::Gpu;

use super::sha256_hex;

/// A machine. Everything that could not be found out is `None`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// Chip or processor model, as the system names it.
    pub chip: Option<String>,
    /// Cores, not counting threads that share one.
    pub physical_cores: Option<usize>,
    /// Cores as the scheduler sees them.
    pub logical_cores: Option<usize>,
    /// Memory of the host.
    pub memory_bytes: Option<u64>,
    /// System name and version, as `Debian GNU/Linux 12` or `macOS 26.1`.
    pub os: Option<String>,
    /// Version of the system's kernel.
    pub kernel_version: Option<String>,
    /// When the system was started, in seconds since 1970.
    pub boot_time_unix_seconds: Option<u64>,
    /// The GPU that NVIDIA's driver lists first, and how many there are.
    pub gpu: Option<Gpu>,
    /// Digest that tells hosts apart without naming them.
    pub host_id: Option<String>,
}

impl Machine {
    /// Looks at this machine.
    pub fn this() -> Self {
        let system = sysinfo::System::new_with_specifics(
            sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::nothing().with_ram()),
        );
        let known = |number: u64| Some(number).filter(|number| *number > 0);
        Self {
            chip: chip(),
            physical_cores: sysinfo::System::physical_core_count().ok(),
            logical_cores: std::thread::available_parallelism().ok().map(std::num::NonZero::get),
            memory_bytes: system.ok().and_then(|system| known(system.total_memory())),
            os: sysinfo::System::long_os_version().ok(),
            kernel_version: sysinfo::System::kernel_version().ok(),
            boot_time_unix_seconds: sysinfo::System::boot_time().ok().and_then(known),
            gpu: nvidia::query(),
            host_id: host_id(),
        }
    }

    /// The `hardware` column: `<chip>_<memory>GB`. A GPU comes with its own memory; one that reports none shares the host's.
    pub fn hardware(&self, backend: Backend) -> Option<String> {
        match (backend, &self.gpu) {
            (Backend::Cuda, Some(gpu)) => hardware_string(&gpu.name, gpu.memory_bytes.or(self.memory_bytes)),
            _ => hardware_string(self.chip.as_ref()?, self.memory_bytes),
        }
    }

    /// Name of the device MLX computes on.
    pub fn device_name(&self, backend: Backend) -> Option<String> {
        match backend {
            Backend::Cuda => self.gpu.as_ref().map(|gpu| gpu.name.clone()),
            Backend::Metal | Backend::Cpu => self.chip.clone(),
        }
    }

    /// Memory of that device.
    pub fn device_memory_bytes(&self, backend: Backend) -> Option<u64> {
        match backend {
            Backend::Cuda => self.gpu.as_ref().and_then(|gpu| gpu.memory_bytes),
            Backend::Metal | Backend::Cpu => self.memory_bytes,
        }
    }

    /// Version of that device's driver, where it has one of its own.
    pub fn driver(&self, backend: Backend) -> Option<String> {
        match backend {
            Backend::Cuda => self.gpu.as_ref().and_then(|gpu| gpu.driver.clone()),
            Backend::Metal | Backend::Cpu => None,
        }
    }
}

#[cfg(target_os = "macos")]
fn chip() -> Option<String> {
    macos::sysctl("machdep.cpu.brand_string")
}

#[cfg(not(target_os = "macos"))]
fn chip() -> Option<String> {
    linux::processor(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// A digest of the identity the system gave itself when it was installed.
fn host_id() -> Option<String> {
    #[cfg(target_os = "macos")]
    let id = macos::platform_uuid();
    #[cfg(not(target_os = "macos"))]
    let id = ["/etc/machine-id", "/var/lib/dbus/machine-id"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok());
    let id = id.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty() && id != "uninitialized")?;
    // Salted, so that it is not the digest by which others may know the machine; cut, since it only tells few
    // hosts apart.
    sha256_hex(format!("mlxcel-bench host {id}").as_bytes()).get(..16).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_cores_and_a_system() {
        let machine = Machine::this();
        assert!(machine.memory_bytes.is_some_and(|bytes| bytes > 1 << 28), "{machine:?}");
        assert!(
            machine.logical_cores.is_some() && machine.os.is_some() && machine.kernel_version.is_some(),
            "{machine:?}"
        );
    }

    #[test]
    fn a_gpu_that_shares_the_memory_of_its_host_stands_with_that() {
        let gpu = Gpu {
            name: "NVIDIA GB10".to_owned(),
            memory_bytes: None,
            driver: None,
            count: 1,
            cuda_version: None,
        };
        let machine = Machine { memory_bytes: Some(119 << 30), gpu: Some(gpu), ..Machine::default() };
        assert_eq!(machine.hardware(Backend::Cuda).as_deref(), Some("NVIDIA_GB10_119GB"));
        assert_eq!(machine.device_memory_bytes(Backend::Cuda), None);
    }

    #[test]
    fn on_cuda_the_gpu_is_the_device_and_elsewhere_the_chip() {
        let gpu = Gpu {
            name: "NVIDIA H200".to_owned(),
            memory_bytes: Some(143_771 << 20),
            driver: Some("580.1".to_owned()),
            count: 1,
            cuda_version: Some("13.0".to_owned()),
        };
        let machine = Machine {
            chip: Some("AMD EPYC".to_owned()),
            memory_bytes: Some(24 << 30),
            gpu: Some(gpu),
            ..Machine::default()
        };
        assert_eq!(machine.hardware(Backend::Cuda).as_deref(), Some("NVIDIA_H200_140GB"));
        assert_eq!(machine.hardware(Backend::Cpu).as_deref(), Some("AMD_EPYC_24GB"));
        assert_eq!(machine.device_memory_bytes(Backend::Cuda), Some(143_771 << 20));
        assert_eq!(machine.driver(Backend::Cpu), None);
    }
}
