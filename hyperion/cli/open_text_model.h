// Opens what a command was told to measure or to speak with, and says what the user could not see otherwise.
#pragma once
#include <optional>
#include <string>

#include "hyperion/cli/commands.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/serve/generate.h"

namespace hyperion::cli {

// `quantize` as the flag has it: empty, none or nf4. Where weights are in 4 bits, or are not though the run was trained
// so, a line on stderr says it.
enum class Laid { nothing, an_adapter };  // on the model that is opened: a run's own is then merged first
interop::OpenedModel open_in_form(const std::string& model, at::Device device, const std::string& quantize,
                                  std::optional<at::ScalarType> type = {}, Laid on_it = Laid::nothing);

// Those of --adapter: FOLDER or NAME=FOLDER.
void add_adapters(interop::OpenedModel& opened, const std::vector<std::string>& adapters);

// The same with the adapters of --adapter, and the one of --use in use.
interop::OpenedModel open_text_model(const TextOptions& options, at::Device device);

// The name of the adapter that such a model answers with; empty where it has none.
std::string adapter_in_use(const TextOptions& options, const interop::OpenedModel& opened);

serve::GenerateOptions decoding_of(const TextOptions& options);

// A result may be written over another, but over nothing of the model it is of. Throws ConfigError.
void refuse_within_model(const base::Path& output, const interop::OpenedModel& opened);

}  // namespace hyperion::cli
