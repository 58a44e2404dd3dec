#include "hyperion/train/memory.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <system_error>

#include "hyperion/models/registry.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {
namespace {

TEST(OutOfMemory, is_told_in_our_words_with_what_was_asked_for) {
  const auto told = [](const std::exception& error) {
    EXPECT_TRUE(is_out_of_memory(error)) << error.what();
    return std::string(out_of_memory_error(error, "preparing").what());
  };
  EXPECT_EQ(told(std::bad_alloc()), "memory ran out while preparing");
  EXPECT_EQ(told(std::system_error(ENOMEM, std::generic_category())), "memory ran out while preparing");
  EXPECT_EQ(told(std::runtime_error("[enforce fail at alloc_cpu.cpp:113] data. DefaultCPUAllocator: not enough memory: "
                                    "you tried to allocate 50331648 bytes.\nframe #0: c10::alloc_cpu")),
            "memory ran out while preparing, asking for 48.0 MiB more");
  EXPECT_EQ(told(std::runtime_error("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of")),
            "memory ran out while preparing, asking for 2.5 GiB more");
  EXPECT_FALSE(is_out_of_memory(std::system_error(EAGAIN, std::generic_category())));
}

// In 8 bits the loss goes by pieces of the logits, as on a GPU, unless what is right is counted.
TEST(MemoryReport, has_the_logits_that_the_training_accuracy_needs) {
  RunConfig config;
  config.model.layers = 1, config.model.heads = 2, config.model.width = 32, config.model.context = 32;
  config.train.batch = 8, config.train.length = 32;
  config.train.precision = Precision::fp8;
  config.fp8.measure = false;  // so small a model would stay in bf16
  const auto split = open_split(config, {});
  auto model = models::make_model(models::config_json(config.model), "test");
  model->initialise(1);
  Stepper stepper(*model, config, at::kCPU);
  Feed feed(split, config, {});
  const Batch batch = feed.next();
  const auto without = stepper.measure(batch, {});
  stepper.count_right(true);
  const auto with = stepper.measure(batch, {});
  EXPECT_GT(with.peak(), without.peak());
}

}  // namespace
}  // namespace hyperion::train
