// mlx-c uses std::format in a few error messages without including <format>, and libstdc++ before 13 has none.
// Included before every mlx-c source. The stand-in knows `{}` alone, which is all that those messages use.
#pragma once
#if __has_include(<format>)
#include <format>
#else
#include <sstream>
#include <string>
#include <string_view>

namespace std {
namespace mlxcel_format {
inline void append(ostringstream& out, string_view pattern) {
  out << pattern;
}
template <typename First, typename... Rest>
void append(ostringstream& out, string_view pattern, const First& first, const Rest&... rest) {
  const auto hole = pattern.find("{}");
  out << pattern.substr(0, hole);
  if (hole == string_view::npos) {
    return;
  }
  out << first;
  append(out, pattern.substr(hole + 2), rest...);
}
} // namespace mlxcel_format
template <typename... Values>
string format(string_view pattern, const Values&... values) {
  ostringstream out;
  mlxcel_format::append(out, pattern, values...);
  return out.str();
}
} // namespace std
#endif
