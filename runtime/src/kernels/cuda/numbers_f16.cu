// Pairs of float16.
namespace mlxcel {

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

}  // namespace mlxcel
