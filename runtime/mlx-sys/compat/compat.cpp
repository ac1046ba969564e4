// What mlx-rs expects to link against and mlx-c or the platform does not give it.
#include <dlfcn.h>

#include <cstdint>
#include <ctime>

#include "mlx/array.h"
#include "mlx/c/array.h"
#include "mlx/c/error.h"
#include "mlx/version.h"

// Without hardware half types mlx-c leaves these four out; the bits travel as 16-bit integers.
#ifndef HAS_FLOAT16
extern "C" int mlx_array_item_float16(std::uint16_t* result, const mlx_array source) {
  try {
    auto value = static_cast<mlx::core::array*>(source.ctx)->item<mlx::core::float16_t>();
    *result = *reinterpret_cast<const std::uint16_t*>(&value);
    return 0;
  } catch (std::exception& error) {
    mlx_error(error.what());
    return 1;
  }
}

extern "C" const std::uint16_t* mlx_array_data_float16(const mlx_array source) {
  try {
    return reinterpret_cast<const std::uint16_t*>(
        static_cast<mlx::core::array*>(source.ctx)->data<mlx::core::float16_t>());
  } catch (std::exception& error) {
    mlx_error(error.what());
    return nullptr;
  }
}
#endif

#ifndef HAS_BFLOAT16
extern "C" int mlx_array_item_bfloat16(std::uint16_t* result, const mlx_array source) {
  try {
    auto value = static_cast<mlx::core::array*>(source.ctx)->item<mlx::core::bfloat16_t>();
    *result = *reinterpret_cast<const std::uint16_t*>(&value);
    return 0;
  } catch (std::exception& error) {
    mlx_error(error.what());
    return 1;
  }
}

extern "C" const std::uint16_t* mlx_array_data_bfloat16(const mlx_array source) {
  try {
    return reinterpret_cast<const std::uint16_t*>(
        static_cast<mlx::core::array*>(source.ctx)->data<mlx::core::bfloat16_t>());
  } catch (std::exception& error) {
    mlx_error(error.what());
    return nullptr;
  }
}
#endif

// mlx-rs seeds its random state with it.
#ifndef __APPLE__
extern "C" std::uint64_t mach_approximate_time() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL + static_cast<std::uint64_t>(now.tv_nsec);
}
#endif

// The file that the loader took MLX from, so that a program can hash what really runs. Null when the loader cannot say.
extern "C" const char* mlxcel_library_path() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&mlx::core::version), &info) == 0) {
    return nullptr;
  }
  return info.dli_fname;
}
