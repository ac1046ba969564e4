//! What the NVIDIA driver and the CUDA libraries in this process say of themselves. In a process that has not loaded
//! them, every answer is `None`.
#![expect(unsafe_code, reason = "asks C libraries for their versions; each block says why it is sound")]

use std::ffi::{CStr, CString};

/// The value of a version function of the form `size_t name(void)`.
pub(crate) fn returned_version(name: &CStr) -> Option<u64> {
    // SAFETY: the name ends in a nul byte and outlives the call; it names a function of that form, or none.
    u64::try_from(unsafe { mlx_sys::mlxcel_version_returned(name.as_ptr()) }).ok()
}

/// What a version function of the form `int name(int*)` writes.
pub(crate) fn written_version(name: &CStr) -> Option<u64> {
    // SAFETY: as in `returned_version`.
    u64::try_from(unsafe { mlx_sys::mlxcel_version_written(name.as_ptr()) }).ok()
}

/// The run-time compiler's version, as 1000 * major + minor.
pub(crate) fn nvrtc_version() -> Option<u64> {
    // SAFETY: takes nothing.
    u64::try_from(unsafe { mlx_sys::mlxcel_nvrtc_version() }).ok()
}

/// Why the driver is not ready, in its own words; `None` when it is, or when its library is not loaded.
pub(crate) fn driver_fault() -> Option<String> {
    // SAFETY: takes nothing; the driver allows any number of calls.
    let code = unsafe { mlx_sys::mlxcel_cuda_init() };
    if code <= 0 {
        return None;
    }
    // SAFETY: the text is the driver's and lives as long as its library; it is copied at once.
    let words = unsafe {
        let words = mlx_sys::mlxcel_cuda_error(code);
        (!words.is_null()).then(|| CStr::from_ptr(words).to_string_lossy().into_owned())
    };
    Some(words.map_or_else(|| format!("error {code}"), |words| format!("error {code}: {words}")))
}

/// GPUs that MLX can use; 0 when it cannot say.
pub(crate) fn device_count() -> i32 {
    let mut count = 0;
    // SAFETY: MLX writes one number.
    let status = unsafe { mlx_sys::mlx_device_count(&raw mut count, mlx_sys::mlx_device_type__MLX_GPU) };
    if status == 0 { count } else { 0 }
}

/// A text that MLX knows of the GPU it computes on, such as `device_name`.
pub(crate) fn device_text(key: &str) -> Option<String> {
    with_device_info(key, |info, key| {
        let mut text = std::ptr::null();
        // SAFETY: MLX writes a pointer to text that the info owns; it is copied before the info is freed.
        unsafe {
            let found = mlx_sys::mlx_device_info_get_string(&raw mut text, info, key.as_ptr()) == 0;
            (found && !text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    })
}

/// A number that MLX knows of the GPU it computes on, such as `total_memory`.
pub(crate) fn device_number(key: &str) -> Option<u64> {
    with_device_info(key, |info, key| {
        let mut number = 0;
        // SAFETY: MLX writes one number.
        let found = unsafe { mlx_sys::mlx_device_info_get_size(&raw mut number, info, key.as_ptr()) == 0 };
        found.then(|| u64::try_from(number).ok()).flatten()
    })
}

/// Runs `read` with the facts about the first GPU when they have `key`.
fn with_device_info<T>(
    key: &str,
    read: impl FnOnce(mlx_sys::mlx_device_info, &CStr) -> Option<T>,
) -> Option<T> {
    let key = CString::new(key).ok()?;
    // SAFETY: both handles are created here, passed to MLX while they live and freed once.
    unsafe {
        let device = mlx_sys::mlx_device_new_type(mlx_sys::mlx_device_type__MLX_GPU, 0);
        let mut info = mlx_sys::mlx_device_info_new();
        let mut known = false;
        let known = mlx_sys::mlx_device_info_get(&raw mut info, device) == 0
            && mlx_sys::mlx_device_info_has_key(&raw mut known, info, key.as_ptr()) == 0
            && known;
        let value = if known { read(info, &key) } else { None };
        mlx_sys::mlx_device_info_free(info);
        mlx_sys::mlx_device_free(device);
        value
    }
}
