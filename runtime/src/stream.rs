//! Large arrays read and written by the device that MLX computes on, timed: what its memory gives at best.
//!
//! Three operations stand beside each other, since which one is the fastest depends on the device: a sum, an addition, and
//! the product of a matrix with a vector, which is what generating consists of. They are MLX's own operations, so nothing
//! MLX computes should be faster by much. Rates are left to the harness.

use std::time::Instant;

use mlx_rs::error::Exception;
use mlx_rs::transforms::eval;
use mlx_rs::{Array, ops};

use crate::kernels::mlx::synchronize;

/// Arrays that the bytes are spread over: each operation takes every one of them once, so that no cache is of any use.
const ARRAYS: u64 = 4;
/// Bytes of an element.
const ELEMENT: u64 = 4;
/// The first passes of an operation are not handed back: kernels are compiled, buffers are made, clocks go up.
const DISCARDED: usize = 2;

/// One pass over the arrays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPass {
    /// What was computed.
    pub operation: &'static str,
    /// Bytes that were read and written.
    pub bytes: u64,
    /// How long it took, from the call to the end on the device.
    pub nanos: u64,
}

/// Goes over arrays of about so many bytes in all (an addition needs a quarter of that besides), so many passes with each
/// operation.
///
/// # Errors
/// When MLX fails, for example for want of memory.
pub fn measure(bytes: u64, passes: usize) -> Result<Vec<StreamPass>, Exception> {
    let rows = (bytes / ARRAYS / ELEMENT).isqrt().clamp(64, 1 << 15);
    let side = i32::try_from(rows).map_err(|error| Exception::custom(error.to_string()))?;
    let array_bytes = rows * rows * ELEMENT;
    // Values that neither grow nor vanish in a chain of products.
    let value = Array::from_f32(1.0 / side as f32);
    let arrays: Vec<Array> =
        (0..ARRAYS).map(|_| ops::full::<f32>(&[side, side], &value)).collect::<Result<_, _>>()?;
    let vector = ops::ones::<f32>(&[side, 1])?;
    eval(arrays.iter().chain([&vector]))?;
    let mut done = Vec::new();
    let all = array_bytes * ARRAYS;
    time(&mut done, "sum", all, passes, &mut || arrays.iter().map(|array| array.sum(None)).collect())?;
    time(&mut done, "product with a vector", all, passes, &mut || {
        let mut product = vector.clone();
        for array in &arrays {
            product = array.matmul(&product)?;
        }
        Ok(vec![product])
    })?;
    // Of two arrays a third is made: three times their bytes for each but the first.
    time(&mut done, "addition", 3 * array_bytes * (ARRAYS - 1), passes, &mut || {
        let mut arrays = arrays.iter();
        let mut sum = arrays.next().map_or_else(|| value.clone(), Array::clone);
        for array in arrays {
            sum = sum.add(array)?;
        }
        Ok(vec![sum])
    })?;
    drop(arrays);
    crate::memory::clear_cache();
    Ok(done)
}

fn time(
    done: &mut Vec<StreamPass>,
    operation: &'static str,
    bytes: u64,
    passes: usize,
    compute: &mut dyn FnMut() -> Result<Vec<Array>, Exception>,
) -> Result<(), Exception> {
    for pass in 0..passes.saturating_add(DISCARDED) {
        synchronize()?;
        let begun = Instant::now();
        let results = compute()?;
        eval(&results)?;
        synchronize()?;
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if pass >= DISCARDED {
            done.push(StreamPass { operation, bytes, nanos });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_passes_over_all_its_bytes_at_a_rate_that_can_be() -> Result<(), Exception> {
        let passes = measure(64 << 20, 2)?;
        let operations: Vec<&str> = passes.iter().map(|pass| pass.operation).collect();
        assert_eq!(
            operations,
            ["sum", "sum", "product with a vector", "product with a vector", "addition", "addition"]
        );
        for pass in &passes {
            assert!((64 << 20..=144 << 20).contains(&pass.bytes), "{pass:?}");
            let rate = pass.bytes as f64 * 1e9 / pass.nanos as f64;
            assert!((1e7..1e14).contains(&rate), "{pass:?}");
        }
        Ok(())
    }
}
