// Which library computes attention on a GPU.
#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>

namespace hyperion::blocks {

enum class AttentionBackend { cudnn, flash };

// Where choices are measured (device/tuning_cache.h): the one kept for this shape, `what`; else each is timed now, and
// the faster kept. Else cuDNN's. `attend` does a forward and a backward, and throws where the library cannot.
AttentionBackend attention_backend(c10::Device device, const std::string& what,
                                   const std::function<void(AttentionBackend)>& attend);

// From here on this one; nothing: as above.
void use_attention_backend(std::optional<AttentionBackend> backend);

}  // namespace hyperion::blocks
