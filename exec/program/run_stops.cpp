#include "exec/program/run_stops.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "exec/program/run_report.h"
#include "exec/runtime/recorder.h"
#include "shared/error.h"
#include "shared/standard_streams.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

constexpr std::chrono::seconds kPatience{1};

/// "step 12", "steps 12 to 13"
std::string steps_text(std::int64_t first, std::int64_t last) {
  return first == last ? fmt::format("step {}", last) : fmt::format("steps {} to {}", first, last);
}

/// "step 12 is finished first, in about 35 s"
std::string waiting_text(const StopState& state) {
  std::string text = state.done >= state.last
                         ? std::string("the outstanding updates are")
                         : steps_text(state.done + 1, state.last) + (state.done + 1 == state.last ? " is" : " are");
  text += " finished first";
  if (state.seconds_left == 0) return text + ", which takes longer than was to be expected";
  if (state.seconds_left > 0) return text + ", in about " + format_seconds(state.seconds_left);
  return text + "; how long that takes is not known yet";
}

std::string loss_text(const StopState& state) {
  if (state.last <= state.before) return "nothing would be lost";
  const std::string steps = steps_text(state.before + 1, state.last);
  if (state.save.empty()) return fmt::format("{} would be lost, as at its end, for there is no --save", steps);
  return fmt::format("{} would be lost and nothing saved to {}", steps, state.save.string());
}

void say(const std::string& text) {
  tell(fmt::format("{}penstock-exec: {}\n", ::isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", text));
}

/// What has a name on a drive goes with it (exec/store/store_files.h).
[[noreturn]] void end_process(const std::string& why) {
  say(why);
  std::quick_exit(kExitFailed);
}

}  // namespace

std::string stop_text(const StopState& state) {
  if (!state.has_begun) return fmt::format("{}: ended before the first step: nothing is lost", state.cause);
  if (state.is_writing) return fmt::format("{}: what was trained is being written and ends by itself", state.cause);
  if (state.wishes == 1)
    return fmt::format("{}: {}; then {}. Once more says what ending at once would lose", state.cause,
                       waiting_text(state),
                       state.save.empty() ? "the run ends" : fmt::format("it is saved to {}", state.save.string()));
  if (state.wishes == 2)
    return fmt::format("{} again: {}. A third time ends the run at once: {}", state.cause, waiting_text(state),
                       loss_text(state));
  return fmt::format("{} for the third time: ended within {}: {}", state.cause,
                     steps_text(std::min(state.done + 1, state.last), state.last), loss_text(state));
}

RunStops::RunStops(const std::filesystem::path& save)
    : save_(save), signals_([this](int wishes, std::string_view cause) { heard(wishes, cause); }) {}

RunStops::~RunStops() {
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

void RunStops::begins(const RunSetup& setup) {
  const std::lock_guard lock(mutex_);
  setup_ = &setup;
  done_ = saved_ = part_before_ = setup.steps_before;
  last_ns_ = now_ns();
}

void RunStops::training_after(std::int64_t step) {
  last_ns_ = now_ns();
  const std::lock_guard lock(mutex_);
  is_writing_ = false;
  part_before_ = step;
}

void RunStops::step_ended(const StepReport& report, double seconds) {
  last_ns_ = report.at_ns;
  step_seconds_ = seconds;
  done_ = report.step;
}

void RunStops::saving(std::int64_t /*step*/) {
  const std::lock_guard lock(mutex_);
  is_writing_ = true;
}

void RunStops::saved(std::int64_t step, const std::filesystem::path& /*folder*/) {
  const std::lock_guard lock(mutex_);
  saved_ = step;
}

void RunStops::writing() {
  signals_.ignore_afterwards();  // giving back much memory takes a while: what is saved then was no failure
  const std::lock_guard lock(mutex_);
  is_writing_ = true;
  changed_.notify_all();
}

void RunStops::heard(int wishes, std::string_view cause) {
  StopState state{wishes, cause, 0, 0, 0, -1, save_, false};
  {
    const std::lock_guard lock(mutex_);
    state.has_begun = setup_ != nullptr;
    if (!state.has_begun) end_process(stop_text(state));  // nothing begins meanwhile
    state.done = done_;
    state.is_writing = is_writing_;
    state.before = saved_;
    state.last = part_before_;
  }
  state.last += control_.stop();
  state.seconds_left = seconds_left(state.last - state.done);
  const std::string text = stop_text(state);
  if (wishes >= 3 && !state.is_writing) return end_at_once(text);
  say(text);
}

void RunStops::end_at_once(const std::string& why) {
  control_.abort(why);
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kPatience, [this] { return is_writing_ || has_ended_; })) return;
  // A checkpoint that is being written ends as that of a killed run does; the states are lost either way.
  end_process(why);
}

double RunStops::seconds_left(std::int64_t steps) const {
  double step = step_seconds_;
  const bool is_modelled = setup_->scenario.machine.gpu.is_host == setup_->backend->is_host();
  if (step <= 0 && is_modelled) step = predicted_step_seconds(*setup_);  // of another machine it would say nothing
  if (step <= 0) return -1;
  return std::max(0.0, step * static_cast<double>(steps) - static_cast<double>(now_ns() - last_ns_) * 1e-9);
}

}  // namespace penstock::exec
