#include "hyperion/base/json_fault.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hyperion::base {
namespace {

template <class Read>
std::string fault_of(Read read) {
  try {
    read(nlohmann::json{{"list", {1}}, {"text", "t"}, {"nothing", nullptr}});
  } catch (const nlohmann::json::exception& error) {
    return json_fault(error);
  }
  return "none";
}

TEST(JsonFault, says_in_words_of_our_own_what_a_reader_misses) {
  EXPECT_EQ(fault_of([](const auto& json) { json.at("step"); }), "\"step\" is missing");
  EXPECT_EQ(fault_of([](const auto& json) { (void)json.at("text").template get<int>(); }),
            "where a number should be, there is a string");
  EXPECT_EQ(fault_of([](const auto& json) { (void)json.at("list").template get<std::string>(); }),
            "where a string should be, there is a list");
  EXPECT_EQ(fault_of([](const auto& json) { json.at("nothing").at("x"); }),
            "where an object or a list should be, there is null");
  EXPECT_EQ(fault_of([](const auto& json) { json.at("list").at(3); }), "a list is too short");
}

}  // namespace
}  // namespace hyperion::base
