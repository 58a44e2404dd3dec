// Which library computes attention on a GPU.
#pragma once

namespace hyperion::kernels {

enum class AttentionBackend { cudnn, flash };
AttentionBackend attention_backend();
void use_attention_backend(AttentionBackend backend);

}  // namespace hyperion::kernels
