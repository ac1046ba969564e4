// What the kernels of one row share: numbers in pairs. Included before a kernel's own text.
namespace mlxcel {

// Two numbers of a type in one register, and products of 16 rows of them with 8 columns, added up in float32.
template <typename T>
struct Pairs;

__device__ inline unsigned word_of(const uint4& four, int index) {
  return index == 0 ? four.x : index == 1 ? four.y : index == 2 ? four.z : four.w;
}

}  // namespace mlxcel
