// What all shares of the keys come to.
namespace mlxcel {

// The values of all shares together: a block for each query, a thread for each dimension.
template <typename T, int HEADS, int DIM, int SHARES>
__device__ inline void attention_result(const float* __restrict__ shares, T* __restrict__ y) {
  const int head = blockIdx.x / HEADS, one = blockIdx.x % HEADS;
  const auto* const all = reinterpret_cast<const Share<HEADS, DIM>*>(shares) + head * SHARES;
  float most = kLeast;
#pragma unroll
  for (int part = 0; part < SHARES; ++part) {
    most = fmaxf(most, all[part].most[one]);
  }
  float sum = 0.0f, value = 0.0f;
#pragma unroll
  for (int part = 0; part < SHARES; ++part) {
    // An empty share has the least of all scores, and weighs nothing.
    const float weight = __expf(all[part].most[one] - most);
    sum += weight * all[part].sum[one];
    value += weight * all[part].values[one][threadIdx.x];
  }
  y[blockIdx.x * DIM + threadIdx.x] = T(value / sum);
}

}  // namespace mlxcel
