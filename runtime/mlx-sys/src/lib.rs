//! MLX's C interface (mlx-c), linked against MLX's official release binaries.
//!
//! A stand-in for the published `mlx-sys`, which builds MLX from source and on Apple hosts only. The build script
//! fetches the pinned release binary (`pins.json`), compiles mlx-c against its headers and links it. Everything safe
//! is in `mlx-rs`; this crate has the raw functions, and what `mlx-rs` needs beside them.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, unreachable_pub)]
#![allow(missing_docs, reason = "the generated bindings are documented in mlx-c's headers")]
#![allow(unsafe_code, clippy::all, clippy::pedantic, reason = "generated foreign-function bindings")]

/// A half-precision float as its bits, the form in which `mlx-rs` takes it.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, Default)]
pub struct float16_t(pub u16);

/// A bfloat16 as its bits, the form in which `mlx-rs` takes it.
pub type bfloat16_t = u16;

/// A C stream, which only mlx-c's graph printers take; never looked into.
#[repr(C)]
pub struct FILE {
    _opaque: [u8; 0],
}

include!("bindings.rs");

unsafe extern "C" {
    pub fn mlx_array_item_float16(res: *mut float16_t, arr: mlx_array) -> ::std::os::raw::c_int;
    pub fn mlx_array_item_bfloat16(res: *mut bfloat16_t, arr: mlx_array) -> ::std::os::raw::c_int;
    pub fn mlx_array_data_float16(arr: mlx_array) -> *const float16_t;
    pub fn mlx_array_data_bfloat16(arr: mlx_array) -> *const bfloat16_t;
    /// `mode` is a C string. `mlx-rs` gives it as signed characters, which those of C are not on 64-bit Arm outside macOS.
    pub fn mlx_pad(
        res: *mut mlx_array,
        a: mlx_array,
        axes: *const ::std::os::raw::c_int,
        axes_num: usize,
        low_pad_size: *const ::std::os::raw::c_int,
        low_pad_size_num: usize,
        high_pad_size: *const ::std::os::raw::c_int,
        high_pad_size_num: usize,
        pad_value: mlx_array,
        mode: *const i8,
        s: mlx_stream,
    ) -> ::std::os::raw::c_int;
    /// The file that the loader took MLX from; null when it cannot say. Owned by the loader.
    pub fn mlxcel_library_path() -> *const ::std::os::raw::c_char;
    /// Calls `visit` once for each operation that `output` waits for; 0, or 1 where it failed.
    pub fn mlxcel_visit_nodes(
        output: mlx_array,
        visit: unsafe extern "C" fn(
            name: *const ::std::os::raw::c_char,
            context: *mut ::std::os::raw::c_void,
        ),
        context: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
    /// Adds a computation of our own to the graph; `compat/primitive.h` says what each argument is.
    pub fn mlxcel_add_node(
        node: *const mlxcel_node,
        inputs: *const mlx_array,
        inputs_num: usize,
        results: *mut mlx_array,
        results_num: usize,
        shapes: *const ::std::os::raw::c_int,
        dimensions: *const usize,
        dtypes: *const mlx_dtype,
        reused: *const ::std::os::raw::c_int,
        stream: mlx_stream,
    ) -> ::std::os::raw::c_int;
    /// What an array that is not evaluated yet is computed by, to be freed; null when there is nothing to compute.
    pub fn mlxcel_operation_of(array: mlx_array) -> *mut ::std::os::raw::c_void;
    /// Frees what `mlxcel_operation_of` gave.
    pub fn mlxcel_operation_free(operation: *mut ::std::os::raw::c_void);
    /// An array that the operation computes from other inputs: 0; 1 where it failed; 2 where the stream is not its own.
    pub fn mlxcel_operation_apply(
        result: *mut mlx_array,
        operation: *const ::std::os::raw::c_void,
        inputs: *const mlx_array,
        inputs_num: usize,
        shape: *const ::std::os::raw::c_int,
        dimensions: usize,
        dtype: mlx_dtype,
        stream: mlx_stream,
    ) -> ::std::os::raw::c_int;
    /// The value of the loaded function `size_t name(void)`; -1 without it.
    pub fn mlxcel_version_returned(name: *const ::std::os::raw::c_char) -> i64;
    /// What the loaded function `int name(int*)` writes; -1 without it or when it fails.
    pub fn mlxcel_version_written(name: *const ::std::os::raw::c_char) -> i64;
    /// Version of the loaded CUDA run-time compiler, as 1000 * major + minor; -1 without one.
    pub fn mlxcel_nvrtc_version() -> i64;
    /// The CUDA driver's answer to `cuInit`; 0 when it is ready, -1 without its library.
    pub fn mlxcel_cuda_init() -> i64;
    /// The driver's words for an error code; null when it has none. Owned by the driver.
    pub fn mlxcel_cuda_error(code: i64) -> *const ::std::os::raw::c_char;
}

/// What a node computes and what it keeps.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct mlxcel_node {
    pub name: *const ::std::os::raw::c_char,
    pub computation: mlxcel_computation,
    pub parameters: *const ::std::os::raw::c_void,
    pub parameters_size: usize,
    pub context: *mut ::std::os::raw::c_void,
    pub release: unsafe extern "C" fn(context: *mut ::std::os::raw::c_void),
}

/// An array that a computation reads or writes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct mlxcel_operand {
    pub data: *mut ::std::os::raw::c_void,
    pub shape: *const i32,
    /// In elements.
    pub strides: *const i64,
    pub dimensions: usize,
    pub dtype: mlx_dtype,
}

/// Computes outputs from inputs; null, or why it could not.
pub type mlxcel_computation = unsafe extern "C" fn(
    inputs: *const mlxcel_operand,
    inputs_num: usize,
    outputs: *const mlxcel_operand,
    outputs_num: usize,
    parameters: *const ::std::os::raw::c_void,
    context: *const ::std::os::raw::c_void,
) -> *const ::std::os::raw::c_char;

/// The release that `pins.json` names, for example `0.32.2`. What is loaded at run time is `mlx_version`'s to say.
pub const PINNED_MLX_VERSION: &str = env!("MLXCEL_PINNED_MLX_VERSION");
/// The tag of that release in MLX's repository.
pub const PINNED_MLX_TAG: &str = env!("MLXCEL_PINNED_MLX_TAG");
/// The version of mlx-c whose sources were compiled in.
pub const MLX_C_VERSION: &str = env!("MLXCEL_MLX_C_VERSION");
/// Whether the build that is linked computes on NVIDIA GPUs.
pub const FOR_CUDA: bool = cfg!(feature = "cuda");
/// The folder linked instead of the pinned release, where `MLXCEL_MLX_DIR` was set for the build.
pub const MLX_DIR_OVERRIDE: Option<&str> = option_env!("MLXCEL_LINKED_MLX_DIR");
