#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "exec/calibrate/cuda_machine.h"
#include "exec/numerics/bf16.h"
#include "exec/optimizer/adamw.h"
#include "exec/optimizer/thread_team.h"
#include "exec/runtime/limits.h"
#include "exec/runtime/recorder.h"
#include "shared/random.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kRoom = std::int64_t{512} << 20;  // of each direction
constexpr std::int64_t kAdamwRoom = std::int64_t{2} << 30;
constexpr std::int64_t kTriadArray = std::int64_t{512} << 20;
constexpr std::int64_t kTrafficCopy = std::int64_t{32} << 20;
constexpr std::int64_t kRingTrafficCopy = std::int64_t{64} << 20;
constexpr int kInFlight = 16;
constexpr auto kUnderWay = std::chrono::milliseconds(30);

double seconds_since(std::int64_t start) { return static_cast<double>(now_ns() - start) * 1e-9; }

/// Random 64-bit words. Not zeros: pages stay apart, and buses work as they do on real data.
void fill_random(const Arena& arena, int threads) {
  for_ranges(arena.bytes() / 8, 512, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t word = random64(7, static_cast<std::uint64_t>(i));
      std::memcpy(arena.data() + 8 * i, &word, 8);
    }
  });
}

}  // namespace

CudaCopies::Direction::Direction()
    : host(kRoom, "calibration"), registration(host.data(), static_cast<std::size_t>(kRoom)), device(kRoom) {
  fill_random(host, usable_cores());
  PENSTOCK_CUDA(cudaMemcpy(device.data(), host.data(), static_cast<std::size_t>(kRoom), cudaMemcpyHostToDevice));
}

void CudaCopies::Direction::enqueue(bool h2d, std::int64_t bytes) {
  if (at + bytes > kRoom) at = 0;
  std::byte *const on_host = host.data() + at, *const on_device = device.data() + at;
  PENSTOCK_CUDA(cudaMemcpyAsync(h2d ? on_device : on_host, h2d ? on_host : on_device, static_cast<std::size_t>(bytes),
                                cudaMemcpyDefault, stream.get()));
  at += bytes;
}

CudaCopies::CudaCopies(Gate& gate) : gate_(gate) {}

Measured CudaCopies::curve_point(bool h2d, std::int64_t bytes) {
  Direction& direction = h2d ? up_ : down_;
  const auto copies = static_cast<int>(std::clamp<std::int64_t>((std::int64_t{64} << 20) / bytes, 1, 64));
  Measured measured = measure_gated(gate_, direction.stream.get(),
                                    [&] {
                                      for (int i = 0; i < copies; ++i) direction.enqueue(h2d, bytes);
                                    },
                                    {.least = 7, .most = 50, .enough_seconds = 0.05, .limit_seconds = 1});
  measured.seconds /= copies;
  return measured;
}

namespace {

/// Copies without a pause from a thread of their own, and what has ended of them.
class Traffic {
 public:
  using Ended = std::function<void(std::int64_t bytes)>;
  /// Copies until it is asked to stop, and says what ends.
  using Feed = std::function<void(const std::stop_token&, const Ended&)>;

  explicit Traffic(Feed feed)
      : feed_(std::move(feed)), thread_([this](const std::stop_token& token) {
          try {
            feed_(token, [this](std::int64_t bytes) {
              const std::lock_guard lock(mutex_);
              count_ = {count_.bytes + bytes, now_ns()};
            });
          } catch (...) {
            error_ = std::current_exception();
          }
        }) {}

  struct Count {
    std::int64_t bytes = 0, ns = 0;  // the last one's end
  };
  Count count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  /// Throws what the feeding failed with.
  void stop() {
    thread_.request_stop();
    thread_.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const Feed feed_;
  mutable std::mutex mutex_;
  Count count_;
  std::exception_ptr error_;
  std::jthread thread_;  // last: starts when the rest exists
};

/// Both or one direction, an empty feed's resting, while `work` runs, which is called once they are under way.
CudaCopies::Rates rates_beside(const Traffic::Feed& up_feed, const Traffic::Feed& down_feed,
                               const std::function<void()>& work) {
  std::optional<Traffic> up, down;
  if (up_feed) up.emplace(up_feed);
  if (down_feed) down.emplace(down_feed);
  std::this_thread::sleep_for(kUnderWay);
  const auto count = [](const std::optional<Traffic>& traffic) {
    return traffic ? traffic->count() : Traffic::Count{};
  };
  const Traffic::Count up_before = count(up), down_before = count(down);
  work();
  const Traffic::Count up_after = count(up), down_after = count(down);
  if (up) up->stop();
  if (down) down->stop();
  const auto rate = [](const Traffic::Count& before, const Traffic::Count& after) {
    if (after.ns <= before.ns) return 0.0;
    return static_cast<double>(after.bytes - before.bytes) / (static_cast<double>(after.ns - before.ns) * 1e-9);
  };
  return {rate(up_before, up_after), rate(down_before, down_after)};
}

}  // namespace

CudaCopies::Rates CudaCopies::beside(bool h2d, bool d2h, const std::function<void()>& work) {
  // Several in flight: the thread sleeps while they run.
  const auto feed = [](Direction& direction, bool up) {
    return [&direction, up](const std::stop_token& token, const Traffic::Ended& ended) {
      Event events[kInFlight];
      for (Event& event : events) event = make_event(cudaEventBlockingSync | cudaEventDisableTiming);
      for (int i = 0; !token.stop_requested(); ++i) {
        Event& event = events[static_cast<std::size_t>(i % kInFlight)];
        if (i >= kInFlight) {
          PENSTOCK_CUDA(cudaEventSynchronize(event.get()));
          ended(kTrafficCopy);
        }
        direction.enqueue(up, kTrafficCopy);
        PENSTOCK_CUDA(cudaEventRecord(event.get(), direction.stream.get()));
      }
      PENSTOCK_CUDA(cudaStreamSynchronize(direction.stream.get()));
    };
  };
  return rates_beside(h2d ? feed(up_, true) : Traffic::Feed(), d2h ? feed(down_, false) : Traffic::Feed(), work);
}

CudaRingCopies::Direction::Direction(int threads)
    : host(kRoom, "calibration"), device(kRoom), ring(stream.get(), threads) {
  fill_random(host, usable_cores());
}

void CudaRingCopies::Direction::copy(bool h2d, std::int64_t bytes) {
  if (at + bytes > kRoom) at = 0;
  if (h2d)
    ring.upload(device.data() + at, host.data() + at, bytes);
  else
    ring.download(host.data() + at, device.data() + at, bytes);
  at += bytes;
}

CudaRingCopies::CudaRingCopies(int threads) : up_(threads), down_(threads) {}

Measured CudaRingCopies::curve_point(bool h2d, std::int64_t bytes) {
  Direction& direction = h2d ? up_ : down_;
  return measure_call([&] { direction.copy(h2d, bytes); },
                      {.least = 7, .most = 50, .enough_seconds = 0.1, .limit_seconds = 2});
}

CudaCopies::Rates CudaRingCopies::beside(bool h2d, bool d2h, const std::function<void()>& work) {
  const auto feed = [](Direction& direction, bool up) {
    return [&direction, up](const std::stop_token& token, const Traffic::Ended& ended) {
      while (!token.stop_requested()) {
        direction.copy(up, kRingTrafficCopy);
        ended(kRingTrafficCopy);
      }
    };
  };
  return rates_beside(h2d ? feed(up_, true) : Traffic::Feed(), d2h ? feed(down_, false) : Traffic::Feed(), work);
}

AdamwLoad::AdamwLoad(std::int64_t elements)
    : elements_(std::min(elements, kAdamwRoom / kBytes)),
      stride_((elements_ * kBytes + 4095) / 4096 * 4096),
      layers_(std::max<std::int64_t>(1, kAdamwRoom / stride_)),
      arena_(layers_ * stride_, "calibration") {
  // The m and v of a layer come first: floats around 1e-3, v positive; the rest is bf16.
  for_ranges(layers_ * stride_ / 4, 1024, usable_cores(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t bits = random64(3, static_cast<std::uint64_t>(i));
      const std::int64_t in_layer = i * 4 % stride_;
      std::uint32_t word = 0;
      if (in_layer < 8 * elements_) {
        const float value = 1e-3f * (static_cast<float>(bits & 0xFFFFFF) / 0x1p24f + 1e-3f);
        const float signed_value = in_layer < 4 * elements_ && (bits >> 40 & 1) ? -value : value;
        std::memcpy(&word, &signed_value, 4);
      } else {
        // Two bf16 between 2^-7 and 2^-6, signs and mantissas at random; as low bits, any pattern will do.
        word = static_cast<std::uint32_t>((bits & 0x807F807Fu) | 0x3C003C00u);
      }
      std::memcpy(arena_.data() + 4 * i, &word, 4);
    }
  });
}

double AdamwLoad::run(int threads, double seconds) {
  const StepScalars scalars = make_step_scalars(AdamHyper{}, 1, 1.0, true);
  const auto once = [&] {
    std::byte* const at = arena_.data() + layer_++ % layers_ * stride_;
    OptimizerStates states;
    states.m = at;
    states.v = at + 4 * elements_;
    states.weights = reinterpret_cast<std::uint16_t*>(at + 8 * elements_);
    states.low_bits = reinterpret_cast<std::uint16_t*>(at + 10 * elements_);
    adamw_host(states, at + 12 * elements_, ElementType::bf16, elements_, scalars, threads);
  };
  std::int64_t done = 0;
  const std::int64_t start = now_ns();
  do {
    once();
    done += elements_;
  } while (seconds_since(start) < seconds);
  return static_cast<double>(done) / seconds_since(start);
}

Triad::Triad()
    : to_(kTriadArray, "calibration"), from_(kTriadArray, "calibration"), other_(kTriadArray, "calibration") {
  for_ranges(kTriadArray / 4, 4096, usable_cores(), [this](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      floats(from_)[i] = floats(other_)[i] = static_cast<float>(random64(5, static_cast<std::uint64_t>(i)) >> 40);
  });
}

MeasuredRate Triad::run(int threads) {
  float *const to = floats(to_), *const from = floats(from_), *const other = floats(other_);
  const Measured measured = measure_call(
      [&] {
        for_ranges(kTriadArray / 4, 4096, threads, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) to[i] = from[i] + 3.0f * other[i];
        });
      },
      {.least = 3, .most = 50, .enough_seconds = 0.2, .limit_seconds = 1});
  return {3.0 * static_cast<double>(kTriadArray) / measured.seconds, measured.spread};
}

}  // namespace penstock::exec
