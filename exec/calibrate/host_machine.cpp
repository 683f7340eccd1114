#include "exec/calibrate/host_machine.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <latch>
#include <thread>

#include "exec/host/paced_ring.h"
#include "exec/memory/arena.h"
#include "exec/optimizer/adamw.h"
#include "exec/optimizer/thread_team.h"
#include "exec/runtime/board.h"
#include "exec/runtime/recorder.h"

namespace penstock::exec {
namespace {

/// Runs `body` on a thread whose sleeps are fine, as copy lanes have it.
void on_copy_thread(const std::function<void()>& body) {
  std::jthread([&body] {
    prctl(PR_SET_TIMERSLACK, 1000UL);
    body();
  });
}

double seconds_since(std::int64_t start) { return static_cast<double>(now_ns() - start) * 1e-9; }

}  // namespace

Measured measure_copy(std::int64_t bytes, double throttle) {
  const std::int64_t room = std::max(bytes, kBeyondCaches / 2);
  const Arena from(room, "calibration"), to(room, "calibration");
  Measured measured;
  std::int64_t at = 0;
  on_copy_thread([&] {
    Repeats repeats;
    repeats.most = 50;
    measured = measure_call(
        [&] {
          if (at + bytes > room) at = 0;
          paced_copy(to.data() + at, from.data() + at, bytes, throttle);
          at += bytes;
        },
        repeats);
  });
  return measured;
}

DuplexRates measure_duplex(std::int64_t bytes, double h2d_throttle, double d2h_throttle) {
  const Arena a(bytes, "calibration"), b(bytes, "calibration"), c(bytes, "calibration"), d(bytes, "calibration");
  std::latch start(2);
  const auto copy = [&](const Arena& to, const Arena& from, double throttle, double& rate) {
    start.arrive_and_wait();
    const std::int64_t begin = now_ns();
    paced_copy(to.data(), from.data(), bytes, throttle);
    rate = static_cast<double>(bytes) / seconds_since(begin);
  };
  DuplexRates rates;
  std::jthread down([&] { on_copy_thread([&] { copy(a, b, d2h_throttle, rates.d2h); }); });
  on_copy_thread([&] { copy(c, d, h2d_throttle, rates.h2d); });
  down.join();
  return rates;
}

MeasuredRate measure_ring(bool upload, const HostBackendOptions& options) {
  const Arena from(kBeyondCaches, "calibration"), to(kBeyondCaches, "calibration");
  PacedRing ring(options);
  const Measured measured = measure_call(
      [&] {
        if (upload)
          ring.upload(to.data(), from.data(), kBeyondCaches);
        else
          ring.download(to.data(), from.data(), kBeyondCaches);
      },
      {.least = 5, .most = 50, .enough_seconds = 0.2, .limit_seconds = 1});
  return {static_cast<double>(kBeyondCaches) / measured.seconds, measured.spread};
}

MeasuredRate measure_dram(int threads) {
  const Arena from(kBeyondCaches, "calibration"), to(kBeyondCaches, "calibration");
  const Measured measured = measure_call([&] {
    for_ranges(kBeyondCaches, 4096, threads, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
    });
  });
  return {2.0 * static_cast<double>(kBeyondCaches) / measured.seconds, measured.spread};
}

MeasuredRate measure_adamw(std::int64_t elements, int threads) {
  constexpr std::int64_t kBytes = 14;  // hi 2, lo 2, m 4, v 4, gradient 2
  const std::int64_t stride = (elements * kBytes + 4095) / 4096 * 4096;
  const std::int64_t layers = std::max<std::int64_t>(1, (kBeyondCaches + stride - 1) / stride);
  const Arena arena(layers * stride, "calibration");
  const StepScalars scalars = make_step_scalars(AdamHyper{}, 1, 1.0, true);
  std::int64_t layer = 0;
  const Measured measured = measure_call([&] {
    std::byte* const at = arena.data() + layer++ % layers * stride;
    OptimizerStates states;
    states.m = at;
    states.v = at + 4 * elements;
    states.weights = reinterpret_cast<std::uint16_t*>(at + 8 * elements);
    states.low_bits = reinterpret_cast<std::uint16_t*>(at + 10 * elements);
    adamw_host(states, at + 12 * elements, ElementType::bf16, elements, scalars, threads);
  });
  return {static_cast<double>(elements) / measured.seconds, measured.spread};
}

Measured measure_signal() {
  constexpr std::uint32_t kRounds = 200;
  return measure(
      [] {
        Board board(2);
        std::jthread other([&board] {
          for (std::uint32_t i = 1; i <= kRounds; ++i) {
            board.wait(0, i);
            board.publish(1, i);
          }
        });
        board.publish(0, 1);
        board.wait(1, 1);
        const std::int64_t start = now_ns();
        for (std::uint32_t i = 2; i <= kRounds; ++i) {
          board.publish(0, i);
          board.wait(1, i);
        }
        return seconds_since(start) / (2.0 * (kRounds - 1));
      },
      {.least = 7, .most = 20, .enough_seconds = 0.0, .limit_seconds = 1});
}

}  // namespace penstock::exec
