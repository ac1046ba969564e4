//! Which instruction sets there are, and which this processor has.

#[cfg(target_arch = "x86_64")]
use super::DotKernel;
use super::{Kernel, Portable};
use std::fmt;
use std::sync::OnceLock;

/// An instruction set that the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// x86-64 with AVX-512 F, BW, DQ, VL, and its VNNI and VBMI: products of bytes serve quantized weights.
    Avx512Vnni,
    /// x86-64 with AVX-512 F, BW, DQ, VL.
    Avx512,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// 64-bit Arm with NEON.
    Neon,
    /// Whatever the compiler makes of plain code for the target.
    Portable,
}

impl Isa {
    /// Every instruction set that this processor has, the best first.
    pub fn available() -> &'static [Self] {
        static AVAILABLE: OnceLock<Vec<Isa>> = OnceLock::new();
        AVAILABLE.get_or_init(|| {
            let mut available = Vec::new();
            #[cfg(target_arch = "x86_64")]
            {
                let avx2 = is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c");
                let avx512 = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl");
                let vnni = is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vbmi");
                if avx2 && avx512 && vnni {
                    available.push(Self::Avx512Vnni);
                }
                if avx2 && avx512 {
                    available.push(Self::Avx512);
                }
                if avx2 {
                    available.push(Self::Avx2);
                }
            }
            #[cfg(target_arch = "aarch64")]
            if std::arch::is_aarch64_feature_detected!("neon") {
                available.push(Self::Neon);
            }
            available.push(Self::Portable);
            available
        })
    }

    /// The best one that this processor has.
    pub fn best() -> Self {
        Self::available().first().copied().unwrap_or(Self::Portable)
    }

    /// The one of this name ([`name`](Self::name)), if this processor has it.
    pub fn named(name: &str) -> Option<Self> {
        Self::available().iter().copied().find(|isa| isa.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx512Vnni => "avx512vnni",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }

    /// Lanes of a vector.
    pub(crate) fn lanes(self) -> usize {
        match self.on_this_processor() {
            Self::Avx512Vnni | Self::Avx512 => 16,
            Self::Avx2 | Self::Neon | Self::Portable => 8,
        }
    }

    /// This one, or the portable one where this processor lacks it.
    fn on_this_processor(self) -> Self {
        if Self::available().contains(&self) { self } else { Self::Portable }
    }

    /// Lanes of a vector of [`Dot`](super::Dot), where this instruction set has products of bytes.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn dot_lanes(self) -> Option<usize> {
        matches!(self.on_this_processor(), Self::Avx512Vnni).then_some(16)
    }

    /// Runs `kernel` where this instruction set and this processor have products of bytes; else does nothing, which
    /// [`dot_lanes`](Self::dot_lanes) foretells.
    ///
    /// # Safety
    /// What the kernel asks for.
    #[cfg(target_arch = "x86_64")]
    pub(crate) unsafe fn run_dot<K: DotKernel>(self, kernel: K) {
        if self.dot_lanes().is_some() {
            // SAFETY: the processor was seen to have the instruction set; the rest is the caller's promise.
            unsafe { avx512vnni(kernel) };
        }
    }

    /// Runs `kernel` compiled for this instruction set; for the portable one where this processor lacks it.
    ///
    /// # Safety
    /// What the kernel asks for.
    pub(crate) unsafe fn run<K: Kernel>(self, kernel: K) -> K::Output {
        let isa = self.on_this_processor();
        // SAFETY: the processor was seen to have the instruction set; the rest is the caller's promise.
        unsafe {
            match isa {
                #[cfg(target_arch = "x86_64")]
                Self::Avx512Vnni | Self::Avx512 => avx512(kernel),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => avx2(kernel),
                #[cfg(target_arch = "aarch64")]
                Self::Neon => neon(kernel),
                _ => kernel.run::<Portable>(),
            }
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn avx512<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the features are on in this function.
    unsafe { kernel.run::<super::Avx512>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512vnni,avx512vbmi,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn avx512vnni<K: DotKernel>(kernel: K) {
    // SAFETY: the features are on in this function.
    unsafe { kernel.run::<super::Avx512>() };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the features are on in this function.
    unsafe { kernel.run::<super::Avx2>() }
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn neon<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the feature is on in this function.
    unsafe { kernel.run::<super::Neon>() }
}
