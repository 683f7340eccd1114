#include "sim/planner/search.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "shared/error.h"
#include "sim/planner/drive_use.h"
#include "sim/planner/evaluator.h"

namespace penstock::sim {
namespace {

constexpr std::size_t kRound = 256;       // shapes that are bounded together
constexpr std::size_t kBatch = 16;        // candidates that are simulated together
constexpr std::size_t kStarts = 6;        // of the local search
constexpr int kMostMoves = 40;            // of each
constexpr double kFrontTolerance = 0.01;  // of the fronts
constexpr double kSlowestOfFront = 4;     // times the best step
constexpr std::size_t kFrontRounds = 8;   // of each
constexpr int kFrontLevels = 5;           // capacities that are tried for each
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool fits(const ArenaBytes& arenas, const TierCapacities& tiers) {
  return arenas.hbm <= tiers.hbm && arenas.dram <= tiers.dram && arenas.nvme <= tiers.nvme;
}

/// Bytes that are missing in all tiers together.
std::int64_t missing(const ArenaBytes& arenas, const TierCapacities& tiers) {
  const auto excess = [](std::int64_t need, std::int64_t have) { return std::max<std::int64_t>(0, need - have); };
  return excess(arenas.hbm, tiers.hbm) + excess(arenas.dram, tiers.dram) + excess(arenas.nvme, tiers.nvme);
}

/// Faster first; equal ones by what they need, then in a fixed order.
bool better(const Evaluated& a, const Evaluated& b) {
  return std::tie(a.step_seconds, a.arenas.dram, a.arenas.hbm) <
             std::tie(b.step_seconds, b.arenas.dram, b.arenas.hbm) ||
         (std::tie(a.step_seconds, a.arenas.dram, a.arenas.hbm) ==
              std::tie(b.step_seconds, b.arenas.dram, b.arenas.hbm) &&
          a.candidate < b.candidate);
}

/// A preset's schedule with the scenario's numerics: the same mathematics, so that only time is compared.
Candidate as_ours(const PolicyParameters& preset, const Scenario& scenario) {
  Candidate candidate = candidate_of(scenario, preset);
  PolicyParameters& p = candidate.parameters;
  p.numerics = scenario.policy.numerics;
  if (p.numerics.clip && p.optimizer_time == OptimizerTime::backward) p.optimizer_time = OptimizerTime::next_forward;
  p.host_pass_bytes_per_parameter = 0;
  return candidate;
}

/// The candidates of one shape that fit, and the one that comes closest if none does.
struct Expansion {
  std::vector<Evaluated> fitting;
  std::vector<Shortage> closest;
};

class Residencies {
 public:
  Residencies(const Evaluator& evaluator, const Candidate& shape, const SearchSpace& space, TierCapacities tiers,
              int decoders, PolicyInput& input)
      : evaluator_(evaluator), shape_(shape), space_(space), tiers_(tiers), decoders_(decoders), input_(input) {}

  Expansion expand() {
    const auto none = evaluator_.arenas(shape_, input_);
    if (!none) return {};
    const std::int64_t parameters = input_.model.parameters;
    if (8 * parameters <= tiers_.hbm) try_one({-1, -1});  // 8 B/param: bf16 states, the least of any format
    if (none->hbm > tiers_.hbm) {
      consider_short({0, 0}, *none);
      return std::move(result_);
    }
    // Every further layer adds the same: two arenas with a ring for the others tell how much.
    const ArenaBytes one = decoders_ > 2 ? arenas({0, 1}) : *none, two = decoders_ > 2 ? arenas({0, 2}) : *none;
    hbm_per_layer_ = std::max<std::int64_t>(1, two.hbm - one.hbm);
    dram_per_layer_ = std::max<std::int64_t>(1, one.dram - two.dram);
    const int fewest = fewest_states(*none);
    if (fewest > decoders_ || !try_one({0, fewest})) {
      consider_short({0, 0}, *none);
      const std::int64_t room = tiers_.hbm - none->hbm;
      const Residency filled{0, static_cast<int>(std::min<std::int64_t>(decoders_, room / hbm_per_layer_))};
      if (fewest > 0) consider_short(filled, arenas(filled));
      if (tiers_.nvme > 0 && shape_.parameters.optimizer_place == OptimizerPlace::host) spill(filled.states);
      return std::move(result_);
    }
    fill(fewest);
    return std::move(result_);
  }

 private:
  Candidate with(const Residency& residency) const {
    Candidate candidate = shape_;
    candidate.parameters.resident_weights = residency.weights;
    candidate.parameters.resident_states = residency.states;
    candidate.parameters.nvme_states = residency.nvme_states;
    candidate.parameters.nvme_weights = residency.nvme_weights;
    candidate.parameters.nvme_slots = residency.nvme_slots;
    if (residency.nvme_states != 0 && gradients_may_wait_on_nvme()) candidate.parameters.gradients = TierKind::nvme;
    return with_fixed(std::move(candidate), evaluator_.scenario());
  }
  bool gradients_may_wait_on_nvme() const {
    const PolicyParameters& p = shape_.parameters;
    return p.gradients == TierKind::dram && !p.numerics.sum_on_host && p.optimizer_time != OptimizerTime::backward;
  }
  ArenaBytes arenas(const Residency& residency) const { return *evaluator_.arenas(with(residency), input_); }
  bool fits(const Residency& residency) const { return penstock::sim::fits(arenas(residency), tiers_); }

  bool try_one(const Residency& residency) {
    const ArenaBytes need = arenas(residency);
    if (!penstock::sim::fits(need, tiers_)) {
      consider_short(residency, need);
      return false;
    }
    const Candidate candidate = with(residency);
    const auto same = [&](const Evaluated& other) {
      return !(other.candidate < candidate) && !(candidate < other.candidate);
    };
    if (std::none_of(result_.fitting.begin(), result_.fitting.end(), same))
      result_.fitting.push_back({candidate, 0, 0, need, "search"});
    return true;
  }

  void consider_short(const Residency& residency, const ArenaBytes& need) {
    const Shortage shortage{with(residency), need};
    if (result_.closest.empty() || missing(shortage.arenas, tiers_) < missing(result_.closest.front().arenas, tiers_))
      result_.closest = {shortage};
  }

  /// Layers whose states must leave DRAM; more than there are if it is never enough.
  int fewest_states(const ArenaBytes& none) const {
    if (none.dram <= tiers_.dram) return 0;
    const std::int64_t count = (none.dram - tiers_.dram + dram_per_layer_ - 1) / dram_per_layer_;
    if (count > decoders_) return decoders_ + 1;
    int states = std::max(0, static_cast<int>(count) - 1);
    while (states <= decoders_ && arenas({0, states}).dram > tiers_.dram) ++states;
    return states;
  }

  /// DRAM is too small even with `resident` layers' states in HBM: those of the fewest of the last layers go to NVMe;
  /// where that is not enough, weights too; then everything, embedding and head with it.
  void spill(int resident) {
    while (resident > 0 && arenas({0, resident}).hbm > tiers_.hbm) --resident;
    const int most = decoders_ - resident;
    if (most == 0) return;
    const auto in_dram = [&](const Residency& residency) { return arenas(residency).dram <= tiers_.dram; };
    const auto with_states = [&](int count) { return Residency{0, resident, count, 0}; };
    const auto with_weights = [&](int count) { return Residency{0, resident, most, count}; };
    if (in_dram(with_states(most)))
      try_one(with_states(fewest_where(most, [&](int count) { return in_dram(with_states(count)); })));
    else if (in_dram(with_weights(most)))
      try_one(with_weights(fewest_where(most, [&](int count) { return in_dram(with_weights(count)); })));
    else if (!try_one({0, 0, -1, -1}))
      try_one({0, 0, -1, -1, 1});
  }

  /// The smallest count from 1 on that works. REQUIRES: `most` does; what works with fewer works with more.
  template <typename Works>
  static int fewest_where(int most, const Works& works) {
    int low = 0, high = most;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (works(middle) ? high : low) = middle;
    }
    return high;
  }

  /// HBM that is left: more layers' states, or weights, or both.
  void fill(int fewest) {
    const int most = largest(fewest, hbm_per_layer_, [&](int states) { return Residency{0, states}; });
    const std::int64_t weight_bytes = std::max<std::int64_t>(1, 2 * input_.model.smallest_decoder().state_elements);
    std::set<int> counts;
    const int points = std::max(2, space_.residency_points);
    for (int i = 0; i < points; ++i) counts.insert(fewest + (most - fewest) * i / (points - 1));
    for (const int states : counts) {
      if (states != fewest) try_one({0, states});
      const int weights = largest(states, weight_bytes, [&](int w) { return Residency{w, states}; });
      if (weights > states) try_one({weights, states});
    }
    if (2 * input_.model.parameters <= tiers_.hbm) try_one({-1, 0});
  }

  /// The largest count that fits. REQUIRES: `low` does.
  template <typename Of>
  int largest(int low, std::int64_t bytes_per_layer, const Of& residency) const {
    const std::int64_t room = tiers_.hbm - arenas(residency(low)).hbm;
    int count = static_cast<int>(std::min<std::int64_t>(decoders_, low + room / bytes_per_layer + 1));
    while (count > low && !fits(residency(count))) --count;
    return count;
  }

  const Evaluator& evaluator_;
  const Candidate& shape_;
  const SearchSpace& space_;
  TierCapacities tiers_;
  int decoders_;
  PolicyInput& input_;
  std::int64_t hbm_per_layer_ = 1, dram_per_layer_ = 1;
  Expansion result_;
};

class Search {
 public:
  Search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options)
      : scenario_(scenario), space_(space), options_(options), evaluator_(scenario, options) {}

  /// What it found within other capacities before counts no more, but for what is known of candidates.
  SearchResult run(const TierCapacities& tiers) {
    tiers_ = tiers;
    ranking_.clear();
    open_bound_ = kInfinity;
    has_shortage_ = false;
    result_ = {};
    bound_shapes();
    evaluator_.allow(options_.most_ops * 3 / 5);
    const std::int64_t ops = expected_ops(scenario_, candidate_of(scenario_, scenario_.policy));
    if (options_.presets && !is_huge(ops, options_.most_ops)) evaluate_presets();
    scan(tiers_, options_.tolerance);
    const double open = open_bound_;
    evaluator_.allow(options_.most_ops / 5);
    if (options_.refine && !ranking_.empty()) refine();
    result_.complete = open >= best_seconds() * (1 - options_.tolerance) && !evaluator_.stopped();
    if (!result_.complete && open < kInfinity) result_.open_bound_seconds = open;
    if (!ranking_.empty()) result_.best = {tiers_.nvme > 0 ? spare_drive(chosen()) : chosen()};
    if (options_.front && !ranking_.empty()) find_fronts();
    result_.evaluated = evaluator_.evaluated();
    result_.ops = evaluator_.ops();
    return std::move(result_);
  }

 private:
  double best_seconds() const { return ranking_.empty() ? kInfinity : ranking_.front().step_seconds; }

  void report(const char* phase, double done) const {
    if (options_.progress)
      options_.progress({phase, done, ranking_.empty() ? 0 : best_seconds(), evaluator_.evaluated()});
  }

  /// Of plans that the model cannot tell apart the one with the fewest micro-batches, which real kernels like best; but
  /// none that is slower than a preset.
  Evaluated chosen() const {
    double limit = best_seconds() * (1 + options_.tolerance / 3);
    for (const Evaluated& preset : result_.presets) limit = std::min(limit, preset.step_seconds);
    Evaluated best = ranking_.front();
    for (const Evaluated& entry : ranking_) {
      if (entry.step_seconds > limit) break;
      if (entry.candidate.micro_batch > best.candidate.micro_batch) best = entry;
    }
    return best;
  }

  /// A plan and what a step of it writes to the drive.
  struct OnDrive {
    Evaluated entry;
    std::int64_t writes = 0;
  };

  /// Where the fastest plan would soon wear out the drive: of what was seen, of all shapes and around the best of those
  /// the plan that writes least to it, at most `drive_sparing` slower than the fastest.
  Evaluated spare_drive(const Evaluated& fastest) {
    const double limit = best_seconds() * (1 + options_.drive_sparing);
    OnDrive least{fastest, with_writes({fastest}).front().writes};
    if (options_.drive_sparing <= 0 ||
        !wears_out_soon({"", 0, least.writes}, scenario_.machine.nvme, fastest.step_seconds))
      return fastest;
    evaluator_.allow(options_.most_ops / 5);
    const std::vector<Evaluated> seen = ranking_;
    spare({seen.begin(), std::upper_bound(seen.begin(), seen.end(), limit,
                                          [](double most, const Evaluated& e) { return most < e.step_seconds; })},
          limit, least);
    for (std::size_t begin = 0; begin < shapes_.size() && shape_bounds_[begin] <= limit; begin += kRound) {
      const std::size_t count = std::min(kRound, shapes_.size() - begin);
      std::vector<Expansion> expansions(count);
      evaluator_.parallel(count, [&](std::size_t i, PolicyInput& input) {
        if (!evaluator_.stopped() && shape_bounds_[begin + i] <= limit)
          expansions[i] = expand(shapes_[begin + i], tiers_, input);
      });
      std::vector<Evaluated> fitting;
      for (const Expansion& expansion : expansions)
        fitting.insert(fitting.end(), expansion.fitting.begin(), expansion.fitting.end());
      spare(fitting, limit, least);
    }
    for (int move = 0; move < kMostMoves && spare(around(least.entry), limit, least);) ++move;
    return least.entry;
  }

  std::vector<OnDrive> with_writes(const std::vector<Evaluated>& entries) {
    std::vector<OnDrive> all(entries.size());
    evaluator_.parallel(all.size(), [&](std::size_t i, PolicyInput& input) {
      all[i] = {entries[i], evaluator_.drive_writes(entries[i].candidate, input)};
    });
    return all;
  }

  /// Takes the first, by what it writes, that is no slower than `limit` and writes less. Whether there was one.
  bool spare(const std::vector<Evaluated>& entries, double limit, OnDrive& least) {
    std::vector<OnDrive> all = with_writes(entries);
    std::erase_if(all,
                  [&](const OnDrive& one) { return one.writes >= least.writes || one.entry.bound_seconds > limit; });
    std::stable_sort(all.begin(), all.end(), [](const OnDrive& a, const OnDrive& b) {
      return std::pair(a.writes, a.entry.bound_seconds) < std::pair(b.writes, b.entry.bound_seconds);
    });
    for (std::size_t begin = 0; begin < all.size() && !evaluator_.exhausted(); begin += kBatch) {
      std::vector<Evaluated> batch;
      for (std::size_t i = begin; i < std::min(begin + kBatch, all.size()); ++i) batch.push_back(all[i].entry);
      for (const Evaluated& entry : evaluator_.evaluate(batch)) {
        if (entry.step_seconds > limit) continue;
        least = with_writes({entry}).front();
        return true;
      }
    }
    return false;
  }

  /// The neighbours that fit, with their bounds.
  std::vector<Evaluated> around(const Evaluated& at) {
    const std::vector<Candidate> near = neighbours(at.candidate, scenario_);
    std::vector<Evaluated> bounded(near.size());
    evaluator_.parallel(near.size(), [&](std::size_t i, PolicyInput& input) {
      const auto need = evaluator_.arenas(near[i], input);
      if (need && fits(*need, tiers_)) bounded[i] = {near[i], 0, evaluator_.bound(near[i], input), *need, "search"};
    });
    std::erase_if(bounded, [](const Evaluated& entry) { return entry.bound_seconds <= 0; });
    return bounded;
  }

  /// Without a drive those that keep nothing on one.
  void bound_shapes() {
    std::vector<Candidate> all = shapes(space_, scenario_);
    if (all.empty()) throw InputError("search: the space is empty");
    if (tiers_.nvme == 0)
      std::erase_if(all, [](const Candidate& shape) { return activations_on(shape.parameters, TierKind::nvme); });
    result_.shapes = static_cast<std::int64_t>(all.size());
    shapes_.clear();
    shape_bounds_.clear();
    std::vector<double> bounds(all.size());
    evaluator_.parallel(all.size(), [&](std::size_t i, PolicyInput& input) {
      bounds[i] = evaluator_.stopped() ? kInfinity : shape_bound(all[i], input);
    });
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (bounds[i] < kInfinity) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(bounds[a], -all[a].micro_batch) < std::pair(bounds[b], -all[b].micro_batch);
    });
    for (const std::size_t i : order) {
      shapes_.push_back(all[i]);
      shape_bounds_.push_back(bounds[i]);
    }
    if (shapes_.empty() && !all.empty() &&
        !evaluator_.stopped()) {  // what the scenario fixes contradicts itself: say how
      PolicyInput input = scenario_.policy_input();
      evaluator_.bound(all.front(), input);
    }
  }

  double shape_bound(const Candidate& shape, PolicyInput& input) const {
    try {
      return evaluator_.shape_bound(shape, input);
    } catch (const InputError&) {  // choices that contradict each other
      return kInfinity;
    }
  }

  void evaluate_presets() {
    std::vector<Evaluated> seeds;
    const auto add = [&](const Candidate& candidate, const std::string& origin) {
      PolicyInput input = scenario_.policy_input();
      const auto need = evaluator_.arenas(candidate, input);
      const bool known = std::any_of(seeds.begin(), seeds.end(), [&](const Evaluated& seed) {
        return !(seed.candidate < candidate) && !(candidate < seed.candidate);
      });
      if (need && !known && fits(*need, tiers_) && keeps_fixed(candidate, scenario_))
        seeds.push_back({candidate, 0, evaluator_.bound(candidate, input), *need, origin});
    };
    add(candidate_of(scenario_, scenario_.policy), "the scenario's policy");
    for (const PresetInfo& preset : presets()) add(as_ours(preset_parameters(preset.name), scenario_), preset.name);
    result_.presets = evaluator_.evaluate(seeds);
    for (const Evaluated& entry : result_.presets) take(entry);
  }

  void take(const Evaluated& entry) {
    const auto at = std::lower_bound(ranking_.begin(), ranking_.end(), entry, better);
    if (at != ranking_.end() && !better(entry, *at)) return;  // known
    ranking_.insert(at, entry);
  }

  /// Shapes by compute time; stops where none can be faster.
  void scan(const TierCapacities& tiers, double tolerance, std::size_t most_rounds = SIZE_MAX) {
    std::size_t rounds = 0;
    for (std::size_t begin = 0; begin < shapes_.size() && !evaluator_.exhausted(); begin += kRound) {
      if (++rounds > most_rounds) return;
      if (most_rounds == SIZE_MAX) report("scan", static_cast<double>(begin) / static_cast<double>(shapes_.size()));
      if (options_.prune && shape_bounds_[begin] >= best_seconds() * (1 - tolerance)) {
        result_.pruned += static_cast<std::int64_t>(shapes_.size() - begin);
        return;
      }
      const std::size_t end = std::min(begin + kRound, shapes_.size());
      std::vector<Expansion> expansions(end - begin);
      const double best = best_seconds();
      evaluator_.parallel(end - begin, [&](std::size_t i, PolicyInput& input) {
        if (evaluator_.stopped()) return;
        if (options_.prune && shape_bounds_[begin + i] >= best * (1 - tolerance)) return;
        expansions[i] = expand(shapes_[begin + i], tiers, input);
      });
      evaluate_round(expansions, tiers, tolerance);
      if (evaluator_.exhausted() && end < shapes_.size()) open_bound_ = std::min(open_bound_, shape_bounds_[end]);
    }
  }

  Expansion expand(const Candidate& shape, const TierCapacities& tiers, PolicyInput& input) {
    Expansion expansion =
        Residencies(evaluator_, shape, space_, tiers, scenario_.model.layer_count() - 2, input).expand();
    for (Evaluated& entry : expansion.fitting) entry.bound_seconds = evaluator_.bound(entry.candidate, input);
    return expansion;
  }

  void evaluate_round(const std::vector<Expansion>& expansions, const TierCapacities& tiers, double tolerance) {
    std::vector<Evaluated> candidates;
    for (const Expansion& expansion : expansions) {
      candidates.insert(candidates.end(), expansion.fitting.begin(), expansion.fitting.end());
      if (!expansion.closest.empty()) consider_shortage(expansion.closest.front(), tiers);
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const Evaluated& a, const Evaluated& b) {
      return std::pair(a.bound_seconds, -a.candidate.micro_batch) <
             std::pair(b.bound_seconds, -b.candidate.micro_batch);
    });
    for (std::size_t begin = 0; begin < candidates.size();) {
      std::vector<Evaluated> batch;
      for (; begin < candidates.size() && batch.size() < kBatch; ++begin) {
        if (options_.prune && candidates[begin].bound_seconds >= best_seconds() * (1 - tolerance)) {
          result_.pruned += static_cast<std::int64_t>(candidates.size() - begin);
          begin = candidates.size();
          break;
        }
        batch.push_back(candidates[begin]);
      }
      const std::vector<Evaluated> done = evaluator_.evaluate(batch);
      for (const Evaluated& entry : done) take(entry);
      if (done.size() < batch.size()) {  // the budget is spent
        open_bound_ = std::min(open_bound_, batch[done.size()].bound_seconds);
        return;
      }
    }
  }

  void consider_shortage(const Shortage& shortage, const TierCapacities& tiers) {
    if (!has_shortage_ || missing(shortage.arenas, tiers) < missing(result_.shortage.arenas, tiers))
      result_.shortage = shortage;
    has_shortage_ = true;
  }

  void refine() {
    std::vector<Evaluated> starts;
    for (const Evaluated& entry : ranking_) {
      const bool alike = std::any_of(starts.begin(), starts.end(), [&](const Evaluated& other) {
        const PolicyParameters &p = entry.candidate.parameters, &q = other.candidate.parameters;
        return p.keep == q.keep && p.activations == q.activations && (p.first_layers > 0) == (q.first_layers > 0) &&
               p.first_activations == q.first_activations && p.group == q.group &&
               p.optimizer_place == q.optimizer_place && entry.candidate.micro_batch == other.candidate.micro_batch &&
               entry.candidate.chunk_tokens == other.candidate.chunk_tokens;
      });
      if (!alike) starts.push_back(entry);
      if (starts.size() == kStarts) break;
    }
    for (std::size_t i = 0; i < starts.size(); ++i) {
      report("refine", static_cast<double>(i) / static_cast<double>(starts.size()));
      climb(starts[i]);
    }
  }

  void climb(Evaluated at) {
    for (int move = 0; move < kMostMoves && !evaluator_.exhausted(); ++move) {
      const std::vector<Evaluated> around = look_around(at);
      const auto best = std::min_element(around.begin(), around.end(), better);
      if (best == around.end() || !better(*best, at)) return;
      at = *best;
    }
  }

  /// The neighbours that fit and may be faster, evaluated, best bound first, until no other can be the fastest.
  std::vector<Evaluated> look_around(const Evaluated& at) {
    std::vector<Evaluated> bounded = around(at);
    std::erase_if(bounded, [&](const Evaluated& entry) {
      return entry.bound_seconds >= at.step_seconds * (1 - options_.tolerance / 4);
    });
    std::stable_sort(bounded.begin(), bounded.end(),
                     [](const Evaluated& a, const Evaluated& b) { return a.bound_seconds < b.bound_seconds; });
    std::vector<Evaluated> all;
    double fastest = at.step_seconds;
    for (std::size_t begin = 0; begin < bounded.size() && bounded[begin].bound_seconds < fastest; begin += kBatch) {
      const auto first = bounded.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto end = bounded.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kBatch, bounded.size()));
      for (const Evaluated& entry : evaluator_.evaluate({first, end})) {
        fastest = std::min(fastest, entry.step_seconds);
        take(entry);
        all.push_back(entry);
      }
    }
    return all;
  }

  /// Searches again with a part of one tier, then takes the front of everything seen.
  void find_fronts() {
    const std::vector<Evaluated> unrestricted = ranking_;
    const Evaluated best = ranking_.front();
    for (const bool dram : {true, false})
      for (int level = 1; level < kFrontLevels; ++level) {
        report("front", static_cast<double>((dram ? 0 : kFrontLevels) + level) / (2 * kFrontLevels));
        TierCapacities tiers = tiers_;
        std::int64_t& tier = dram ? tiers.dram : tiers.hbm;
        tier = (dram ? best.arenas.dram : best.arenas.hbm) * (kFrontLevels - level) / kFrontLevels;
        ranking_.clear();
        for (const Evaluated& entry : evaluator_.all())
          if (fits(entry.arenas, tiers)) take(entry);
        evaluator_.allow(options_.most_ops / 5 / (2 * kFrontLevels));
        scan(tiers, kFrontTolerance, kFrontRounds);
      }
    ranking_ = unrestricted;
    result_.by_dram = front([](const Evaluated& entry) { return entry.arenas.dram; });
    result_.by_hbm = front([](const Evaluated& entry) { return entry.arenas.hbm; });
  }

  template <typename Bytes>
  std::vector<Evaluated> front(const Bytes& bytes) const {
    std::vector<Evaluated> all = evaluator_.all();
    std::erase_if(all, [&](const Evaluated& entry) {
      return !fits(entry.arenas, tiers_) || entry.step_seconds > kSlowestOfFront * best_seconds();
    });
    // Stable, so that of equals the same one stands in the front whatever the standard library.
    std::stable_sort(all.begin(), all.end(), [&](const Evaluated& a, const Evaluated& b) {
      return std::pair(bytes(a), a.step_seconds) < std::pair(bytes(b), b.step_seconds);
    });
    std::vector<Evaluated> result;
    for (const Evaluated& entry : all) {
      // A gain of less than half a percent is no other point.
      if (!result.empty() && entry.step_seconds > result.back().step_seconds * 0.995) continue;
      result.push_back(entry);
    }
    return result;
  }

  const Scenario& scenario_;
  const SearchSpace& space_;
  const SearchOptions& options_;
  Evaluator evaluator_;
  TierCapacities tiers_;
  std::vector<Candidate> shapes_;  // those without contradictions, by their bounds
  std::vector<double> shape_bounds_;
  std::vector<Evaluated> ranking_;
  double open_bound_ = kInfinity;  // of what a spent budget left out
  bool has_shortage_ = false;
  SearchResult result_;
};

}  // namespace

Feasibility feasible(const Scenario& scenario, const SearchSpace& space, int threads) {
  SearchOptions options;
  options.threads = threads;
  Evaluator evaluator(scenario, options);
  const TierCapacities tiers = usable_memory(scenario.machine);
  const std::vector<Candidate> all = shapes(space, scenario);
  Feasibility result;
  bool any = false;
  for (std::size_t begin = 0; begin < all.size(); begin += kBatch) {
    std::vector<Expansion> expansions(std::min(kBatch, all.size() - begin));
    evaluator.parallel(expansions.size(), [&](std::size_t i, PolicyInput& input) {
      expansions[i] =
          Residencies(evaluator, all[begin + i], space, tiers, scenario.model.layer_count() - 2, input).expand();
    });
    for (const Expansion& expansion : expansions) {
      if (!expansion.fitting.empty())
        return {true, {expansion.fitting.front().candidate, expansion.fitting.front().arenas}};
      if (expansion.closest.empty()) continue;
      const Shortage& shortage = expansion.closest.front();
      if (!any || missing(shortage.arenas, tiers) < missing(result.closest.arenas, tiers)) result.closest = shortage;
      any = true;
    }
  }
  return result;
}

SearchResult search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options) {
  TierCapacities tiers = usable_memory(scenario.machine);
  const std::int64_t nvme = std::exchange(tiers.nvme, 0);
  Search search(scenario, space, options);
  SearchResult result = search.run(tiers);
  if (nvme == 0 || !result.best.empty() || is_stopped(options)) return result;
  tiers.nvme = nvme;
  return search.run(tiers);
}

}  // namespace penstock::sim
