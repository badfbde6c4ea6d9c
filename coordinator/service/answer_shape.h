// What an answer of REST looks like, said once: the same table makes its JSON and its schema in the
// OpenAPI document, so that none of the two can have a field that the other has not.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/domain/history.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {

using Json = nlohmann::ordered_json;

template <class T>
struct Field {
  std::string name;
  Json schema;  // JSON Schema 2020-12
  std::function<Json(const T&)> value;
  std::string about;  // for people
};

// Every field is in every answer.
template <class T>
struct Shape {
  std::string name;  // in the components of the document
  std::string about;
  std::vector<Field<T>> fields;
};

// Specialised for each type that is answered with (rest_json.h).
template <class T>
const Shape<T>& ShapeOf();

inline Json RefTo(const std::string& name) {
  return {{"$ref", absl::StrCat("#/components/schemas/", name)}};
}

inline Json NullOr(Json schema) {
  if (!schema.contains("type"))
    return {{"anyOf", Json::array({std::move(schema), Json{{"type", "null"}}})}};
  schema["type"] = Json::array({schema["type"], "null"});
  return schema;
}

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};
template <class T>
struct IsList<std::set<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
Json SchemaOf() {
  if constexpr (std::same_as<T, std::string>) {
    return {{"type", "string"}};
  } else if constexpr (std::same_as<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::integral<T>) {
    Json schema = {{"type", "integer"}, {"format", sizeof(T) == 8 ? "int64" : "int32"}};
    if constexpr (std::unsigned_integral<T>) schema = {{"type", "integer"}, {"minimum", 0}};
    return schema;
  } else if constexpr (std::floating_point<T>) {
    return {{"type", "number"}, {"format", "double"}};
  } else if constexpr (IsList<T>::value) {
    return {{"type", "array"}, {"items", SchemaOf<typename T::value_type>()}};
  } else if constexpr (IsOptional<T>::value) {
    return NullOr(SchemaOf<typename T::value_type>());
  } else {
    return RefTo(ShapeOf<T>().name);
  }
}

template <class T>
Json ToJson(const T& value) {
  if constexpr (std::floating_point<T>) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
  } else if constexpr (std::same_as<T, std::string> || std::integral<T>) {
    return value;
  } else if constexpr (IsList<T>::value) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(ToJson(item));
    return list;
  } else if constexpr (IsOptional<T>::value) {
    return value ? ToJson(*value) : Json(nullptr);
  } else {
    Json json = Json::object();
    for (const Field<T>& field : ShapeOf<T>().fields) json[field.name] = field.value(value);
    return json;
  }
}

template <class T, class M>
Field<T> Of(const char* name, M T::*member, const char* about) {
  return {name, SchemaOf<M>(), [member](const T& of) { return ToJson(of.*member); }, about};
}

// Where it has its first value, there is none.
template <class T, class M>
Field<T> NullWhereNone(const char* name, M T::*member, const char* about) {
  return {name, NullOr(SchemaOf<M>()),
          [member](const T& of) { return of.*member == M() ? Json(nullptr) : ToJson(of.*member); },
          about};
}

inline Json TimeSchema() { return {{"type", "string"}, {"format", "date-time"}}; }

template <class T>
Field<T> TimeOf(const char* name, int64_t T::*unix_ms, const char* about) {
  return {name, TimeSchema(), [unix_ms](const T& of) { return Json(UtcTime(of.*unix_ms)); }, about};
}

// 0: there is none.
template <class T>
Field<T> TimeOrNull(const char* name, int64_t T::*unix_ms, const char* about) {
  return {name, NullOr(TimeSchema()),
          [unix_ms](const T& of) {
            return of.*unix_ms == 0 ? Json(nullptr) : Json(UtcTime(of.*unix_ms));
          },
          about};
}

template <class T>
Json ObjectSchema(const Shape<T>& shape) {
  Json properties = Json::object(), required = Json::array();
  for (const Field<T>& field : shape.fields) {
    properties[field.name] = field.schema;
    properties[field.name]["description"] = field.about;
    required.push_back(field.name);
  }
  return {{"type", "object"},
          {"description", shape.about},
          {"properties", std::move(properties)},
          {"required", std::move(required)}};
}

}  // namespace muster::coordinator
