#include "exec/calibrate/host_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "exec/calibrate/stopwatch.h"

namespace penstock::exec {
namespace {

bool same(const ThreadRate& a, const ThreadRate& b) { return a.threads == b.threads; }
bool same(const HostPassPoint& a, const HostPassPoint& b) {
  return a.name == b.name && a.threads == b.threads && a.bytes == b.bytes;
}
bool same(const DramSharing& a, const DramSharing& b) {
  return a.cpu_threads == b.cpu_threads && a.h2d == b.h2d && a.d2h == b.d2h && a.through_rings == b.through_rings;
}

template <class Figure>
void put(std::vector<std::vector<Figure>>& all, const Figure& figure) {
  for (std::vector<Figure>& rounds : all)
    if (same(rounds.front(), figure)) return rounds.push_back(figure);
  all.push_back({figure});
}

/// The median of a member, and into `spread` how far its rounds lie apart.
template <class Figure>
double median(const std::vector<Figure>& rounds, double Figure::*member, double& spread) {
  std::vector<double> values;
  for (const Figure& figure : rounds) values.push_back(figure.*member);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double apart = *high - *low, middle = summarise(std::move(values)).seconds;
  if (middle > 0) spread = std::max(spread, apart / middle);
  return middle;
}

}  // namespace

void HostRounds::add_adamw(int threads, double parameters_per_second) {
  put(adamw_, ThreadRate{threads, parameters_per_second});
}
void HostRounds::add(const HostPassPoint& pass) { put(passes_, pass); }
void HostRounds::add(const DramSharing& sharing) { put(sharing_, sharing); }

void HostRounds::fill(Cpu& cpu, std::map<std::string, double>& spread) const {
  for (const auto& rounds : adamw_) {
    const int threads = rounds.front().threads;
    cpu.adamw_by_threads.push_back(
        {threads, median(rounds, &ThreadRate::per_second, spread[fmt::format("adamw {}", threads)])});
  }
  for (const auto& rounds : passes_) {
    HostPassPoint point = rounds.front();
    point.seconds = median(rounds, &HostPassPoint::seconds, spread[point.name]);
    cpu.passes.push_back(std::move(point));
  }
  for (const auto& rounds : sharing_) {
    DramSharing sharing = rounds.front();
    double& apart = spread[sharing_name(sharing)];
    sharing.cpu_bytes_per_second = median(rounds, &DramSharing::cpu_bytes_per_second, apart);
    sharing.h2d_bytes_per_second = median(rounds, &DramSharing::h2d_bytes_per_second, apart);
    sharing.d2h_bytes_per_second = median(rounds, &DramSharing::d2h_bytes_per_second, apart);
    cpu.sharing.push_back(sharing);
  }
}

std::string sharing_name(const DramSharing& sharing) {
  const std::string copies = fmt::format("{}{}{}", sharing.h2d ? " h2d" : "", sharing.d2h ? " d2h" : "",
                                         sharing.through_rings ? " through rings" : "");
  return sharing.cpu_threads == 0 ? "copies" + copies : fmt::format("AdamW {} beside{}", sharing.cpu_threads, copies);
}

}  // namespace penstock::exec
