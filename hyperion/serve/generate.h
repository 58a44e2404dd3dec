// Text in, text out, from a model opened by name.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "hyperion/interop/open_model.h"
#include "hyperion/models/decode.h"

namespace hyperion::serve {

// Continues a prompt of bytes; `on_text` gets each piece as it comes. Returns the whole continuation, without the
// prompt.
std::string generate(interop::OpenedModel& opened, at::Device device, const std::string& prompt,
                     const models::DecodeOptions& options,
                     const std::function<void(std::string_view)>& on_text = nullptr);

}  // namespace hyperion::serve
