// Operations of an MLX graph kept for use with other inputs. MLX makes an operation anew for each array; one that is a
// kernel of ours carries its source, which takes longer to put together than the whole node.
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "mlx/array.h"
#include "mlx/c/array.h"
#include "mlx/c/error.h"
#include "mlx/c/stream.h"
#include "mlx/primitives.h"

namespace {
namespace mx = mlx::core;
using Operation = std::shared_ptr<mx::Primitive>;

mx::Dtype dtype_of(mlx_dtype dtype) {
  switch (dtype) {
    case MLX_FLOAT32:
      return mx::float32;
    case MLX_FLOAT16:
      return mx::float16;
    case MLX_BFLOAT16:
      return mx::bfloat16;
    default:
      throw std::invalid_argument("an operation of ours results in float32, float16 or bfloat16");
  }
}
}  // namespace

// What `array`, not yet evaluated, is computed by; null when there is nothing to compute.
extern "C" void* mlxcel_operation_of(const mlx_array array) {
  try {
    const auto& source = *static_cast<mx::array*>(array.ctx);
    return source.has_primitive() ? new Operation(source.primitive_ptr()) : nullptr;
  } catch (std::exception& error) {
    mlx_error(error.what());
    return nullptr;
  }
}

extern "C" void mlxcel_operation_free(void* operation) {
  delete static_cast<Operation*>(operation);
}

// An array of this shape that the operation computes from the inputs: 0; 1 where it failed; 2 where the operation belongs
// to another stream than this one.
extern "C" int mlxcel_operation_apply(
    mlx_array* result,
    const void* operation,
    const mlx_array* inputs,
    size_t inputs_num,
    const int* shape,
    size_t dimensions,
    mlx_dtype dtype,
    mlx_stream stream) {
  try {
    const auto& primitive = *static_cast<const Operation*>(operation);
    if (primitive->stream() != *static_cast<mx::Stream*>(stream.ctx)) {
      return 2;
    }
    std::vector<mx::array> sources;
    sources.reserve(inputs_num);
    for (size_t index = 0; index < inputs_num; ++index) {
      sources.push_back(*static_cast<mx::array*>(inputs[index].ctx));
    }
    mx::array made(mx::Shape(shape, shape + dimensions), dtype_of(dtype), primitive, std::move(sources));
    return mlx_array_set(result, mlx_array{&made});
  } catch (std::exception& error) {
    mlx_error(error.what());
    return 1;
  }
}
