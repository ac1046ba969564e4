//! NVIDIA GPUs, as the driver's own `nvidia-smi` lists them.

use std::process::Command;

use serde::Serialize;

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Model, beginning with `NVIDIA`.
    pub name: String,
    /// Its memory.
    pub memory_bytes: Option<u64>,
    /// Driver version.
    pub driver: Option<String>,
    /// GPUs in the machine.
    pub count: usize,
}

/// The first GPU; `None` without one or without its driver.
pub(super) fn query() -> Option<Gpu> {
    let output = Command::new("nvidia-smi")
        .args(["--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn parse(listing: &str) -> Option<Gpu> {
    let lines: Vec<&str> = listing.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut fields = lines.first()?.split(',').map(str::trim);
    let name = fields.next().filter(|name| !name.is_empty())?;
    let memory_bytes =
        fields.next().and_then(|mebibytes| mebibytes.parse::<u64>().ok()?.checked_mul(1 << 20));
    let driver = fields.next().filter(|driver| !driver.is_empty()).map(str::to_owned);
    let name = if name.starts_with("NVIDIA") { name.to_owned() } else { format!("NVIDIA {name}") };
    Some(Gpu { name, memory_bytes, driver, count: lines.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_gpu_stands_for_all() {
        let gpu = parse("NVIDIA H200, 143771, 580.65.06\nNVIDIA H200, 143771, 580.65.06\n");
        assert_eq!(
            gpu,
            Some(Gpu {
                name: "NVIDIA H200".to_owned(),
                memory_bytes: Some(143_771 << 20),
                driver: Some("580.65.06".to_owned()),
                count: 2
            })
        );
    }

    #[test]
    fn memory_that_is_not_reported_is_unknown() {
        assert_eq!(
            parse("GB10, [N/A], 580.95\n").map(|gpu| (gpu.name, gpu.memory_bytes)),
            Some(("NVIDIA GB10".to_owned(), None))
        );
        assert_eq!(parse("\n"), None);
    }
}
