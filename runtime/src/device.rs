//! The device that a build for NVIDIA GPUs needs: whether it can be used, and which CUDA it runs on.
//!
//! Without this check such a build would compute on the processor where no GPU is usable, which is never what was meant.

use crate::kernels::cuda::facts as cuda;
use crate::kernels::mlx;
use crate::version::Backend;
use serde::{Deserialize, Serialize};

/// Why nothing can be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// A build for CUDA runs where MLX finds no GPU.
    #[error(
        "this build computes on NVIDIA GPUs, and none can be used here{}; see what `nvidia-smi` lists and whether \
         CUDA_VISIBLE_DEVICES hides it, or build without `--features cuda` to compute on the processor",
        fault.as_ref().map_or_else(String::new, |fault| format!(" (the driver says {fault})"))
    )]
    NoGpu {
        /// The driver's own words, where it has any.
        fault: Option<String>,
    },
}

/// Fails when this build is for a device that cannot be used.
pub fn check() -> Result<(), DeviceError> {
    if !mlx_sys::FOR_CUDA {
        return Ok(());
    }
    // The driver first: MLX may take a machine whose driver does not work for one that has a GPU.
    let fault = cuda::driver_fault();
    if fault.is_some() || !mlx::cuda_is_available() || cuda::device_count() < 1 {
        return Err(DeviceError::NoGpu { fault });
    }
    Ok(())
}

/// The GPU, the driver and the CUDA libraries as they are loaded. What one of them does not say is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaInfo {
    /// The GPU, as MLX names it.
    pub device_name: Option<String>,
    /// Its compute capability, such as `9.0`.
    pub compute_capability: Option<String>,
    /// Its memory.
    pub total_memory_bytes: Option<u64>,
    /// The CUDA version that the driver supports, such as `13.0`.
    pub driver_cuda_version: Option<String>,
    /// Version of the run-time compiler (NVRTC), which is that of the CUDA release it comes from.
    pub nvrtc_version: Option<String>,
    /// Version of cuBLASLt.
    pub cublaslt_version: Option<String>,
    /// Version of cuDNN.
    pub cudnn_version: Option<String>,
    /// Version of NCCL.
    pub nccl_version: Option<String>,
}

impl CudaInfo {
    /// Asks what is loaded; `None` where MLX does not compute on an NVIDIA GPU.
    pub fn of_loaded_libraries() -> Option<Self> {
        if Backend::current() != Backend::Cuda {
            return None;
        }
        let capability = |part| cuda::device_number(&format!("compute_capability_{part}"));
        Some(Self {
            device_name: cuda::device_text("device_name"),
            compute_capability: capability("major")
                .zip(capability("minor"))
                .map(|(major, minor)| format!("{major}.{minor}")),
            total_memory_bytes: cuda::device_number("total_memory"),
            driver_cuda_version: cuda::written_version(c"cuDriverGetVersion").map(cuda_release),
            nvrtc_version: cuda::nvrtc_version().map(|version| dotted(version, &[1000])),
            // cuBLAS counts as cuDNN does: 10000 * major + 100 * minor + patch.
            cublaslt_version: cuda::returned_version(c"cublasLtGetVersion")
                .map(|version| dotted(version, &[10_000, 100])),
            cudnn_version: cuda::returned_version(c"cudnnGetVersion")
                .map(|version| dotted(version, &[10_000, 100])),
            nccl_version: cuda::written_version(c"ncclGetVersion")
                .map(|version| dotted(version, &[10_000, 100])),
        })
    }
}

/// CUDA counts its releases as 1000 * major + 10 * minor.
fn cuda_release(version: u64) -> String {
    dotted(version / 10, &[100])
}

/// A version number cut into its parts at `places`, the largest first.
fn dotted(version: u64, places: &[u64]) -> String {
    let mut rest = version;
    let mut parts = Vec::with_capacity(places.len() + 1);
    for &place in places {
        parts.push((rest / place.max(1)).to_string());
        rest %= place.max(1);
    }
    parts.push(rest.to_string());
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_their_makers_write_them() {
        assert_eq!(cuda_release(13_000), "13.0");
        assert_eq!(cuda_release(12_080), "12.8");
        assert_eq!(dotted(13_000, &[1000]), "13.0");
        assert_eq!(dotted(91_900, &[10_000, 100]), "9.19.0");
        assert_eq!(dotted(22_907, &[10_000, 100]), "2.29.7");
        assert_eq!(dotted(130_002, &[10_000, 100]), "13.0.2");
    }

    #[test]
    fn the_message_says_what_the_driver_said_and_what_to_do() {
        let error =
            DeviceError::NoGpu { fault: Some("error 100: no CUDA-capable device is detected".to_owned()) };
        let message = error.to_string();
        assert!(message.contains("error 100") && message.contains("nvidia-smi"), "{message}");
    }

    #[test]
    fn a_build_for_the_processor_needs_no_gpu() {
        if !mlx_sys::FOR_CUDA {
            assert_eq!(check(), Ok(()));
        }
    }
}
