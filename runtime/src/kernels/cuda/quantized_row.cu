// The product of one row with a quantized matrix. MLX compiles this text when a process first needs it.
namespace mlxcel {

// Copies to shared memory while the thread goes on. A warp reads what it copied itself, so that no block need wait.
__device__ inline void copy_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
               :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
}

// The same of what every block reads: by way of the nearest cache, since all at once would ask the same few places for it.
__device__ inline void copy_16_often_read(uint4* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;"
               :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
}

__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all but the last PENDING groups of copies are there.
template <int PENDING>
__device__ inline void await_copies() { asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory"); }

// What a warp reads of 8 groups of 16 rows: x in PARTS parts of PIECES times 16 bytes, each part a lane's, in rows
// of a length that keeps lanes off each other's banks. A part more is zeros, for lanes whose column has none.
template <int STRETCHES, int PARTS, int PIECES>
struct Stage {
  static constexpr int kRow = PARTS + 8 / PIECES;
  uint4 fields[STRETCHES][2][32];
  uint4 x[PIECES * kRow];
  unsigned scales[16][4];
  unsigned biases[16][4];
};

// (bits & mask) | above in one instruction, which the compiler makes two of when it knows the numbers.
__device__ inline unsigned put(unsigned bits, unsigned mask, unsigned above) {
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(bits), "r"(mask), "r"(above));
  return result;
}

__device__ inline unsigned unknown(unsigned value) {
  unsigned result;
  asm volatile("mov.b32 %0, %1;" : "=r"(result) : "r"(value));
  return result;
}

// y = W x + addend for W of `rows` x `words` 32-bit words, quantized in BITS (4 or 8) and groups of GROUP. The columns are a multiple of 8 groups; every array but x begins at a multiple of 16 bytes.
//
// A block makes 16 results; its warps share the columns, 8 groups at a time. Each lane reads 16 bytes of a row: four lanes
// a stretch of one row, eight quads the stretches of eight rows, and once more eight. That is how a matrix of 16 rows lies
// for the tensor cores, up to an order of columns that x is given as well. Of the 8 columns of the other matrix, each holds
// the x of one group, and zeros beside it: so one product gives the sums of the groups apart. Sums are float32, in an order
// that depends on the shape alone.
template <typename T, int BITS, int GROUP, int STAGES>
__device__ inline void quantized_row(
    const T* __restrict__ x, const unsigned* __restrict__ w, const T* __restrict__ scales, const T* __restrict__ biases,
    const T* __restrict__ addend, T* __restrict__ y, int rows, int words) {
  using P = Pairs<T>;
  constexpr int kFields = 128 / BITS;
  constexpr int kStretch = 4 * kFields;
  constexpr int kGroups = kStretch / GROUP;  // in a stretch
  static_assert(kGroups > 0, "a group is as long as a stretch at most");
  constexpr int kStretches = 8 / kGroups;
  constexpr int kPieces = kFields / 8;  // of 16 bytes, in a lane's part of x
  constexpr int kParts = 8 * GROUP / kFields;
  constexpr unsigned kMask = 0x000f000f;
  constexpr float kOffset = BITS == 4 ? P::kLowOffset : P::kLowOffset + P::kHighOffset;
  using S = Stage<kStretches, kParts, kPieces>;
  extern __shared__ uint4 memory[];
  __shared__ float partial[16][16];

  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const int quad = lane >> 2, part = lane & 3;
  const int first = blockIdx.x * 16;
  const int groups = words * (32 / BITS) / GROUP;
  const int blocks = groups / 8;
  const bool own = part * kFields / GROUP == quad % kGroups;
  const int own_part = own ? quad * (GROUP / kFields) + part % (GROUP / kFields) : kParts;
  const bool aligned = (reinterpret_cast<size_t>(x) & 15) == 0;
  const unsigned low = unknown(P::kLow), high = unknown(P::kHigh);
  S* stages = reinterpret_cast<S*>(memory) + warp * STAGES;

  // Rows beyond the last are read as the last, and not written.
  const auto row_at = [&](int row) { return static_cast<size_t>(min(first + row, rows - 1)); };
  const unsigned* const upper = w + row_at(quad) * words + part * 4;
  const unsigned* const lower = w + row_at(quad + 8) * words + part * 4;
  const T* const parameters = (lane < 16 ? scales : biases) + row_at(lane & 15) * groups;
  const auto fetch = [&](int block, int stage) {
    if (block < blocks) {
      S& to = stages[stage];
      const int word = block * (8 * GROUP * BITS / 32);
#pragma unroll
      for (int stretch = 0; stretch < kStretches; ++stretch) {
        copy_16(&to.fields[stretch][0][lane], upper + word + stretch * 16);
        copy_16(&to.fields[stretch][1][lane], lower + word + stretch * 16);
      }
      copy_16((lane < 16 ? to.scales : to.biases)[lane & 15], parameters + block * 8);
#pragma unroll
      for (int piece = lane; piece < GROUP; piece += 32) {
        uint4* const at = &to.x[piece % kPieces * S::kRow + piece / kPieces];
        const T* const from = x + block * (8 * GROUP) + piece * 8;
        if (aligned) {
          copy_16_often_read(at, from);
        } else {
          for (int index = 0; index < 8; ++index) {
            reinterpret_cast<T*>(at)[index] = from[index];
          }
        }
      }
    }
    end_copies();
  };
  if (lane < kPieces) {
    for (int stage = 0; stage < STAGES; ++stage) {
      stages[stage].x[lane * S::kRow + kParts] = make_uint4(0, 0, 0, 0);
    }
  }

  float sum[2] = {};
#pragma unroll
  for (int stage = 0; stage < STAGES; ++stage) {
    fetch(warp + stage * warps, stage);
  }
  int stage = 0;
  for (int block = warp; block < blocks; block += warps) {
    await_copies<STAGES - 1>();
    __syncwarp();
    const S& here = stages[stage];
    // x in the order in which fields lie 16 bits apart.
    unsigned xs[kPieces * 4];
#pragma unroll
    for (int index = 0; index < kPieces; ++index) {
      const uint4 piece = here.x[index * S::kRow + own_part];
      const unsigned first_pair = piece.x, second_pair = BITS == 4 ? piece.z : piece.y;
      const unsigned third_pair = BITS == 4 ? piece.y : piece.z, fourth_pair = piece.w;
      xs[4 * index] = __byte_perm(first_pair, second_pair, 0x5410);
      xs[4 * index + 1] = __byte_perm(first_pair, second_pair, 0x7632);
      xs[4 * index + 2] = __byte_perm(third_pair, fourth_pair, 0x5410);
      xs[4 * index + 3] = __byte_perm(third_pair, fourth_pair, 0x7632);
    }
    // The sums of x over each group: every row times one.
    float of_x[4] = {};
#pragma unroll
    for (int index = 0; index < kPieces * 4; index += 2) {
      P::multiply(of_x, P::kOne, P::kOne, P::kOne, P::kOne, xs[index], xs[index + 1]);
    }
    float of_group[4] = {};
#pragma unroll
    for (int stretch = 0; stretch < kStretches; ++stretch) {
      float product[4] = {};
      const uint4 ups = here.fields[stretch][0][lane], downs = here.fields[stretch][1][lane];
#pragma unroll
      for (int index = 0; index < 4; ++index) {
        const unsigned up = word_of(ups, index), down = word_of(downs, index);
#pragma unroll
        for (int shift = 0; shift < 16; shift += 8) {
          const unsigned up_low = P::low(put(up >> shift, kMask, low)), down_low = P::low(put(down >> shift, kMask, low));
          const unsigned up_next = up >> (shift + 4), down_next = down >> (shift + 4);
          if constexpr (BITS == 4) {
            const int at = 4 * index + shift / 4;
            P::multiply(
                product, up_low, down_low, P::low(put(up_next, kMask, low)), P::low(put(down_next, kMask, low)), xs[at],
                xs[at + 1]);
          } else {
            // A field in two halves, of which the upper counts sixteenfold.
            const unsigned both = xs[2 * index + shift / 8];
            P::multiply(
                product, up_low, down_low, P::high(put(up_next, kMask, high)), P::high(put(down_next, kMask, high)), both,
                both);
          }
        }
      }
      // Columns whose group lies in this stretch; in the others, fields met the x of other groups.
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        if ((part * 2 + column) / kGroups == stretch) {
          of_group[column] = product[column];
          of_group[2 + column] = product[2 + column];
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 scale = P::floats(here.scales[half * 8 + quad][part]);
      const float2 bias = P::floats(here.biases[half * 8 + quad][part]);
      sum[half] += scale.x * of_group[2 * half] + (bias.x - kOffset * scale.x) * of_x[0];
      sum[half] += scale.y * of_group[2 * half + 1] + (bias.y - kOffset * scale.y) * of_x[1];
    }
    __syncwarp();
    fetch(block + STAGES * warps, stage);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float one = sum[half];
    one += __shfl_xor_sync(0xffffffffu, one, 1);
    one += __shfl_xor_sync(0xffffffffu, one, 2);
    if (part == 0) {
      partial[warp][half * 8 + quad] = one;
    }
  }
  __syncthreads();
  const int row = first + threadIdx.x;
  if (threadIdx.x < 16 && row < rows) {
    float all = static_cast<float>(addend[row]);
    for (int index = 0; index < warps; ++index) {
      all += partial[index][threadIdx.x];
    }
    y[row] = T(all);
  }
}

}  // namespace mlxcel
