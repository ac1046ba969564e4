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

// y = W x + addend for W of `rows` x `columns`, a multiple of 8. SPLIT warps of a block make ROWS results together, AHEAD
// loads of 16 bytes a lane and row at a time. W begins at a multiple of 16 bytes. Sums are float32, in an order that
// depends on the shape alone.
template <typename T, int ROWS, int AHEAD, int SPLIT>
__device__ inline void dense_row(
    const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ addend, T* __restrict__ y, int rows, int columns) {
  __shared__ float partial[32][ROWS];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const int share = warp % SPLIT;
  const int first = (blockIdx.x * (warps / SPLIT) + warp / SPLIT) * ROWS;
  const bool aligned = (reinterpret_cast<size_t>(x) & 15) == 0;
  // Rows beyond the last are read as the last, and not written.
  const T* from[ROWS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    from[row] = w + static_cast<size_t>(min(first + row, rows - 1)) * columns;
  }
  float sum[ROWS] = {};
  for (int start = (share * 32 + lane) * 8; start < columns; start += 256 * AHEAD * SPLIT) {
    uint4 of_w[ROWS][AHEAD], of_x[AHEAD];
#pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {
      const int column = start + ahead * (256 * SPLIT);
#pragma unroll
      for (int row = 0; row < ROWS; ++row) {
        of_w[row][ahead] = streamed_if(from[row] + column, column < columns);
      }
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
        const float2 other = Pairs<T>::floats(word_of(of_x[ahead], index));
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
          const float2 one = Pairs<T>::floats(word_of(of_w[row][ahead], index));
          sum[row] += one.x * other.x;
          sum[row] += one.y * other.y;
        }
      }
    }
  }
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sum[row] += __shfl_xor_sync(0xffffffffu, sum[row], distance);
    }
    if (lane == 0) {
      partial[warp][row] = sum[row];
    }
  }
  __syncthreads();
  if (share == 0 && lane < ROWS && first + lane < rows) {
    float all = static_cast<float>(addend[first + lane]);
    for (int index = 0; index < SPLIT; ++index) {
      all += partial[warp + index][lane];
    }
    y[first + lane] = T(all);
  }
}

}  // namespace mlxcel
