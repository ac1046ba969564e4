// The product of one row with a dense matrix. MLX compiles this text when a process first needs it.
namespace mlxcel {

// 16 bytes that are read once, of no use to a cache; zeros where `there` is false.
__device__ inline uint4 streamed_if(const void* from, bool there) {
  uint4 value;
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
      "  @p ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4]; }"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(from), "r"(static_cast<unsigned>(there)));
  return value;
}

// The same of what other warps read as well.
__device__ inline uint4 shared_if(const void* from, bool there) {
  uint4 value;
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
      "  @p ld.global.v4.u32 {%0,%1,%2,%3}, [%4]; }"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(from), "r"(static_cast<unsigned>(there)));
  return value;
}

// 8 elements of x, wherever it begins.
template <typename T>
__device__ inline uint4 piece_of(const T* x, int column, int columns) {
  alignas(16) T some[8];
  for (int index = 0; index < 8; ++index) {
    some[index] = column < columns ? x[column + index] : T(0.0f);
  }
  return *reinterpret_cast<const uint4*>(some);
}

// y = W x + addend for W of `rows` x `columns`, a multiple of 8. SPLIT warps of a block make
// one result together, AHEAD loads of 16 bytes a lane at a time. W begins at a multiple of 16 bytes. Sums are float32, in
// an order that depends on the shape alone.
template <typename T, int AHEAD, int SPLIT>
__device__ inline void dense_row(
    const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ addend, T* __restrict__ y, int rows, int columns) {
  __shared__ float partial[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const int share = warp % SPLIT;
  const int row = blockIdx.x * (warps / SPLIT) + warp / SPLIT;
  const bool aligned = (reinterpret_cast<size_t>(x) & 15) == 0;
  // A row beyond the last is read as the last, and not written.
  const T* const from = w + static_cast<size_t>(min(row, rows - 1)) * columns;
  float sum = 0.0f;
  for (int start = (share * 32 + lane) * 8; start < columns; start += 256 * AHEAD * SPLIT) {
    uint4 of_w[AHEAD], of_x[AHEAD];
#pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {
      const int column = start + ahead * (256 * SPLIT);
      of_w[ahead] = streamed_if(from + column, column < columns);
    }
#pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {
      const int column = start + ahead * (256 * SPLIT);
      of_x[ahead] = aligned ? shared_if(x + column, column < columns) : piece_of(x, column, columns);
    }
#pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {
#pragma unroll
      for (int index = 0; index < 4; ++index) {
        const float2 one = Pairs<T>::floats(word_of(of_w[ahead], index));
        const float2 other = Pairs<T>::floats(word_of(of_x[ahead], index));
        sum += one.x * other.x;
        sum += one.y * other.y;
      }
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  if (lane == 0) {
    partial[warp] = sum;
  }
  __syncthreads();
  if (lane == 0 && share == 0 && row < rows) {
    float all = static_cast<float>(addend[row]);
    for (int index = 0; index < SPLIT; ++index) {
      all += partial[warp + index];
    }
    y[row] = T(all);
  }
}

}  // namespace mlxcel
