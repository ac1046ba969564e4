// Pairs of bfloat16.
namespace mlxcel {

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

}  // namespace mlxcel
