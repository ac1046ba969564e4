// Attention of one query in each head, over a share of the keys at a time.
namespace mlxcel {

// Ends the program rather than reading what is not there: rows must lie in one piece, where 16 bytes can be read at once.
__device__ inline void require_rows(const void* from, long long step, long long head, long long position) {
  if (step != 1 || head % 8 != 0 || position % 8 != 0 || reinterpret_cast<size_t>(from) % 16 != 0) {
    asm volatile("trap;");
  }
}

__device__ inline uint4 loaded_16(const void* from) {
  return __ldg(static_cast<const uint4*>(from));
}

// The share of one of SHARES parts of the keys, for the HEADS queries that look at the same keys. Block (queries, part);
// `repeats` such blocks of queries look at each head of keys. Strides in elements, of heads and of positions.
template <typename T, int HEADS, int DIM, int SHARES>
__device__ inline void attention_shares(
    const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, float* __restrict__ shares, int length,
    long long q_head, long long k_head, long long k_position, long long v_head, long long v_position, int repeats, float scale) {
  constexpr int kWarps = 8;
  constexpr int kLanes = DIM / 8;     // that read a value together
  constexpr int kKeys = 32 / kLanes;  // values that a warp reads at a time
  constexpr int kTile = HEADS > 4 ? 256 : 512;
  constexpr int kPieces = DIM / 32;   // of 16 bytes, of a key, a lane
  constexpr int kAhead = DIM == 64 ? 4 : 2;
  static_assert(HEADS <= 8, "queries are rows of a matrix of 8, and 8 more that are not used");
  __shared__ float scores[kTile][HEADS];
  __shared__ float sums[kWarps][HEADS][DIM];
  __shared__ float of_warp[kWarps][HEADS];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int quad = lane >> 2, part = lane & 3;
  const int head = blockIdx.x / SHARES, share = blockIdx.x % SHARES;
  const int each = (length + SHARES - 1) / SHARES;
  const int begin = min(share * each, length), end = min(begin + each, length);
  k += head / repeats * k_head + part * 8;
  v += head / repeats * v_head + lane % kLanes * 8;

  // Queries lie as rows for the tensor cores and keys as columns, in one order of dimensions that lets lanes read 16 bytes.
  uint4 query[kPieces];
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    query[piece] = make_uint4(0, 0, 0, 0);
    if (quad < HEADS) {
      query[piece] = loaded_16(q + (head * HEADS + quad) * q_head + piece * 32 + part * 8);
    }
  }
  float most[HEADS], sum[HEADS] = {}, values[HEADS][8] = {};
#pragma unroll
  for (int one = 0; one < HEADS; ++one) {
    most[one] = kLeast;
  }
  for (int start = begin; start < end; start += kTile) {
    const int stop = min(start + kTile, end);
    float most_here = kLeast;  // of the query of this quad
    for (int first = start + warp * 8; first < stop; first += kWarps * 8 * kAhead) {
      uint4 some[kAhead][kPieces];
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        const T* const from = k + min(first + ahead * (kWarps * 8) + quad, stop - 1) * k_position;
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
          some[ahead][piece] = loaded_16(from + piece * 32);
        }
      }
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        float score[4] = {};
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
          const uint4 of_q = query[piece], of_k = some[ahead][piece];
          Pairs<T>::multiply(score, of_q.x, 0, of_q.y, 0, of_k.x, of_k.y);
          Pairs<T>::multiply(score, of_q.z, 0, of_q.w, 0, of_k.z, of_k.w);
        }
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          const int at = first + ahead * (kWarps * 8) + part * 2 + column;
          if (quad < HEADS && at < stop) {
            scores[at - start][quad] = score[column] * scale;
            most_here = fmaxf(most_here, score[column] * scale);
          }
        }
      }
    }
    most_here = fmaxf(most_here, __shfl_xor_sync(0xffffffffu, most_here, 1));
    most_here = fmaxf(most_here, __shfl_xor_sync(0xffffffffu, most_here, 2));
    if (part == 0 && quad < HEADS) {
      of_warp[warp][quad] = most_here;
    }
    __syncthreads();
#pragma unroll
    for (int one = 0; one < HEADS; ++one) {
      const float before = most[one];
#pragma unroll
      for (int index = 0; index < kWarps; ++index) {
        most[one] = fmaxf(most[one], of_warp[index][one]);
      }
      const float less = __expf(before - most[one]);
      sum[one] *= less;
#pragma unroll
      for (int index = 0; index < 8; ++index) {
        values[one][index] *= less;
      }
    }
    constexpr int kStep = kWarps * kKeys;
    for (int first = start + warp * kKeys + lane / kLanes; first < stop; first += kStep * 4) {
      uint4 some[4];
#pragma unroll
      for (int ahead = 0; ahead < 4; ++ahead) {
        some[ahead] = loaded_16(v + min(first + ahead * kStep, stop - 1) * v_position);
      }
#pragma unroll
      for (int ahead = 0; ahead < 4; ++ahead) {
        const int at = first + ahead * kStep;
        float weight[HEADS];
#pragma unroll
        for (int one = 0; one < HEADS; ++one) {
          weight[one] = at < stop ? __expf(scores[min(at, stop - 1) - start][one] - most[one]) : 0.0f;
          sum[one] += weight[one];
        }
#pragma unroll
        for (int index = 0; index < 4; ++index) {
          const float2 two = Pairs<T>::floats(word_of(some[ahead], index));
#pragma unroll
          for (int one = 0; one < HEADS; ++one) {
            values[one][2 * index] += weight[one] * two.x;
            values[one][2 * index + 1] += weight[one] * two.y;
          }
        }
      }
    }
    __syncthreads();
  }
  // Values that other lanes had, then other warps, in order.
#pragma unroll
  for (int one = 0; one < HEADS; ++one) {
#pragma unroll
    for (int distance = 16; distance >= kLanes; distance /= 2) {
      sum[one] += __shfl_xor_sync(0xffffffffu, sum[one], distance);
#pragma unroll
      for (int index = 0; index < 8; ++index) {
        values[one][index] += __shfl_xor_sync(0xffffffffu, values[one][index], distance);
      }
    }
    if (lane < kLanes) {
#pragma unroll
      for (int index = 0; index < 8; ++index) {
        sums[warp][one][lane * 8 + index] = values[one][index];
      }
    }
    if (lane == 0) {
      of_warp[warp][one] = sum[one];
    }
  }
  __syncthreads();
  auto& result = reinterpret_cast<Share<HEADS, DIM>*>(shares)[blockIdx.x];
  for (int index = threadIdx.x; index < HEADS * DIM; index += kWarps * 32) {
    float all = 0.0f;
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      all += sums[other][index / DIM][index % DIM];
    }
    result.values[index / DIM][index % DIM] = all;
  }
  if (threadIdx.x < HEADS) {
    float all = 0.0f;
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      all += of_warp[other][threadIdx.x];
    }
    result.sum[threadIdx.x] = all;
  }
  if (threadIdx.x == 0) {
#pragma unroll
    for (int one = 0; one < HEADS; ++one) {
      result.most[one] = most[one];
    }
  }
}

}  // namespace mlxcel
