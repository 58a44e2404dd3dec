// Models of every family as stages of a pipeline: real lists, real messages between ranks that are threads, losses and
// gradients of the model in one piece.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "hyperion/blocks/later_gradients.h"
#include "hyperion/comm/local_transport.h"
#include "hyperion/models/planned_model.h"
#include "hyperion/models/stage.h"
#include "hyperion/parallel/pipeline_runner.h"
#include "hyperion/strategy/plan_check.h"
#include "tests/models/support_variants.h"

namespace hyperion::train {
namespace {

using models::Model;
using testing::ModelVariant;

constexpr int64_t kRows = 2, kTokens = 12;

struct MicroBatch {
  at::Tensor input, targets;
};

std::vector<MicroBatch> micro_batches(const Model& model, int64_t count) {
  std::vector<MicroBatch> list;
  for (int64_t i = 0; i < count; ++i) {
    auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
    generator.set_current_seed(static_cast<uint64_t>(100 + i));
    if (model.input() == models::Input::images) {
      list.push_back(
          {at::randn({kRows, 3, 16, 16}, generator, at::kFloat), at::randint(0, 7, {kRows}, generator, at::kLong)});
    } else {
      const auto ids = at::randint(0, 301, {kRows, kTokens}, generator, at::kLong);
      list.push_back({ids, ids.roll(1, 1)});
    }
  }
  return list;
}

nn::Pass pass_of(int64_t micro_batch, nn::Recompute recompute) {
  nn::Pass pass;
  pass.training = true, pass.seed = 3, pass.step = 4;
  pass.micro_batch = static_cast<uint32_t>(micro_batch);
  pass.fused_blocks = true, pass.recompute = recompute;
  return pass;
}

// Four blocks, and no balance of experts, which is one of all layers.
ModelVariant deeper(ModelVariant variant) {
  for (const char* layers : {"\"n_layer\": 2", "\"num_hidden_layers\": 2"})
    if (const size_t at = variant.config.find(layers); at != std::string::npos)
      variant.config[at + std::string(layers).size() - 1] = '4';
  if (const size_t at = variant.config.find("\"output_router_logits\": true"); at != std::string::npos)
    variant.config.replace(at, 28, "\"output_router_logits\": false");
  return variant;
}

// The stages of one rank, of a model of its own.
class ModelStages : public parallel::PipelineStages {
 public:
  ModelStages(Model& model, const strategy::Plan& plan, const std::vector<MicroBatch>& batches, nn::Recompute recompute)
      : model_(model), plan_(plan), batches_(batches), recompute_(recompute) {}

  parallel::StageTensors forward(int64_t stage, int64_t micro_batch, const parallel::StageTensors& hidden) override {
    const auto& [input, targets] = batches_[static_cast<size_t>(micro_batch)];
    auto pass = pass_of(micro_batch, recompute_);
    if (splits()) pass.later = &later_[{stage, micro_batch}];
    const auto s = static_cast<size_t>(stage);
    const models::Stage part{plan_.first_blocks[s], plan_.first_blocks[s + 1], stage == 0,
                             stage + 1 == plan_.pipeline.stages()};
    const auto given = models::run_stage(
        *model_.parts(), part, part.first ? models::Hidden{input} : models::Hidden{hidden.states}, targets, pass);
    return {given.states};
  }
  void backward(int64_t, int64_t, const parallel::StageTensors& given,
                const parallel::StageTensors& gradient) override {
    given.states.backward(gradient.states);
  }
  void backward_weights(int64_t stage, int64_t micro_batch) override {
    if (splits()) later_.extract({stage, micro_batch}).mapped().make();
  }

 private:
  bool splits() const { return strategy::splits_backward(plan_.pipeline.schedule); }

  Model& model_;
  const strategy::Plan& plan_;
  const std::vector<MicroBatch>& batches_;
  nn::Recompute recompute_;
  std::map<std::pair<int64_t, int64_t>, blocks::LaterGradients> later_;
};

// A link from one rank to another: both ends.
struct Link {
  std::unique_ptr<comm::Group> sender, receiver;
};

// From each rank four: to the next one and to the one before, and as many for the stages of a V that lie the other way.
constexpr size_t kLinks = 4;
std::vector<Link> links_of(int ranks) {
  std::vector<Link> links(kLinks * static_cast<size_t>(ranks));
  for (auto& [sender, receiver] : links) {
    auto wires = comm::make_local_transports(2, std::chrono::seconds(20));
    sender = std::make_unique<comm::Group>("out", std::move(wires[0]));
    receiver = std::make_unique<comm::Group>("in", std::move(wires[1]));
  }
  return links;
}

parallel::PipelineLinks of_rank(const std::vector<Link>& links, int rank, const strategy::Pipeline& pipeline) {
  const auto find = [&](size_t place, int from) -> comm::Group* {
    const auto& link = links[kLinks * static_cast<size_t>(from) + place];
    return from == rank ? link.sender.get() : link.receiver.get();
  };
  const auto ranks = static_cast<int>(pipeline.ranks);
  if (ranks == 1) return {};
  const int before = (rank + ranks - 1) % ranks, after = (rank + 1) % ranks;
  return {{find(0, before), find(0, rank), find(1, after), find(1, rank)},
          {find(2, after), find(2, rank), find(3, before), find(3, rank)},
          strategy::is_v(pipeline.schedule) ? pipeline.ranks : 0};
}

// Of what each rank is said to have computed when: all of its list, one after the other, and no micro-batch at a stage
// before the stage that hands it on was done with it.
void expect_in_order(const strategy::Plan& plan, const std::vector<parallel::PipelineTimes>& times) {
  using strategy::Does;
  std::map<std::tuple<Does, int64_t, int64_t>, strategy::TimedWork> found;
  int64_t split = 0, weights = 0;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    const auto& list = plan.ranks[rank];
    double last = 0;
    for (const auto& work : times[rank].read()) {
      EXPECT_LE(last, work.begin);
      EXPECT_LT(work.begin, work.end);
      last = work.end;
      const auto& instruction = list.at(work.instruction);
      const bool splits = instruction.does == Does::backward_input;  // which is what the others wait for
      found[{splits ? Does::backward : instruction.does, instruction.stage, instruction.micro_batch}] = work;
      weights += instruction.does == Does::backward_weights ? 1 : 0;
      split += splits ? 1 : 0;
    }
  }
  EXPECT_EQ(std::ssize(found), 2 * plan.pipeline.stages() * plan.pipeline.micro_batches + weights);
  EXPECT_EQ(split, weights);
  EXPECT_EQ(weights > 0, strategy::splits_backward(plan.pipeline.schedule));
  for (const auto& [what, work] : found) {
    const auto& [does, stage, micro_batch] = what;
    const bool forward = does == Does::forward;
    const int64_t before = forward ? stage - 1 : stage + 1;
    if (does == Does::backward_weights) {
      EXPECT_LE(found.at({Does::backward, stage, micro_batch}).end, work.begin) << stage << " of " << micro_batch;
      continue;
    }
    ASSERT_TRUE(forward || does == Does::backward);
    if (before >= 0 && before < plan.pipeline.stages()) {
      EXPECT_LE(found.at({does, before, micro_batch}).end, work.begin) << stage << " of " << micro_batch;
    }
  }
}

struct Learned {
  std::vector<at::Tensor> losses;
  std::map<std::string, at::Tensor> gradients;  // sums over the ranks that hold a parameter
};

Learned in_one_piece(const ModelVariant& variant, int64_t count, nn::Recompute recompute) {
  const auto model = testing::made(variant);
  Learned learned;
  const auto batches = micro_batches(*model, count);
  for (int64_t i = 0; i < count; ++i) {
    auto pass = pass_of(i, recompute);
    const auto& [input, targets] = batches[static_cast<size_t>(i)];
    const auto loss = model->loss(input, targets, pass);
    loss.backward();
    learned.losses.push_back(loss.detach());
  }
  for (auto& parameter : model->parameters())
    if (parameter.tensor.grad().defined()) learned.gradients[parameter.name] = parameter.tensor.grad();
  return learned;
}

Learned by_stages(const ModelVariant& variant, const strategy::Pipeline& pipeline, nn::Recompute recompute) {
  const auto ranks = static_cast<int>(pipeline.ranks);
  std::vector<std::unique_ptr<Model>> models;
  for (int rank = 0; rank < ranks; ++rank) models.push_back(testing::made(variant));
  const auto batches = micro_batches(*models[0], pipeline.micro_batches);
  const int64_t length = models[0]->input() == models::Input::images ? 5 : kTokens;  // patches and the class token
  const auto plan =
      strategy::make_plan(models::planned_model(*models[0], length), {.layout = {.pp = pipeline.ranks},
                                                                      .schedule = pipeline.schedule,
                                                                      .chunks = pipeline.chunks,
                                                                      .micro_batches = pipeline.micro_batches,
                                                                      .samples = kRows,
                                                                      .length = length});
  strategy::check(plan);
  const auto links = links_of(ranks);
  Learned learned;
  std::vector<std::vector<at::Tensor>> losses(static_cast<size_t>(ranks));
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  std::vector<parallel::PipelineTimes> times;
  for (int rank = 0; rank < ranks; ++rank) times.emplace_back(at::kCPU).begin();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto r = static_cast<size_t>(rank);
      try {
        ModelStages stages(*models[r], plan, batches, recompute);
        losses[r] = parallel::run_pipeline(plan.ranks[r], stages, of_rank(links, rank, pipeline), at::kFloat,
                                           /*beside=*/0, &times[r]);
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  const auto last = static_cast<size_t>(pipeline.last_rank());
  for (size_t rank = 0; rank < losses.size(); ++rank) EXPECT_EQ(losses[rank].empty(), rank != last);
  expect_in_order(plan, times);
  learned.losses = losses[last];
  for (const auto& model : models)
    for (auto& parameter : model->parameters()) {
      if (!parameter.tensor.grad().defined()) continue;
      auto& sum = learned.gradients[parameter.name];
      sum = sum.defined() ? sum + parameter.tensor.grad() : parameter.tensor.grad();
    }
  return learned;
}

void expect_same(const Learned& found, const Learned& expected, const std::set<std::string>& summed) {
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (size_t i = 0; i < found.losses.size(); ++i) EXPECT_TRUE(found.losses[i].equal(expected.losses[i])) << i;
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    const auto& other = found.gradients.at(name);
    if (summed.contains(name))  // of the two ends, in another order
      EXPECT_TRUE(other.allclose(gradient, 1e-5, 1e-7)) << name;
    else
      EXPECT_TRUE(other.equal(gradient)) << name;
  }
}

// To the bit: gradients are summed in the order of the micro-batches whatever the schedule. Dropout is on.
TEST(PipelineRunner, learns_what_the_model_in_one_piece_learns_to_the_bit) {
  const std::vector<strategy::Pipeline> pipelines = {{strategy::PipelineSchedule::gpipe, 2, 1, 3},
                                                     {strategy::PipelineSchedule::gpipe, 4, 1, 2},
                                                     {strategy::PipelineSchedule::one_forward_one_backward, 1, 1, 2},
                                                     {strategy::PipelineSchedule::one_forward_one_backward, 2, 1, 5},
                                                     {strategy::PipelineSchedule::one_forward_one_backward, 4, 1, 6},
                                                     {strategy::PipelineSchedule::interleaved, 2, 2, 4},
                                                     {strategy::PipelineSchedule::interleaved, 1, 3, 2},
                                                     {strategy::PipelineSchedule::zb_h1, 2, 1, 5},
                                                     {strategy::PipelineSchedule::zb_h1, 4, 1, 6},
                                                     {strategy::PipelineSchedule::zb_v, 2, 2, 3},
                                                     {strategy::PipelineSchedule::dualpipe_v, 2, 2, 5},
                                                     {strategy::PipelineSchedule::zb_v, 1, 2, 2}};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // each rank is a thread
  int cases = 0;
  for (const auto& given : testing::model_variants()) {
    const auto variant = deeper(given);
    const auto whole = testing::made(variant);
    if (whole->parts() == nullptr) continue;
    const auto tied = models::planned_model(*whole, kTokens).tied;
    for (const auto& pipeline : pipelines) {
      SCOPED_TRACE(::testing::Message() << variant.name << ", schedule " << static_cast<int>(pipeline.schedule)
                                        << ", pp " << pipeline.ranks << ", chunks " << pipeline.chunks);
      const auto recompute = pipeline.ranks == 2 ? nn::Recompute::blocks : nn::Recompute::none;
      expect_same(by_stages(variant, pipeline, recompute), in_one_piece(variant, pipeline.micro_batches, recompute),
                  {pipeline.stages() > 1 ? tied : ""});
      ++cases;
    }
  }
  at::set_num_threads(threads);
  EXPECT_EQ(cases, 14 * 12);
}

// A rank that fails leaves nobody waiting beyond the timeout of its wires: its neighbours are told.
TEST(PipelineRunner, a_list_that_is_cut_short_ends_in_an_error) {
  const auto variant = deeper(testing::model_variants().front());
  const auto model = testing::made(variant);
  auto plan = strategy::make_plan(models::planned_model(*model, kTokens),
                                  {.layout = {.pp = 2}, .micro_batches = 2, .samples = kRows, .length = kTokens});
  auto& list = plan.ranks[0];
  list.erase(std::find_if(list.begin(), list.end(), [](const auto& i) { return i.does == strategy::Does::forward; }));
  EXPECT_TRUE(strategy::find_defect(plan));
  const auto batches = micro_batches(*model, 2);
  ModelStages stages(*model, plan, batches, nn::Recompute::none);
  auto wires = comm::make_local_transports(2, std::chrono::milliseconds(300));
  comm::Group out("out", std::move(wires[0]));
  EXPECT_ANY_THROW(parallel::run_pipeline(plan.ranks[0], stages, {.down = {.states_out = &out}}, at::kFloat));
}

}  // namespace
}  // namespace hyperion::train
