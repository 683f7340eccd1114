#include "exec/calibrate/host_passes.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "exec/optimizer/adamw.h"
#include "exec/optimizer/norm.h"
#include "exec/optimizer/thread_team.h"
#include "exec/runtime/limits.h"
#include "exec/runtime/recorder.h"
#include "shared/ir/host_pass_names.h"
#include "shared/random.h"

namespace penstock::exec {
namespace {

constexpr auto kPause = std::chrono::milliseconds(2);  // helpers sleep within microseconds
constexpr auto kNothing = [](const auto&) {};          // to prepare
constexpr ElementType kGradientTypes[] = {ElementType::bf16, ElementType::fp32};

}  // namespace

/// The planes of one layer.
struct HostPasses::Layer {
  float *m, *v, *sum;
  std::uint16_t *weights, *low_bits, *gradient, *out;
};

HostPasses::HostPasses(std::int64_t room_bytes) : arena_(room_bytes, "calibration") {
  // Words that are sound as one fp32 and as two bf16, all positive, of any exponent from 2^-15 to 2^-8.
  for_ranges(arena_.bytes() / 4, 1024, usable_cores(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto word =
          static_cast<std::uint32_t>((random64(3, static_cast<std::uint64_t>(i)) & 0x03FF03FFu) + 0x38003800u);
      std::memcpy(arena_.data() + 4 * i, &word, 4);
    }
  });
}

HostPasses::Layer HostPasses::next_layer(std::int64_t elements) {
  const std::int64_t padded = (elements + 15) / 16 * 16;  // every plane on a cache line
  if (at_ + padded * kBytes > arena_.bytes()) at_ = 0;
  std::byte* place = arena_.data() + at_;
  at_ += padded * kBytes;
  const auto take = [&](std::int64_t element_bytes) { return std::exchange(place, place + padded * element_bytes); };
  Layer layer{};
  for (float** plane : {&layer.m, &layer.v, &layer.sum}) *plane = reinterpret_cast<float*>(take(4));
  for (std::uint16_t** plane : {&layer.weights, &layer.low_bits, &layer.gradient, &layer.out})
    *plane = reinterpret_cast<std::uint16_t*>(take(2));
  return layer;
}

template <class Prepare, class Body>
MeasuredPass HostPasses::timed(const std::string& name, std::int64_t elements, double bytes_per_element, int threads,
                               const Prepare& prepare, const Body& body) {
  const Measured measured = measure(
      [&] {
        const Layer layer = next_layer(elements);
        prepare(layer);
        if (threads > 1) std::this_thread::sleep_for(kPause);
        // What one thread does alone is known whoever else uses the machine, as kernels are.
        const auto clock = [&] { return threads == 1 ? thread_cpu_seconds() : static_cast<double>(now_ns()) * 1e-9; };
        const double start = clock();
        body(layer);
        return clock() - start;
      },
      {.least = 5, .most = 40, .enough_seconds = 0.08, .limit_seconds = 0.5});
  return {{name, threads, bytes_per_element * static_cast<double>(elements), measured.seconds}, measured.spread};
}

std::vector<MeasuredPass> HostPasses::adamw(std::int64_t elements, int threads) {
  const StepScalars scalars = make_step_scalars(AdamHyper{}, 1, 1.0, true);
  std::vector<MeasuredPass> passes;
  for (const StateFormat format : {StateFormat::planes, StateFormat::master_and_copy, StateFormat::bf16})
    for (const ElementType gradient : kGradientTypes) {
      Numerics numerics;
      numerics.states = format;
      numerics.gradient_link = gradient;
      const auto update = [&](const Layer& layer) {
        OptimizerStates states;
        states.format = format;
        states.m = layer.m;
        states.v = layer.v;
        states.weights = layer.weights;
        states.low_bits = layer.low_bits;
        states.master = layer.sum;
        adamw_host(states, layer.gradient, gradient, elements, scalars, threads);  // fp32: over `out` as well
      };
      passes.push_back(timed(adamw_pass_name(format, numerics.moments, gradient), elements,
                             optimizer_bytes_per_parameter(numerics), threads, kNothing, update));
    }
  return passes;
}

std::vector<MeasuredPass> HostPasses::gradients(std::int64_t elements, int threads) {
  const auto bytes = [](ElementType type) { return static_cast<double>(element_bytes(type)); };
  std::vector<MeasuredPass> passes;
  for (const ElementType part : kGradientTypes)
    for (const ElementType sum : kGradientTypes) {
      const auto add = [&](const Layer& layer, bool first) {
        accumulate_host(layer.gradient, part, layer.sum, sum, first, elements, threads);
      };
      for (const bool first : {false, true})
        passes.push_back(timed(accumulate_pass_name(part, sum, first), elements,
                               bytes(part) + bytes(sum) * (first ? 1 : 2), threads, kNothing,
                               [&](const Layer& layer) { add(layer, first); }));
      // The sum has just been made, and part of it is still in the caches.
      passes.push_back(timed(
          finish_pass_name(sum, part), elements, bytes(sum) + bytes(part), threads,
          [&](const Layer& layer) { add(layer, false); },
          [&](const Layer& layer) {
            finish_gradient_host(layer.sum, sum, nullptr, layer.m, part, elements, threads);
          }));
    }
  return passes;
}

void keep(std::vector<MeasuredPass> passes, Profile& profile) {
  for (MeasuredPass& pass : passes) {
    double& widest = profile.spread[pass.point.name];
    widest = std::max(widest, pass.spread);
    profile.machine.cpu.passes.push_back(std::move(pass.point));
  }
}

}  // namespace penstock::exec
