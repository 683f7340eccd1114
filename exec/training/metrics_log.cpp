#include "exec/training/metrics_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "shared/error.h"
#include "shared/file_calls.h"
#include "shared/standard_streams.h"

namespace penstock::exec {
namespace {

using nlohmann::json;

constexpr std::string_view kBegin = "{\"step\":";
constexpr std::size_t kLongestLine = 4096;

struct MetricsLine {
  std::int64_t step = 0;
  bool is_evaluation = false;
};

/// Nothing if it is no line of a metrics file.
std::optional<MetricsLine> parsed_line(std::string_view line) {
  if (!line.starts_with(kBegin)) return std::nullopt;
  const json parsed = json::parse(line, nullptr, false);
  if (!parsed.is_object() || !parsed["step"].is_number_integer()) return std::nullopt;
  return MetricsLine{parsed["step"].get<std::int64_t>(), parsed.contains("eval_loss")};
}

bool may_be_cut_off(std::string_view line) { return line.starts_with(kBegin) || kBegin.starts_with(line); }

std::string line_of(const StepReport& report, double seconds, std::int64_t tokens) {
  nlohmann::ordered_json line = {{"step", report.step},
                                 {"loss", report.loss},
                                 {"gradient_norm", report.gradient_norm},
                                 {"learning_rate", report.learning_rate},
                                 {"skipped", report.skipped},
                                 {"seconds", seconds},
                                 {"tokens_per_second", static_cast<double>(tokens) / seconds},
                                 {"trained_tokens", report.trained_tokens},
                                 {"stall_seconds", nullptr},
                                 {"stall_share", nullptr}};
  if (report.stalls.seconds >= 0) {
    line["stall_seconds"] = report.stalls.seconds;
    line["stall_share"] = report.stalls.share();
  }
  if (report.balance_loss) line["balance_loss"] = *report.balance_loss;
  return line.dump() + "\n";
}

}  // namespace

KeptMetrics kept_metrics(const std::filesystem::path& path, std::int64_t steps_before) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(kLongestLine);
  KeptMetrics kept;
  std::int64_t last = 0;
  bool keeps = steps_before > 0;  // a fresh run begins the file anew
  for (std::int64_t number = 1; file; ++number) {
    file.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const std::string_view line(buffer.data());
    if (file.eof() && may_be_cut_off(line)) break;  // also nothing at all
    const std::optional<MetricsLine> found = file.good() ? parsed_line(line) : std::nullopt;
    if (!found || found->step < last || (found->step == last && !found->is_evaluation))
      throw InputError(
          fmt::format("{}:{}: [log] metrics: is no line of metrics, or not of a later step than the one "
                      "before; name another file",
                      path.string(), number));
    last = found->step;
    keeps = keeps && last <= steps_before;
    if (!keeps) continue;
    kept.bytes = static_cast<std::int64_t>(file.tellg());
    kept.has_evaluation = found->is_evaluation && last == steps_before;
  }
  return kept;
}

MetricsLog::MetricsLog(const std::filesystem::path& path, std::int64_t steps_before, std::int64_t tokens_per_step)
    : path_(path), steps_before_(steps_before), tokens_per_step_(tokens_per_step) {
  kept_metrics(path_, steps_before_);
}

MetricsLog::~MetricsLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsLog::begin() {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor_ >= 0 && system_calls().lock(descriptor_) != 0 && errno == EWOULDBLOCK)
    throw InputError(fmt::format("{}: [log] metrics: another run writes to it; name another file", path_.string()));
  if (descriptor_ >= 0) {
    const KeptMetrics kept = kept_metrics(path_, steps_before_);
    end_ = kept.bytes;
    has_evaluation_ = kept.has_evaluation;
  }
  if (descriptor_ < 0 || ::ftruncate(descriptor_, end_) != 0)
    throw std::runtime_error(
        fmt::format("{}: cannot be written: {}", path_.string(), std::generic_category().message(errno)));
}

void MetricsLog::step_ended(const StepReport& report, double seconds) {
  pending_ += line_of(report, seconds, tokens_per_step_);
  write(report.step);
}

void MetricsLog::evaluated(const EvaluationReport& report) {
  nlohmann::ordered_json line = {{"step", report.step}, {"eval_loss", report.loss}, {"seconds", report.seconds}};
  if (report.balance_loss) line["eval_balance_loss"] = *report.balance_loss;
  pending_ += line.dump() + "\n";
  write(report.step);
}

void MetricsLog::write(std::int64_t step) {
  if (write_pending() || told_) return;
  told_ = true;
  tell(
      fmt::format("penstock-exec: {}: the line of step {} cannot be written: {}; training goes on, and so do the "
                  "attempts\n",
                  path_.string(), step, std::generic_category().message(errno)));
}

/// False, with errno, if something is left.
bool MetricsLog::write_pending() {
  while (!pending_.empty()) {
    const ssize_t written = system_calls().pwrite(descriptor_, pending_.data(), pending_.size(), end_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    end_ += written;
    pending_.erase(0, static_cast<std::size_t>(written));
  }
  return true;
}

void MetricsLog::finish() {
  if (write_pending() && system_calls().fsync(descriptor_) == 0) return;
  throw std::runtime_error(fmt::format("{}: the last lines of metrics could not be written: {}", path_.string(),
                                       std::generic_category().message(errno)));
}

}  // namespace penstock::exec
