#include "exec/training/training.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "exec/runtime/bind.h"

namespace penstock::exec {
namespace {

AdamHyper hyper_of_step(const TrainingOptions& options, std::int64_t number) {
  AdamHyper hyper = options.hyper;
  const auto warmup = static_cast<double>(options.learning_rate_warmup_steps);
  if (static_cast<double>(number) < warmup) hyper.learning_rate *= static_cast<double>(number) / warmup;
  return hyper;
}

}  // namespace

Training::Training(const Schedule& schedule, const Model& model, Backend& backend)
    : schedule_(schedule), model_(model), backend_(backend), arena_bytes_(penstock::exec::arena_bytes(schedule)) {
  backend.allocate(schedule.tiers, arena_bytes_);
  std::vector<std::byte*> arenas;
  for (std::size_t tier = 0; tier < schedule.tiers.size(); ++tier)
    arenas.push_back(backend.arena(static_cast<int>(tier)));
  program_ = bind_schedule(schedule, model, arenas);
}

void Training::load(const StateSource& source, std::int64_t steps_done) {
  load_states(schedule_, model_, backend_, source);
  steps_done_ = steps_done;
}

ExecutorResult Training::run(const TrainingOptions& options) {
  if (options.tokens == nullptr) throw std::logic_error("a run needs tokens");
  const std::int64_t before = steps_done_;
  program_.source.number = [before](int step) { return before + step + 1; };
  program_.source.hyper = [&options, before](int step) { return hyper_of_step(options, before + step + 1); };
  program_.source.fill_tokens = [&options, before](int step, std::int32_t* tokens) {
    options.tokens->fill(before + step + 1, tokens);
  };
  program_.source.report = options.report;
  ExecutorResult result = execute(program_, backend_, options.executor);
  steps_done_ += result.steps;
  return result;
}

}  // namespace penstock::exec
