// What the two kernels of attention share. Each of them is compiled with this text before its own.
namespace mlxcel {

// Below every score that is a number.
constexpr float kLeast = -3.4e38f;

// What a block of the first kernel leaves for each of HEADS queries: the largest score, the sum of the exponentials, and
// the values' sum weighted by them.
template <int HEADS, int DIM>
struct Share {
  float most[HEADS];
  float sum[HEADS];
  float values[HEADS][DIM];
};

}  // namespace mlxcel
