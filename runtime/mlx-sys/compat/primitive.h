// Computations of our own as nodes of an MLX graph, on the CPU.
#pragma once
#include <cstddef>
#include <cstdint>

#include "mlx/c/array.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

// An array that a computation reads or writes, valid during the call.
typedef struct mlxcel_operand_ {
  void* data;
  const int32_t* shape;
  const int64_t* strides;  // in elements
  size_t dimensions;
  mlx_dtype dtype;
} mlxcel_operand;

// Computes `outputs` (allocated, row after row) from `inputs`. Returns null, or why it could not, as a text that lives for
// ever.
typedef const char* (*mlxcel_computation)(
    const mlxcel_operand* inputs,
    size_t inputs_num,
    const mlxcel_operand* outputs,
    size_t outputs_num,
    const void* parameters,
    const void* context);

// What a node computes and what it keeps.
typedef struct mlxcel_node_ {
  const char* name;  // lives for ever
  mlxcel_computation computation;
  const void* parameters;  // `parameters_size` bytes, at most 64; copied
  size_t parameters_size;
  // Handed to `computation`; released when the node is gone.
  void* context;
  void (*release)(void* context);
} mlxcel_node;

// Adds a node to the graph. `results` are `results_num` fresh handles, whose arrays have the shapes that stand in `shapes`
// one after the other, each of `dimensions[i]` numbers. Where `reused[i]` is not negative, result i is input `reused[i]`
// changed in part, in the input's own memory, whoever else holds it: only what nobody else looks at may be changed, on
// the stream that all of them are computed on. The context is released in any case.
int mlxcel_add_node(
    const mlxcel_node* node,
    const mlx_array* inputs,
    size_t inputs_num,
    mlx_array* results,
    size_t results_num,
    const int* shapes,
    const size_t* dimensions,
    const mlx_dtype* dtypes,
    const int* reused,
    mlx_stream stream);

#ifdef __cplusplus
}
#endif
