// A few steps of a small model on the host backend.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "exec/host/backend.h"
#include "exec/memory/host_memory.h"
#include "exec/runtime/bind.h"
#include "exec/training/training.h"
#include "shared/ir/checker.h"
#include "tests/shared/policy/small_models.h"

namespace penstock::exec {

/// Everything that must not depend on the schedule.
struct RunBits {
  std::vector<double> losses;
  std::vector<double> balances;  // of a model that asks for the load-balancing loss
  std::vector<double> norms;
  std::uint64_t states = 0;

  bool operator==(const RunBits&) const = default;
};

inline TokenShape token_shape(const PolicyInput& in) {
  return {in.sequences, in.sequence_length, in.model.config.vocabulary};
}

inline std::int64_t bytes_on_drive(const Schedule& schedule) {
  const std::vector<std::int64_t> bytes = arena_bytes(schedule);
  for (std::size_t tier = 0; tier < bytes.size(); ++tier)
    if (schedule.tiers[tier].kind == TierKind::nvme) return bytes[tier];
  return 0;
}

/// Keeps a schedule, a backend and the training over them together.
class SmallRun {
 public:
  using MakeDrive = std::function<std::unique_ptr<Memory>(std::int64_t bytes)>;

  /// Without `make_drive` memory stands in for a drive: what is tested then are schedules.
  explicit SmallRun(const PolicyInput& in, std::uint64_t seed = 7, const MakeDrive& make_drive = {},
                    const HostBackendOptions& options = {})
      : model_(in.model),
        schedule_(make_schedule(in)),
        backend_(make_host_backend(options)),
        tokens_(random_tokens(token_shape(in), seed)) {
    require_valid(schedule_);
    const std::int64_t bytes = bytes_on_drive(schedule_);
    std::unique_ptr<Memory> drive = make_drive ? make_drive(bytes) : std::make_unique<HostMemory>(bytes, "drive");
    training_ = std::make_unique<Training>(schedule_, model_, *backend_, std::move(drive));
  }

  Training& training() { return *training_; }
  const Schedule& schedule() const { return schedule_; }
  const Model& model() const { return model_; }
  Backend& backend() { return *backend_; }
  Memory& memory(const Buffer& buffer) { return *training_->memories()[static_cast<std::size_t>(buffer.tier)]; }
  RunBits& bits() { return bits_; }

  TrainingOptions options(int steps) {
    TrainingOptions options;
    options.hyper.learning_rate = 1e-2;
    options.learning_rate_warmup_steps = 3;
    options.tokens = tokens_.get();
    options.report = [this](const StepReport& report) {
      bits_.losses.push_back(report.loss);
      bits_.norms.push_back(report.gradient_norm);
      if (report.balance_loss) bits_.balances.push_back(*report.balance_loss);
    };
    options.executor.steps = steps;
    return options;
  }

 private:
  Model model_;
  Schedule schedule_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<TokenSource> tokens_;
  std::unique_ptr<Training> training_;
  RunBits bits_;
};

inline RunBits run_bits(const PolicyInput& in, int steps) {
  SmallRun run(in);
  run.training().load(*random_states(3));
  run.training().run(run.options(steps));
  run.bits().states = run.training().states().fingerprint();
  return run.bits();
}

}  // namespace penstock::exec
