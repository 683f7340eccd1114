#include "shared/stop_signals.h"

#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <thread>
#include <utility>

namespace penstock {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU};

constexpr std::int64_t kSameWishNs = 100'000'000;
constexpr std::int64_t kNever = -kSameWishNs;  // the clock starts at 0

// What the handler touches.
std::atomic<int> wishes{0};
std::atomic<int> causes[8];  // of the first ones; later ones are told by turns
std::atomic<std::int64_t> last_wish_ns{kNever};
std::atomic<bool> ended{false};
sem_t wake;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

extern "C" void count_wish(int signal) {
  const int error = errno;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // a handler may call it, and sem_post
  const std::int64_t now_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  const bool is_repeated = signal == SIGPIPE || signal == SIGXCPU;
  const bool counts = is_repeated ? wishes.load() == 0 : now_ns - last_wish_ns.exchange(now_ns) >= kSameWishNs;
  if (counts) {
    causes[static_cast<std::size_t>(wishes.fetch_add(1)) % std::size(causes)].store(signal);
    sem_post(&wake);
  }
  errno = error;
}

std::string_view name_of(int signal) {
  switch (signal) {
    case SIGINT: return "Ctrl-C";
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "the terminal was closed";
    case SIGXCPU: return "the CPU time is used up";
    default: return "standard output is read no more";
  }
}

}  // namespace

class StopSignals::Listener {
 public:
  explicit Listener(Heard heard);
  ~Listener();
  void ignore_afterwards();

 private:
  void listen();

  Heard heard_;
  struct sigaction before_[std::size(kSignals)]{};
  std::jthread thread_;
};

StopSignals::Listener::Listener(Heard heard) : heard_(std::move(heard)) {
  wishes = 0;
  last_wish_ns = kNever;
  ended = false;
  sem_init(&wake, 0, 0);
  thread_ = std::jthread([this] { listen(); });
  struct sigaction action {};
  action.sa_handler = count_wish;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (kSignals[i] != SIGHUP || before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::Listener::~Listener() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  ended = true;
  sem_post(&wake);
}

void StopSignals::Listener::ignore_afterwards() {
  for (struct sigaction& action : before_) {
    action = {};
    action.sa_handler = SIG_IGN;
  }
}

void StopSignals::Listener::listen() {
  for (int told = 0;;) {
    while (sem_wait(&wake) != 0) {
    }
    if (told < wishes.load()) {
      const int cause = causes[static_cast<std::size_t>(told) % std::size(causes)];
      heard_(++told, name_of(cause));
    } else if (ended) {
      return;
    }
  }
}

StopSignals::StopSignals(Heard heard) : listener_(std::make_unique<Listener>(std::move(heard))) {}

StopSignals::~StopSignals() = default;

void StopSignals::ignore_afterwards() { listener_->ignore_afterwards(); }

}  // namespace penstock
