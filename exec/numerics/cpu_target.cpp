#include "exec/numerics/cpu_target.h"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "shared/error.h"

namespace penstock::exec {
namespace {

constexpr const char* kVariable = "PENSTOCK_CPU_TARGET";

std::int64_t highway_target(CpuTarget target) {
  switch (target) {
    case CpuTarget::avx512: return HWY_AVX3;
    case CpuTarget::avx2: return HWY_AVX2;
    case CpuTarget::baseline: break;
  }
  return 0;
}

/// What the processor has, before anything is forced.
std::int64_t supported_by_processor() {
  static const std::int64_t targets = hwy::SupportedTargets();
  return targets;
}

CpuTarget best_target() {
  CpuTarget best = CpuTarget::baseline;
  for (const CpuTarget target : kCpuTargets)
    if (cpu_target_supported(target)) best = target;
  return best;
}

CpuTarget wanted_target() {
  const char* const wanted = std::getenv(kVariable);
  if (wanted == nullptr || *wanted == '\0') return best_target();
  for (const CpuTarget target : kCpuTargets) {
    if (std::string(wanted) != cpu_target_name(target)) continue;
    if (!cpu_target_supported(target))
      throw InputError(fmt::format("the environment's {} is {}, which this processor lacks; the best it has is {}",
                                   kVariable, wanted, cpu_target_name(best_target())));
    return target;
  }
  throw InputError(
      fmt::format("the environment's {} is \"{}\"; it is baseline, avx2 or avx512, or not set for the best of them",
                  kVariable, wanted));
}

std::atomic<CpuTarget>& chosen() {
  static std::atomic<CpuTarget> target = [] {
    const CpuTarget wanted = wanted_target();
    hwy::GetChosenTarget().Update(highway_target(wanted));
    return wanted;
  }();
  return target;
}

}  // namespace

const char* cpu_target_name(CpuTarget target) {
  switch (target) {
    case CpuTarget::avx512: return "avx512";
    case CpuTarget::avx2: return "avx2";
    case CpuTarget::baseline: break;
  }
  return "baseline";
}

bool cpu_target_supported(CpuTarget target) {
  const std::int64_t wanted = highway_target(target);
  return (supported_by_processor() & wanted) == wanted;
}

CpuTarget cpu_target() { return chosen().load(std::memory_order_relaxed); }

void force_cpu_target(CpuTarget target) {
  if (!cpu_target_supported(target)) throw std::logic_error("force_cpu_target: the processor lacks it");
  chosen().store(target);
  hwy::GetChosenTarget().Update(highway_target(target));
}

std::string describe_cpu_target() {
  const CpuTarget target = cpu_target();
  if (target == best_target()) return fmt::format("{}, the best that this processor has", cpu_target_name(target));
  return fmt::format("{}, as {} says; this processor has {}", cpu_target_name(target), kVariable,
                     cpu_target_name(best_target()));
}

}  // namespace penstock::exec
