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

// The operands of a node, with shapes and strides of their own, since arrays may be gone when the node is computed; their
// memory is kept by MLX until then.
class Operands {
 public:
  Operands(const std::vector<mx::array>& inputs, const std::vector<mx::array>& outputs)
      : inputs_num_(inputs.size()) {
    size_t dimensions = 0;
    for (const auto* arrays : {&inputs, &outputs}) {
      for (const auto& array : *arrays) {
        dimensions += array.ndim();
      }
    }
    shapes_.reserve(dimensions);
    strides_.reserve(dimensions);
    operands_.reserve(inputs.size() + outputs.size());
    for (const auto* arrays : {&inputs, &outputs}) {
      for (const auto& array : *arrays) {
        operands_.push_back(
            {const_cast<char*>(array.data<char>()), nullptr, nullptr, array.ndim(), dtype_of(array)});
        shapes_.insert(shapes_.end(), array.shape().begin(), array.shape().end());
        strides_.insert(strides_.end(), array.strides().begin(), array.strides().end());
      }
    }
  }

  const char* compute(mlxcel_computation body, const void* parameters, const void* context) {
    // Set here, where the lists no longer move.
    size_t at = 0;
    for (auto& operand : operands_) {
      operand.shape = shapes_.data() + at;
      operand.strides = strides_.data() + at;
      at += operand.dimensions;
    }
    return body(
        operands_.data(),
        inputs_num_,
        operands_.data() + inputs_num_,
        operands_.size() - inputs_num_,
        parameters,
        context);
  }

 private:
  size_t inputs_num_;
  std::vector<mlxcel_operand> operands_;
  std::vector<std::int32_t> shapes_;
  std::vector<std::int64_t> strides_;
};

class Computation : public mx::Primitive {
 public:
  Computation(
      mx::Stream stream,
      const mlxcel_node& node,
      const Parameters& parameters,
      std::shared_ptr<void> context,
      std::vector<int> reused)
      : mx::Primitive(stream),
        name_(node.name),
        body_(node.computation),
        parameters_(parameters),
        context_(std::move(context)),
        reused_(std::move(reused)) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    auto& encoder = mx::cpu::get_command_encoder(stream());
    for (const auto& input : inputs) {
      encoder.set_input_array(input);
    }
    for (size_t index = 0; index < outputs.size(); ++index) {
      auto& output = outputs[index];
      const mx::array* input = reused_[index] < 0 ? nullptr : &inputs[reused_[index]];
      if (input && !input->flags().row_contiguous) {
        throw std::runtime_error(std::string(name_) + ": an array to be changed does not lie row after row");
      }
      if (input) {
        output.copy_shared_buffer(*input);
      } else {
        output.set_data(mx::allocator::malloc(output.nbytes()));
      }
      encoder.set_output_array(output);
    }
    encoder.dispatch([name = name_,
                      body = body_,
                      parameters = parameters_,
                      context = context_,
                      operands = Operands(inputs, outputs)]() mutable {
      if (const char* fault = operands.compute(body, parameters.data(), context.get())) {
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
    return computation && computation->body_ == body_ && computation->parameters_ == parameters_ &&
        computation->context_ == context_ && computation->reused_ == reused_;
  }

 private:
  const char* name_;
  mlxcel_computation body_;
  Parameters parameters_;
  std::shared_ptr<void> context_;
  std::vector<int> reused_;
};

}  // namespace

extern "C" int mlxcel_add_node(
    const mlxcel_node* node,
    const mlx_array* inputs,
    size_t inputs_num,
    mlx_array* results,
    size_t results_num,
    const int* shapes,
    const size_t* dimensions,
    const mlx_dtype* dtypes,
    const int* reused,
    mlx_stream stream) {
  std::shared_ptr<void> context(node->context, [release = node->release](void* held) {
    if (held) {
      release(held);
    }
  });
  try {
    Parameters parameters{};
    if (node->parameters_size > sizeof(parameters)) {
      throw std::invalid_argument("a node has at most 64 bytes of parameters");
    }
    if (node->parameters_size > 0) {
      std::memcpy(parameters.data(), node->parameters, node->parameters_size);
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
      if (reused[index] >= 0) {
        const auto& source = sources.at(reused[index]);
        if (source.shape() != result_shapes.back() || source.dtype() != result_dtypes.back()) {
          throw std::invalid_argument("a node reuses the memory of an array of another shape");
        }
      }
    }
    auto primitive = std::make_shared<Computation>(
        *static_cast<mx::Stream*>(stream.ctx),
        *node,
        parameters,
        std::move(context),
        std::vector<int>(reused, reused + results_num));
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
