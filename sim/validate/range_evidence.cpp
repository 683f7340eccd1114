#include "sim/validate/range_evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace penstock::sim {
namespace {

constexpr double kOutside = 0.025;  // of the rows, on either side
constexpr double kPerCent = 100;
constexpr double kSlack = 1e-9;  // of a limit that is a whole per cent already

/// An error and what its row counts.
struct Weighed {
  double error = 0, weight = 0;
};

/// The narrowest limits of which on either side no more than kOutside of the weight lies outside; 0 lies inside.
ErrorRange limits(std::vector<Weighed> errors) {
  std::sort(errors.begin(), errors.end(), [](const Weighed& a, const Weighed& b) { return a.error < b.error; });
  double total = 0;
  for (const Weighed& one : errors) total += one.weight;
  const auto limit = [&](auto begin, auto end) {
    double outside = 0;
    for (auto one = begin; one != end; ++one) {
      outside += one->weight;
      if (outside > kOutside * total + kSlack) return one->error;
    }
    return 0.0;
  };
  const double low = limit(errors.begin(), errors.end()), high = limit(errors.rbegin(), errors.rend());
  return {std::min(0.0, std::floor(low * kPerCent + kSlack) / kPerCent),
          std::max(0.0, std::ceil(high * kPerCent - kSlack) / kPerCent)};
}

ErrorRange both(const ErrorRange& a, const ErrorRange& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

using Group = std::pair<std::string, std::string>;  // system, machine

std::map<Group, std::vector<double>> groups_of(const std::vector<const Miss*>& misses) {
  std::map<Group, std::vector<double>> groups;
  for (const Miss* miss : misses) groups[{miss->system, miss->machine}].push_back(miss->error);
  return groups;
}

/// Counts, without limits.
RangeEvidence counted(const std::vector<const Miss*>& misses) {
  RangeEvidence evidence;
  std::set<std::string> systems;
  evidence.rates = misses.front()->rates;
  evidence.printed = misses.front()->printed;
  evidence.rows = static_cast<int>(misses.size());
  for (const Miss* miss : misses) {
    systems.insert(miss->system);
    evidence.inside += miss->printed.low <= miss->error && miss->error <= miss->printed.high;
  }
  evidence.systems = static_cast<int>(systems.size());
  return evidence;
}

}  // namespace

std::vector<Miss> misses_of(const std::vector<PublishedRow>& rows) {
  std::vector<Miss> misses;
  for (const PublishedRow& row : rows)
    if (row.step_seconds && row.assumed.empty() && !row.calibrates)
      misses.push_back({row.system, row.machine, row.rates, row.signed_error, row.printed});
  return misses;
}

std::vector<Miss> misses_of(const std::vector<RecordedRow>& rows) {
  std::vector<Miss> misses;
  for (const RecordedRow& row : rows)
    misses.push_back({"penstock-exec", row.machine, row.rates, row.signed_error, row.printed});
  return misses;
}

RangeEvidence class_evidence(const std::vector<Miss>& misses, RateClass rates) {
  std::vector<const Miss*> of_class;
  for (const Miss& miss : misses)
    if (miss.rates == rates) of_class.push_back(&miss);
  RangeEvidence evidence = counted(of_class);
  evidence.printed = class_error_range(rates);
  evidence.inside = 0;
  std::vector<Weighed> errors;
  for (const auto& [group, members] : groups_of(of_class))
    for (const double error : members) {
      errors.push_back({error, 1 / static_cast<double>(members.size())});
      evidence.inside += evidence.printed.low <= error && error <= evidence.printed.high;
    }
  evidence.needed = limits(std::move(errors));
  return evidence;
}

std::vector<RangeEvidence> file_evidence(const std::vector<Miss>& misses) {
  std::map<std::string, std::vector<const Miss*>> machines;
  for (const Miss& miss : misses) machines[miss.machine].push_back(&miss);
  std::vector<RangeEvidence> result;
  for (const auto& [machine, members] : machines) {
    if (members.size() < kFewestRows) continue;
    RangeEvidence evidence = counted(members);
    evidence.machine = machine;
    for (const auto& [group, errors] : groups_of(members)) {
      std::vector<Weighed> weighed;
      for (const double error : errors) weighed.push_back({error, 1});
      evidence.needed = both(evidence.needed, limits(std::move(weighed)));
    }
    if (evidence.systems == 1) evidence.needed = both(evidence.needed, class_evidence(misses, evidence.rates).needed);
    result.push_back(std::move(evidence));
  }
  return result;
}

}  // namespace penstock::sim
