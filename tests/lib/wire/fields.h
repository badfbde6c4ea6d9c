// The fields of a plain struct, in order, without naming them: up to seventeen.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace muster {

struct AnyField {
  template <class T>
  // Implicit, because it stands in for any field; never defined: only asked whether it could be.
  operator T() const;  // NOLINT(google-explicit-constructor)
};

template <class T, size_t... i>
constexpr bool TakesFields(std::index_sequence<i...>) {
  return requires { T{((void)i, AnyField{})...}; };
}

template <class T, size_t n = 17>
constexpr size_t FieldCount() {
  if constexpr (TakesFields<T>(std::make_index_sequence<n>()))
    return n;
  else
    return FieldCount<T, n - 1>();
}

template <class T>
auto FieldsOf(T& s) {
  constexpr size_t n = FieldCount<std::remove_const_t<T>>();
  if constexpr (n == 0) return std::tie();
#define MUSTER_FIELDS(count, ...) \
  if constexpr (n == count) {     \
    auto& [__VA_ARGS__] = s;      \
    return std::tie(__VA_ARGS__); \
  }
  MUSTER_FIELDS(1, a)
  MUSTER_FIELDS(2, a, b)
  MUSTER_FIELDS(3, a, b, c)
  MUSTER_FIELDS(4, a, b, c, d)
  MUSTER_FIELDS(5, a, b, c, d, e)
  MUSTER_FIELDS(6, a, b, c, d, e, f)
  MUSTER_FIELDS(7, a, b, c, d, e, f, g)
  MUSTER_FIELDS(8, a, b, c, d, e, f, g, h)
  MUSTER_FIELDS(9, a, b, c, d, e, f, g, h, i)
  MUSTER_FIELDS(10, a, b, c, d, e, f, g, h, i, j)
  MUSTER_FIELDS(11, a, b, c, d, e, f, g, h, i, j, k)
  MUSTER_FIELDS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  MUSTER_FIELDS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  MUSTER_FIELDS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, o)
  MUSTER_FIELDS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p)
  MUSTER_FIELDS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q)
  MUSTER_FIELDS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r)
#undef MUSTER_FIELDS
}

template <class T, class Visitor>
void ForEachField(T& s, Visitor visit) {
  std::apply([&visit](auto&... field) { (visit(field), ...); }, FieldsOf(s));
}

}  // namespace muster
