// The nodes of a graph that is not evaluated yet. mlx-c prints graphs only into C streams.
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "mlx/array.h"
#include "mlx/c/array.h"
#include "mlx/c/error.h"
#include "mlx/primitives.h"

// Calls `visit` once for each operation that `output` waits for, with the operation's name, which lives during the call.
extern "C" int mlxcel_visit_nodes(const mlx_array output, void (*visit)(const char* name, void* context), void* context) {
  try {
    std::vector<mlx::core::array> left{*static_cast<mlx::core::array*>(output.ctx)};
    std::unordered_set<std::uintptr_t> seen;
    while (!left.empty()) {
      const auto array = left.back();
      left.pop_back();
      if (!array.has_primitive() || array.status() != mlx::core::array::Status::unscheduled ||
          !seen.insert(array.id()).second) {
        continue;
      }
      // An operation with several results is one node. The primitive does not tell nodes apart: all calls of a compiled
      // function share theirs.
      for (const auto& sibling : array.siblings()) {
        seen.insert(sibling.id());
      }
      visit(array.primitive().name(), context);
      for (const auto& input : array.inputs()) {
        left.push_back(input);
      }
    }
    return 0;
  } catch (std::exception& error) {
    mlx_error(error.what());
    return 1;
  }
}
