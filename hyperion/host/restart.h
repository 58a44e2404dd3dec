// What a launcher that started a job again tells its ranks, besides TORCHELASTIC_RESTART_COUNT (host/launch.h).
#pragma once

namespace hyperion::host {

constexpr const char* kRestartedAfterVariable = "HYPERION_RESTARTED_AFTER";  // what ended it before, in words

}  // namespace hyperion::host
