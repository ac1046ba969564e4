// What the kernels of one row share: numbers in pairs. Included before a kernel's own text.
namespace mlxcel {

// Two numbers of a type in one register, and products of 16 rows of them with 8 columns, added up in float32.
template <typename T>
struct Pairs;

template <>
struct Pairs<__nv_bfloat16> {
  static constexpr unsigned kOne = 0x3f803f80;
  // 128 + q and 2048 + 16 q where the four bits of q are put below: exact, since a significand has 8 bits.
  static constexpr unsigned kLow = 0x43004300;
  static constexpr unsigned kHigh = 0x45004500;
  static constexpr float kLowOffset = 128.0f;
  static constexpr float kHighOffset = 2048.0f;
  static __device__ unsigned low(unsigned bits) { return bits; }
  static __device__ unsigned high(unsigned bits) { return bits; }
  static __device__ float2 floats(unsigned pair) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
  }
  static __device__ void multiply(
      float (&sum)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

template <>
struct Pairs<__half> {
  static constexpr unsigned kOne = 0x3c003c00;
  // 1024 + q and 16384 + 16 q, from which the offset is taken at once: it would cost digits of the sum.
  static constexpr unsigned kLow = 0x64006400;
  static constexpr unsigned kHigh = 0x74007400;
  static constexpr float kLowOffset = 0.0f;
  static constexpr float kHighOffset = 0.0f;
  static __device__ unsigned less(unsigned bits, unsigned offset) {
    unsigned result;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(bits), "r"(offset));
    return result;
  }
  static __device__ unsigned low(unsigned bits) { return less(bits, kLow); }
  static __device__ unsigned high(unsigned bits) { return less(bits, kHigh); }
  static __device__ float2 floats(unsigned pair) {
    return make_float2(
        __half2float(__ushort_as_half(static_cast<unsigned short>(pair))),
        __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16))));
  }
  static __device__ void multiply(
      float (&sum)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

__device__ inline unsigned word_of(const uint4& four, int index) {
  return index == 0 ? four.x : index == 1 ? four.y : index == 2 ? four.z : four.w;
}

}  // namespace mlxcel
