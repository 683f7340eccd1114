#include "exec/training/run_saves.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "exec/checkpoint/safetensors.h"
#include "exec/runtime/limits.h"
#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kTried = std::int64_t{64} << 20;  // bytes at most that are written to learn the rate

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string expected_text(double bytes, double rate) {
  return rate > 0 ? fmt::format(", about {}", format_seconds(bytes / rate)) : "";
}

}  // namespace

RunSaves::RunSaves(const std::filesystem::path& folder, const CheckpointOptions& options)
    : folder_(folder), every_(options.every), copies_(options.copy) {
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

void RunSaves::set_aside(Training& training, std::int64_t room_bytes) {
  const Schedule& schedule = training.schedule();
  const Model& model = training.model();
  snapshot_bytes_ = snapshot_bytes(schedule);
  if (every_ == 0) return;
  if (copies_ && snapshot_bytes_ <= room_bytes) try {
      snapshot_ = std::make_unique<StateSnapshot>(schedule, model);
      return;
    } catch (const DoesNotFit&) {  // the system has less than it said
    }
  updates_ = state_updates(schedule, model);
  gates_ = std::make_unique<UpdateGates>(model.layer_count());
  for (const Layer& layer : model.layers) layer_elements_.push_back(layer.state_elements);
  training.gate_updates(updates_);
}

double RunSaves::write_rate(std::int64_t step, std::int64_t steps, std::int64_t file_bytes) const {
  const std::int64_t elements = std::clamp(file_bytes / 8, std::int64_t{1} << 20, kTried) / 4;
  try {
    const auto target = series_->target(step + steps_to_save(step, steps));
    const std::filesystem::path folder = target->begin();
    const Clock::time_point start = Clock::now();
    double seconds = 0;
    try {
      SafetensorsWriter writer(folder / kStatesFile, {{"tried", StoredType::f32, {elements}}}, target->calls());
      const std::vector<float> values(static_cast<std::size_t>(elements), 1.0f);
      writer.append(std::as_bytes(std::span(values)));
      writer.close();
      seconds = seconds_since(start);
    } catch (const std::exception&) {
    }
    target->abandon();
    return seconds > 0 ? static_cast<double>(elements * 4) / seconds : 0;
  } catch (const std::exception&) {
    return 0;  // the save itself will say why
  }
}

double RunSaves::expected_stall() const {
  if (snapshot_) return expected_.copy_rate > 0 ? static_cast<double>(snapshot_bytes_) / expected_.copy_rate : 0;
  if (expected_.write_rate <= 0 || !gates_ || expected_.update_seconds.empty()) return 0;
  const auto elements = static_cast<double>(std::reduce(layer_elements_.begin(), layer_elements_.end()));
  std::vector<double> write_seconds;
  for (const std::int64_t of_layer : layer_elements_)
    write_seconds.push_back(expected_write() * static_cast<double>(of_layer) / elements);
  return stall_of_save(updates_, write_seconds, expected_.update_seconds);
}

double RunSaves::expected_write() const {
  return expected_.write_rate > 0 ? static_cast<double>(expected_.file_bytes) / expected_.write_rate : 0;
}

std::string RunSaves::expectation() const {
  const auto files = static_cast<double>(expected_.file_bytes), copy = static_cast<double>(snapshot_bytes_);
  const std::string size = format_bytes(files), written = expected_text(files, expected_.write_rate);
  if (snapshot_)
    return fmt::format(
        "saves every {} steps: training waits while {} are copied into memory set aside{}, then {} are written beside "
        "it{}\n",
        every_, format_bytes(copy), expected_text(copy, expected_.copy_rate), size, written);
  const std::string why = copies_ ? fmt::format("memory has no room for a copy of the states, {}", format_bytes(copy))
                                  : "[checkpoint] copy is false";
  const std::string on_gpu = updates_.on_gpu > 0
                                 ? fmt::format(", of {} of {} layers before it goes on, for they are on the GPU",
                                               updates_.on_gpu, updates_.order.size())
                                 : "";
  const std::string stall =
      expected_.write_rate > 0 && !expected_.update_seconds.empty()
          ? fmt::format(
                "; training waits for at most {}, if the drive keeps to that rate and steps to what is predicted",
                format_seconds(expected_stall()))
          : "";
  return fmt::format(
      "saves every {} steps: {} are written beside training{}, each layer before its next update{}{}; {}\n", every_,
      size, written, on_gpu, stall, why);
}

std::filesystem::path RunSaves::write(const CheckpointInfo& info, const Training& training, const StateReader& states,
                                      const std::function<void(int layer)>& has_read) {
  const Schedule& schedule = training.schedule();
  if (target_) {
    save_checkpoint(*target_, info, schedule, training.model(), states, has_read);
    return folder_;
  }
  save_checkpoint(*series_->target(info.step), info, schedule, training.model(), states, has_read);
  series_->remove_old(info.step);
  return series_->folder_of(info.step);
}

void RunSaves::begin(const Training& training, const RunDescription& description) {
  if (begun_) throw std::logic_error("RunSaves::begin: the one before was not finished");
  if (!snapshot_ && !gates_) throw std::logic_error("RunSaves::begin: nothing was set aside");
  const std::vector<std::int64_t> bytes = checkpoint_file_bytes(training.schedule(), training.model());
  Begun& begun = begun_.emplace();
  begun.times = {training.steps_done(), std::reduce(bytes.begin(), bytes.end()), snapshot_ != nullptr};
  begun.times.waited_seconds = std::exchange(waited_seconds_, 0);
  const Clock::time_point start = Clock::now();
  if (snapshot_) try {
      snapshot_->take(training.memories(), read_memory_limits().cores);
    } catch (...) {
      begun_.reset();
      throw;
    }
  begin_writing({training.steps_done(), description}, training, snapshot_ ? snapshot_->states() : training.states());
  begun.times.stall_seconds = begun.times.waited_seconds + seconds_since(start);
}

/// Returns once training may go on.
void RunSaves::begin_writing(const CheckpointInfo& info, const Training& training, const StateReader& states) {
  if (gates_) gates_->close();
  const auto on_gpu = std::make_shared<std::latch>(gates_ ? updates_.on_gpu : 0);
  writer_ = std::jthread([this, &begun = *begun_, info, &training, states, on_gpu] {
    const Clock::time_point begin = Clock::now();
    int left = gates_ ? updates_.on_gpu : 0;  // of the layers on the GPU, which are the first ones
    try {
      begun.folder = write(info, training, states, [&](int layer) {
        if (!gates_) return;
        gates_->open(layer);
        if (left > 0) on_gpu->count_down(), --left;
      });
    } catch (...) {
      begun.error = std::current_exception();
    }
    if (gates_) gates_->open_all();
    on_gpu->count_down(left);
    begun.times.write_seconds = seconds_since(begin);
  });
  on_gpu->wait();
}

std::optional<std::int64_t> RunSaves::being_written() const {
  return begun_ ? std::optional(begun_->times.step) : std::nullopt;
}

std::optional<std::filesystem::path> RunSaves::finish() {
  if (!begun_) return std::nullopt;
  const Clock::time_point start = Clock::now();
  if (writer_.joinable()) writer_.join();
  waited_seconds_ = seconds_since(start);
  Begun begun = *std::exchange(begun_, std::nullopt);
  if (gates_) begun.times.stall_seconds += gates_->waited_seconds();
  if (begun.error) std::rethrow_exception(begun.error);
  saved_ = begun.times.step;
  times_.push_back(begun.times);
  return begun.folder;
}

std::optional<std::filesystem::path> RunSaves::save(const Training& training, const RunDescription& description) {
  const std::int64_t step = training.steps_done();
  if (saved_ == step) return std::nullopt;
  const std::filesystem::path folder = write({step, description}, training, training.states(), {});
  saved_ = step;
  return folder;
}

}  // namespace penstock::exec
