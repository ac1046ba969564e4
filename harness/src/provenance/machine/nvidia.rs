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
    /// Newest CUDA version that the driver supports, such as `13.0`.
    pub cuda_version: Option<String>,
}

/// The first GPU; `None` without one or without its driver.
pub(super) fn query() -> Option<Gpu> {
    let listing = output(&["--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"])?;
    let mut gpu = parse(&listing)?;
    // No query has it; the head of the plain listing does.
    gpu.cuda_version = output(&[]).as_deref().and_then(cuda_version);
    Some(gpu)
}

fn output(arguments: &[&str]) -> Option<String> {
    let output = Command::new("nvidia-smi").args(arguments).output().ok();
    let output = output.filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The version behind `CUDA Version:`, or as newer drivers write it, `CUDA UMD Version:`.
fn cuda_version(listing: &str) -> Option<String> {
    let line = listing.lines().find(|line| line.contains("CUDA") && line.contains("Version"))?;
    let (_, rest) = line.split_once("CUDA")?;
    let (_, rest) = rest.split_once(':')?;
    let version: String =
        rest.trim_start().chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect();
    (!version.is_empty()).then_some(version)
}

fn parse(listing: &str) -> Option<Gpu> {
    let lines: Vec<&str> = listing.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut fields = lines.first()?.split(',').map(str::trim);
    let name = fields.next().filter(|name| !name.is_empty())?;
    let memory_bytes =
        fields.next().and_then(|mebibytes| mebibytes.parse::<u64>().ok()?.checked_mul(1 << 20));
    let driver = fields.next().filter(|driver| !driver.is_empty()).map(str::to_owned);
    let name = if name.starts_with("NVIDIA") { name.to_owned() } else { format!("NVIDIA {name}") };
    Some(Gpu { name, memory_bytes, driver, count: lines.len(), cuda_version: None })
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
                count: 2,
                cuda_version: None
            })
        );
    }

    #[test]
    fn the_cuda_version_is_found_in_the_head_of_the_listing() {
        let head = "Sat Nov 28 10:00:00 2026\n\
            | NVIDIA-SMI 580.159.03   Driver Version: 580.159.03     CUDA Version: 13.0     |\n";
        assert_eq!(cuda_version(head).as_deref(), Some("13.0"));
        let newer = "| NVIDIA-SMI 590.1  KMD Version: 590.1  CUDA UMD Version: 13.1  |\n";
        assert_eq!(cuda_version(newer).as_deref(), Some("13.1"));
        assert_eq!(cuda_version("| CUDA Version: N/A |\n"), None);
        assert_eq!(cuda_version("nothing\n"), None);
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
