// The one list of a record's keys, for all that write or read them.
#pragma once
#include "hyperion/report/metric_records.h"

namespace hyperion::report {

template <class Record, class Visit>
void each_field(Record& record, Visit&& visit) {
  visit("step", record.step);
  visit("loss", record.loss);
  visit("grad_norm", record.grad_norm);
  visit("lr", record.lr);
  visit("step_ms", record.step_ms);
  visit("tokens", record.tokens);
  visit("tokens_per_s", record.tokens_per_s);
  visit("tflops", record.tflops);
  visit("mfu", record.mfu);
  visit("memory_allocated", record.memory_allocated);
  visit("memory_reserved", record.memory_reserved);
  visit("memory_peak", record.memory_peak);
  visit("data_wait_ms", record.data_wait_ms);
  visit("forward_ms", record.forward_ms);
  visit("backward_ms", record.backward_ms);
  visit("optimizer_ms", record.optimizer_ms);
  visit("comm_ms", record.comm_ms);
  visit("comm_total_ms", record.comm_total_ms);
  visit("comm_bytes", record.comm_bytes);
  visit("samples", record.samples);
  visit("sample_hash", record.sample_hash);
  visit("accuracy", record.accuracy);
  visit("expert_busiest", record.expert_busiest);
  visit("expert_idle", record.expert_idle);
  visit("expert_dropped", record.expert_dropped);
  visit("stopped_ms", record.stopped_ms);
  visit("held_up", record.held_up);
  visit("gpu_clock_mhz", record.gpu_clock);
  visit("gpu_power_w", record.gpu_power);
  visit("gpu_celsius", record.gpu_temperature);
  visit("gpu_busy_percent", record.gpu_busy);
  visit("gpu_slowed", record.gpu_slowed);
  visit("energy_j", record.energy);
  visit("checkpoint_blocked_s", record.checkpoint_blocked_s);
  visit("checkpoint_write_s", record.checkpoint_write_s);
  visit("checkpoint_failure", record.checkpoint_failure);
  visit("unix_s", record.unix_s);
}

template <class Record, class Visit>
void each_eval_field(Record& record, Visit&& visit) {
  visit("step", record.step);
  visit("split", record.split);
  visit("loss", record.loss);
  visit("perplexity", record.perplexity);
  visit("token_accuracy", record.token_accuracy);
  visit("answers_right", record.answers_right);
  visit("top_1", record.top_1);
  visit("top_5", record.top_5);
  visit("best_step", record.best_step);
  visit("documents_cut", record.documents_cut);
  visit("documents_dropped", record.documents_dropped);
  visit("early_stop", record.early_stop);
  visit("unix_s", record.unix_s);
}

}  // namespace hyperion::report
