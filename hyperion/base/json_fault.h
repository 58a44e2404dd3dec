// What is wrong with JSON that was read well, but is not of the form that its reader wants.
#pragma once
#include <exception>
#include <string>

namespace hyperion::base {

// In words of our own, of an exception that nlohmann's library threw: '"step" is missing'.
std::string json_fault(const std::exception& error);

}  // namespace hyperion::base
