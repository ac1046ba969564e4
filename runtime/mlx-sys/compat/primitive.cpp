// Computations of our own as nodes of an MLX graph, on the CPU.
#include "primitive.h"

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mlx/allocator.h"
#include "mlx/array.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/c/error.h"
#include "mlx/primitives.h"

namespace {

namespace mx = mlx::core;

using Parameters = std::array<std::uint64_t, 8>;

// The numbers of mlx_dtype are those of MLX's own enumeration.
mx::Dtype dtype_of(mlx_dtype dtype) {
  switch (dtype) {
    case MLX_FLOAT32:
      return mx::float32;
    case MLX_FLOAT16:
      return mx::float16;
    case MLX_BFLOAT16:
      return mx::bfloat16;
    default:
      throw std::invalid_argument("a node computes float32, float16 or bfloat16");
  }
}

mlx_dtype dtype_of(const mx::array& array) {
  switch (array.dtype().val()) {
    case mx::Dtype::Val::float32:
      return MLX_FLOAT32;
    case mx::Dtype::Val::float16:
      return MLX_FLOAT16;
    case mx::Dtype::Val::bfloat16:
      return MLX_BFLOAT16;
    case mx::Dtype::Val::uint32:
      return MLX_UINT32;
    case mx::Dtype::Val::uint8:
      return MLX_UINT8;
    case mx::Dtype::Val::int32:
      return MLX_INT32;
    case mx::Dtype::Val::bool_:
      return MLX_BOOL;
    default:
      throw std::invalid_argument("a node was given an array of a data type that it does not read");
  }
}

mlxcel_operand operand_of(const mx::array& array) {
  return {
      const_cast<char*>(array.data<char>()),
      array.shape().data(),
      array.strides().data(),
      array.ndim(),
      dtype_of(array)};
}

std::vector<mlxcel_operand> operands_of(const std::vector<mx::array>& arrays) {
  std::vector<mlxcel_operand> operands;
  operands.reserve(arrays.size());
  for (const auto& array : arrays) {
    operands.push_back(operand_of(array));
  }
  return operands;
}

class Computation : public mx::Primitive {
 public:
  Computation(mx::Stream stream, const char* name, mlxcel_computation body, const Parameters& parameters)
      : mx::Primitive(stream), name_(name), body_(body), parameters_(parameters) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    auto& encoder = mx::cpu::get_command_encoder(stream());
    std::vector<mx::array> sources;
    sources.reserve(inputs.size());
    for (const auto& input : inputs) {
      encoder.set_input_array(input);
      sources.push_back(mx::array::unsafe_weak_copy(input));
    }
    std::vector<mx::array> targets;
    targets.reserve(outputs.size());
    for (auto& output : outputs) {
      output.set_data(mx::allocator::malloc(output.nbytes()));
      encoder.set_output_array(output);
      targets.push_back(mx::array::unsafe_weak_copy(output));
    }
    encoder.dispatch([name = name_,
                      body = body_,
                      parameters = parameters_,
                      sources = std::move(sources),
                      targets = std::move(targets)]() {
      auto in = operands_of(sources);
      auto out = operands_of(targets);
      if (const char* fault = body(in.data(), in.size(), out.data(), out.size(), parameters.data())) {
        throw std::runtime_error(std::string(name) + ": " + fault);
      }
    });
  }

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error(std::string(name_) + " is computed on the CPU only; put it on a CPU stream");
  }

  const char* name() const override {
    return name_;
  }

  bool is_equivalent(const mx::Primitive& other) const override {
    const auto* computation = dynamic_cast<const Computation*>(&other);
    return computation && computation->body_ == body_ && computation->parameters_ == parameters_;
  }

 private:
  const char* name_;
  mlxcel_computation body_;
  Parameters parameters_;
};

}  // namespace

extern "C" int mlxcel_add_node(
    const char* name,
    mlxcel_computation computation,
    const void* parameters,
    size_t parameters_size,
    const mlx_array* inputs,
    size_t inputs_num,
    mlx_array* results,
    size_t results_num,
    const int* shapes,
    const size_t* dimensions,
    const mlx_dtype* dtypes,
    mlx_stream stream) {
  try {
    Parameters held{};
    if (parameters_size > sizeof(held)) {
      throw std::invalid_argument("a node has at most 64 bytes of parameters");
    }
    if (parameters_size > 0) {
      std::memcpy(held.data(), parameters, parameters_size);
    }
    std::vector<mx::array> sources;
    sources.reserve(inputs_num);
    for (size_t index = 0; index < inputs_num; ++index) {
      sources.push_back(*static_cast<mx::array*>(inputs[index].ctx));
    }
    std::vector<mx::Shape> result_shapes;
    std::vector<mx::Dtype> result_dtypes;
    for (size_t index = 0; index < results_num; ++index) {
      result_shapes.emplace_back(shapes, shapes + dimensions[index]);
      result_dtypes.push_back(dtype_of(dtypes[index]));
      shapes += dimensions[index];
    }
    auto on = *static_cast<mx::Stream*>(stream.ctx);
    auto primitive = std::make_shared<Computation>(on, name, computation, held);
    auto arrays =
        mx::array::make_arrays(std::move(result_shapes), result_dtypes, primitive, std::move(sources));
    for (size_t index = 0; index < results_num; ++index) {
      mlx_array_set(&results[index], mlx_array{&arrays[index]});
    }
    return 0;
  } catch (std::exception& error) {
    mlx_error(error.what());
    return 1;
  }
}
