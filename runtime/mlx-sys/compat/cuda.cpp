// What the CUDA libraries that the process has loaded say of themselves. They are looked up by name, so that nothing here
// needs a CUDA header or library: in a process without them every answer is "absent".
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace {
constexpr std::int64_t kAbsent = -1;

template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}
}  // namespace

// The value of `size_t name(void)`; -1 without such a function.
extern "C" std::int64_t mlxcel_version_returned(const char* name) {
  auto function = find<std::size_t (*)()>(name);
  return function == nullptr ? kAbsent : static_cast<std::int64_t>(function());
}

// What `int name(int*)` writes; -1 without such a function or when it fails.
extern "C" std::int64_t mlxcel_version_written(const char* name) {
  auto function = find<int (*)(int*)>(name);
  int version = 0;
  return function == nullptr || function(&version) != 0 ? kAbsent : version;
}

// The version of the run-time compiler, as 1000 * major + minor; -1 without one.
extern "C" std::int64_t mlxcel_nvrtc_version() {
  auto function = find<int (*)(int*, int*)>("nvrtcVersion");
  int major = 0;
  int minor = 0;
  return function == nullptr || function(&major, &minor) != 0 ? kAbsent : std::int64_t{1000} * major + minor;
}

// The driver's answer to cuInit: 0 when it is ready, else its error code; -1 without the driver's library.
extern "C" std::int64_t mlxcel_cuda_init() {
  auto function = find<int (*)(unsigned)>("cuInit");
  return function == nullptr ? kAbsent : function(0);
}

// The driver's words for an error code, which it owns; null when it has none.
extern "C" const char* mlxcel_cuda_error(std::int64_t code) {
  auto function = find<int (*)(int, const char**)>("cuGetErrorString");
  const char* words = nullptr;
  if (function == nullptr || function(static_cast<int>(code), &words) != 0) {
    return nullptr;
  }
  return words;
}
