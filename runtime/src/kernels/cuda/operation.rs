//! A kernel of ours as an operation of MLX's graph (`fast::cuda_kernel`), made once and used for every step.
#![expect(unsafe_code, reason = "calls MLX's C interface; each block says why it is sound")]

use crate::kernels::mlx::{Result, arrays_of, refused};
use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, Stream};
use std::ffi::{CString, c_char, c_int, c_void};

/// What MLX compiles: a function whose parameters it makes of the inputs' names and types, and of `NAME_shape` and
/// `NAME_strides` where the body has them.
#[derive(Debug)]
pub(super) struct Kernel<'a> {
    /// Told apart by it: two kernels of one name must be the same.
    pub(super) name: &'a str,
    /// Before the function.
    pub(super) header: &'a str,
    /// Of the function.
    pub(super) body: &'a str,
    pub(super) inputs: &'a [&'a str],
    pub(super) output: &'a str,
    /// Blocks of threads.
    pub(super) blocks: c_int,
    /// Threads of a block.
    pub(super) threads: c_int,
    /// Shared memory of a block that the kernel does not declare itself.
    pub(super) shared_bytes: c_int,
    /// Whether MLX copies inputs that do not lie in one piece; the kernel else takes them by their `NAME_strides`.
    pub(super) contiguous: bool,
}

/// A kernel that can be added to a graph again and again.
#[derive(Debug)]
pub(super) struct Operation(*mut c_void);

// SAFETY: it is a counted reference, whose count is atomic, to an operation that nothing changes.
unsafe impl Send for Operation {}
// SAFETY: as above.
unsafe impl Sync for Operation {}

impl Operation {
    /// Takes the kernel in for inputs of these types and numbers of axes. MLX compiles it when a result is first needed.
    pub(super) fn new(kernel: &Kernel<'_>, inputs: &[&Array], shape: &[c_int], dtype: Dtype) -> Result<Self> {
        let text = |text: &str| CString::new(text).map_err(|error| Exception::custom(error.to_string()));
        let (name, header, body) = (text(kernel.name)?, text(kernel.header)?, text(kernel.body)?);
        let names = kernel.inputs.iter().map(|name| text(name)).collect::<Result<Vec<_>>>()?;
        let output = text(kernel.output)?;
        let stream = Stream::thread_local_or_default();
        let handles: Vec<_> = inputs.iter().map(|input| input.as_ptr()).collect();
        let threads = kernel.blocks.checked_mul(kernel.threads).ok_or_else(|| refused("cuda_kernel"))?;
        // SAFETY: texts, handles and lists outlive the calls, which copy them; everything made here is freed here, once; what
        // is kept is a reference of its own.
        unsafe {
            let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
            let input_names = mlx_sys::mlx_vector_string_new_data(pointers.as_mut_ptr(), pointers.len());
            let output_names = mlx_sys::mlx_vector_string_new_value(output.as_ptr());
            let made = mlx_sys::mlx_fast_cuda_kernel_new(
                name.as_ptr(),
                input_names,
                output_names,
                body.as_ptr(),
                header.as_ptr(),
                kernel.contiguous,
                kernel.shared_bytes,
            );
            let config = mlx_sys::mlx_fast_cuda_kernel_config_new();
            let given = mlx_sys::mlx_vector_array_new_data(handles.as_ptr(), handles.len());
            let mut results = mlx_sys::mlx_vector_array_new();
            let output_dtype = mlx_sys::mlx_dtype::from(dtype);
            let done = mlx_sys::mlx_fast_cuda_kernel_config_add_output_arg(
                config,
                shape.as_ptr(),
                shape.len(),
                output_dtype,
            ) == 0
                && mlx_sys::mlx_fast_cuda_kernel_config_set_grid(config, threads, 1, 1) == 0
                && mlx_sys::mlx_fast_cuda_kernel_config_set_thread_group(config, kernel.threads, 1, 1) == 0
                && mlx_sys::mlx_fast_cuda_kernel_apply(
                    &raw mut results,
                    made,
                    given,
                    config,
                    stream.as_ptr(),
                ) == 0;
            let outcome = if done { arrays_of("cuda_kernel", results) } else { Err(refused("cuda_kernel")) };
            mlx_sys::mlx_vector_array_free(results);
            mlx_sys::mlx_vector_array_free(given);
            mlx_sys::mlx_fast_cuda_kernel_config_free(config);
            mlx_sys::mlx_fast_cuda_kernel_free(made);
            mlx_sys::mlx_vector_string_free(output_names);
            mlx_sys::mlx_vector_string_free(input_names);
            let array = outcome?.pop().ok_or_else(|| refused("cuda_kernel"))?;
            let operation = mlx_sys::mlxcel_operation_of(array.as_ptr());
            if operation.is_null() { Err(refused("cuda_kernel")) } else { Ok(Self(operation)) }
        }
    }

    /// Adds it to the graph, for inputs like those it was made for; `None` where the current stream is another than then.
    pub(super) fn apply(&self, inputs: &[&Array], shape: &[c_int], dtype: Dtype) -> Result<Option<Array>> {
        let stream = Stream::thread_local_or_default();
        let handles: Vec<_> = inputs.iter().map(|input| input.as_ptr()).collect();
        // SAFETY: the operation lives as long as `self`; the lists outlive the call and are passed with their lengths; the
        // handle is fresh, filled when the call answers 0, and freed by `Array` in any case.
        unsafe {
            let mut handle = mlx_sys::mlx_array_new();
            let status = mlx_sys::mlxcel_operation_apply(
                &raw mut handle,
                self.0,
                handles.as_ptr(),
                handles.len(),
                shape.as_ptr(),
                shape.len(),
                dtype.into(),
                stream.as_ptr(),
            );
            let array = Array::from_ptr(handle);
            match status {
                0 => Ok(Some(array)),
                2 => Ok(None),
                _ => Err(refused("cuda_kernel")),
            }
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed nowhere else.
        unsafe {
            mlx_sys::mlxcel_operation_free(self.0);
        }
    }
}
