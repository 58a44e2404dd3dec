#include "hyperion/train/memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "hyperion/base/byte_count.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/words.h"
#include "hyperion/nn/offload.h"
#include "hyperion/nn/saved_bytes.h"

namespace hyperion::train {

using base::format;

namespace {

// "48.0 MiB" of LibTorch's "tried to allocate 50331648 bytes" or "Tried to allocate 48.00 MiB. GPU 0 has ..."; else
// empty.
std::string asked_bytes(std::string_view what) {
  constexpr std::string_view kMark = "ried to allocate ";
  const size_t mark = what.find(kMark);
  if (mark == what.npos) return {};
  what.remove_prefix(mark + kMark.size());
  double number = 0;
  const auto [end, error] = std::from_chars(what.data(), what.data() + what.size(), number);
  if (error != std::errc{} || !(number >= 0 && number < 0x1p63)) return {};
  what.remove_prefix(static_cast<size_t>(end - what.data()));
  if (what.starts_with(" bytes")) return base::bytes_text(static_cast<uint64_t>(number));
  const std::string_view unit = what.substr(0, what.find_first_of(".\n"));
  return unit.ends_with("iB") ? format("{:g}{}", number, unit) : "";
}

}  // namespace

void describe(base::Settings& settings, MemoryConfig& config) {
  settings.section("memory", "what is saved of it, for some time")
      .choice("recompute", config.recompute,
              "activations computed again in the backward pass: none; norms, activations and dropout; whole blocks")
      .integer("recompute_every", config.recompute_every, {1, 1024}, "of full: each block, each second, each third")
      .flag("offload_activations", config.offload_activations, "activations wait for the backward in host memory")
      .flag("offload_optimizer", config.offload_optimizer, "masters and moments live in host memory")
      .text("budget", config.budget, "choose the cheapest of these that fits, as 16GiB; empty: as set here")
      .choice("on_oom", config.on_oom,
              "out of memory: fail with advice, or halve the part of the batch computed at once and go on")
      .flag("report", config.report, "show at the start where the memory goes, and keep it as memory.json");
}

void check(const MemoryConfig& config) {
  if (config.recompute_every > 1 && config.recompute != nn::Recompute::blocks)
    throw base::ConfigError(format("memory.recompute_every = {} means nothing to memory.recompute = \"{}\"",
                                   config.recompute_every, base::word_of(config.recompute)),
                            "add --memory.recompute=full");
  if (config.budget.empty()) return;
  bytes_of(config.budget);
  if (config.recompute != nn::Recompute::none || config.offload_activations || config.offload_optimizer)
    throw base::ConfigError("memory.budget chooses the techniques, and memory.recompute or an offload is set too",
                            "leave one of the two out");
}

int64_t bytes_of(const std::string& text) {
  if (const auto bytes = base::byte_count(text)) return *bytes;
  throw base::ConfigError(format("memory.budget = \"{}\" is no amount of memory", text), "write it as 16GiB or 800MB");
}

std::string technique_text(const MemoryConfig& config) {
  std::vector<std::string> parts;
  if (config.recompute == nn::Recompute::selective) parts.push_back("selective recomputation");
  if (config.recompute == nn::Recompute::blocks)
    parts.push_back(config.recompute_every == 1 ? "full recomputation"
                                                : format("recomputation of 1 block in {}", config.recompute_every));
  if (config.offload_activations) parts.push_back("activations on the host");
  if (config.offload_optimizer) parts.push_back("optimizer on the host");
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text.empty() ? "nothing" : text;
}

ForwardMemory::ForwardMemory(const MemoryConfig& config, const nn::Residents& residents, nn::SavedBytesMeter* meter,
                             nn::Pass& pass) {
  pass.recompute = config.recompute;
  pass.recompute_every = config.recompute_every;
  if (meter != nullptr) metered_ = std::make_unique<nn::SaveScope>(*meter);
  if (!config.offload_activations) return;
  offload_ = std::make_unique<nn::OffloadPolicy>(nn::OffloadPolicy::Options{}, residents);
  offloaded_ = std::make_unique<nn::SaveScope>(*offload_);
}

ForwardMemory::~ForwardMemory() {
  offloaded_.reset();  // scopes close in the order they were opened, last first
  metered_.reset();
}

int64_t MemoryReport::peak() const { return std::max(peak_forward, peak_backward); }

std::string memory_table(const MemoryReport& report) {
  std::string out;
  const auto row = [&](const char* name, int64_t bytes) {
    out += format("  {:<23} {:>12}\n", name, base::bytes_text(static_cast<uint64_t>(std::max<int64_t>(bytes, 0))));
  };
  row("weights", report.weights);
  row("gradients", report.gradients);
  row("optimizer", report.optimizer);
  if (report.optimizer_on_host > 0) row("optimizer, on the host", report.optimizer_on_host);
  if (report.checkpoint_on_host > 0) row("checkpoint, on the host", report.checkpoint_on_host);
  row("activations", report.activations);
  row("temporary", report.temporary);
  row("before the forward", report.before);
  const bool staged = report.after_forward == 0;  // forwards and backwards of micro-batches in turns
  if (!staged) row("peak of the forward", report.peak_forward);
  if (!staged) row("after the forward", report.after_forward);
  row(staged ? "peak" : "peak of the backward", report.peak_backward);
  row(staged ? "after the backwards" : "after the backward", report.after_backward);
  return out;
}

std::string to_json(const MemoryReport& report) {
  return base::Json{{"weights", report.weights},
                    {"gradients", report.gradients},
                    {"optimizer", report.optimizer},
                    {"optimizer_on_host", report.optimizer_on_host},
                    {"checkpoint_on_host", report.checkpoint_on_host},
                    {"activations", report.activations},
                    {"temporary", report.temporary},
                    {"before", report.before},
                    {"peak_forward", report.peak_forward},
                    {"after_forward", report.after_forward},
                    {"peak_backward", report.peak_backward},
                    {"after_backward", report.after_backward}}
             .dump(2) +
         "\n";
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (const auto* refused = dynamic_cast<const std::system_error*>(&error))
    return refused->code() == std::errc::not_enough_memory;
  const std::string what = error.what();
  for (const char* sign : {"can't allocate memory", "Cannot allocate memory", "not enough memory", "out of memory"})
    if (what.find(sign) != what.npos) return true;
  return false;
}

base::Error out_of_memory_error(const std::exception& error, std::string_view doing) {
  const std::string asked = asked_bytes(error.what());
  return base::Error(format("memory ran out while {}{}", doing, asked.empty() ? "" : ", asking for " + asked + " more"),
                     "use a smaller batch (in training also a larger train.accumulate), shorter inputs or a smaller "
                     "model; or give the program more memory: `ulimit -v` tells a limit");
}

std::vector<MemoryConfig> choices(const MemoryConfig& config) {
  std::vector<MemoryConfig> list;
  using nn::Recompute;
  const auto add = [&](Recompute recompute, int64_t every, bool activations, bool optimizer) {
    MemoryConfig choice = config;
    choice.recompute = recompute, choice.recompute_every = every;
    choice.offload_activations = activations, choice.offload_optimizer = optimizer;
    list.push_back(choice);
  };
  for (const bool optimizer : {false, true}) {
    add(Recompute::none, 1, false, optimizer);
    add(Recompute::selective, 1, false, optimizer);
    add(Recompute::blocks, 2, false, optimizer);
    add(Recompute::blocks, 1, false, optimizer);
    add(Recompute::blocks, 1, true, optimizer);
  }
  return list;
}

}  // namespace hyperion::train
