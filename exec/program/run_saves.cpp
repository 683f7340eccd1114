#include "exec/program/run_saves.h"

#include <algorithm>

#include "exec/checkpoint/checkpoint.h"

namespace penstock::exec {

RunSaves::RunSaves(const std::filesystem::path& folder, const CheckpointOptions& options)
    : folder_(folder), every_(options.every) {
  if (every_ > 0)
    series_ = std::make_unique<CheckpointSeries>(folder, options.keep);
  else
    target_ = std::make_unique<SaveTarget>(folder);
}

const std::vector<std::string>& RunSaves::notes() const { return series_ ? series_->notes() : target_->notes(); }

void RunSaves::require_place(std::int64_t step, std::int64_t steps, std::span<const std::int64_t> file_bytes) const {
  if (target_) return target_->require_room(file_bytes);
  series_->require_none_after(step);
  series_->target(step + steps_to_save(step, steps))->require_room(file_bytes);
}

std::int64_t RunSaves::steps_to_save(std::int64_t step, std::int64_t left) const {
  return every_ == 0 ? left : std::min(left, every_ - step % every_);
}

std::optional<std::filesystem::path> RunSaves::save(const Training& training, const RunDescription& description,
                                                    const Schedule& schedule, const Model& model) {
  const std::int64_t step = training.steps_done();
  if (saved_ == step) return std::nullopt;
  const auto save_to = [&](SaveTarget& target) {
    save_checkpoint(target, {step, description}, schedule, model, training.states());
  };
  if (target_) {
    save_to(*target_);
  } else {
    save_to(*series_->target(step));
    series_->remove_old(step);
  }
  saved_ = step;
  return target_ ? folder_ : series_->folder_of(step);
}

}  // namespace penstock::exec
