// How far weights of linears and tables lie from 0 at their start, where a config.json has no initializer_range: what
// transformers takes in every family that has one.
#pragma once

namespace hyperion::models {

constexpr double kInitStd = 0.02;

}  // namespace hyperion::models
