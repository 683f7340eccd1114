#include "shared/stop_signals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace penstock {
namespace {

/// What was heard, to be waited for.
class Wishes {
 public:
  StopSignals::Heard heard() {
    return [this](int wishes, std::string_view cause) {
      const std::lock_guard lock(mutex_);
      all_.push_back(std::to_string(wishes) + " " + std::string(cause));
      changed_.notify_all();
    };
  }
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return all_.size() >= count; });
    return all_;
  }
  /// As an impatient hand does: again and again, not faster than it can, until that is heard.
  std::vector<std::string> insist(int signal, std::size_t count) {
    std::unique_lock lock(mutex_);
    do raise(signal);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(150), [&] { return all_.size() >= count; }));
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

using Texts = std::vector<std::string>;

TEST(StopSignals, EachKindIsHeardByItsName) {
  for (const auto& [signal, name] : {std::pair{SIGINT, "1 Ctrl-C"},
                                     {SIGTERM, "1 SIGTERM"},
                                     {SIGHUP, "1 the terminal was closed"},
                                     {SIGXCPU, "1 the CPU time is used up"},
                                     {SIGPIPE, "1 standard output is read no more"}}) {
    Wishes wishes;
    const StopSignals signals(wishes.heard());
    raise(signal);
    EXPECT_EQ(wishes.wait_for(1), Texts{name});
  }
}

TEST(StopSignals, FurtherWishesAreCountedOneByOne) {
  Wishes wishes;
  const StopSignals signals(wishes.heard());
  wishes.insist(SIGINT, 1);
  wishes.insist(SIGINT, 2);
  EXPECT_EQ(wishes.insist(SIGTERM, 3), (Texts{"1 Ctrl-C", "2 Ctrl-C", "3 SIGTERM"}));
}

TEST(StopSignals, TwoAtOnceAreOne) {
  Wishes wishes;
  {
    const StopSignals signals(wishes.heard());
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &both, nullptr);
    raise(SIGINT);
    raise(SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &both, nullptr);  // both come now, one behind the other
  }
  EXPECT_EQ(wishes.wait_for(1).size(), 1u);  // the end of StopSignals has told everything
}

TEST(StopSignals, EveryWriteToNobodyIsOneWish) {
  Wishes wishes;
  {
    const StopSignals signals(wishes.heard());
    raise(SIGPIPE);
    raise(SIGPIPE);
    raise(SIGXCPU);
    wishes.insist(SIGINT, 2);
    raise(SIGPIPE);
  }
  EXPECT_EQ(wishes.wait_for(2), (Texts{"1 standard output is read no more", "2 Ctrl-C"}));
}

TEST(StopSignals, UnderNohupAClosedTerminalIsNoWish) {
  ::signal(SIGHUP, SIG_IGN);
  Wishes wishes;
  {
    const StopSignals signals(wishes.heard());
    raise(SIGHUP);
    wishes.insist(SIGTERM, 1);
  }
  EXPECT_EQ(wishes.wait_for(1), Texts{"1 SIGTERM"});
  EXPECT_EQ(::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

TEST(StopSignals, WhatWasBeforeComesBack) {
  ::signal(SIGPIPE, SIG_IGN);
  {
    Wishes wishes;
    const StopSignals signals(wishes.heard());
  }
  EXPECT_EQ(::signal(SIGPIPE, SIG_DFL), SIG_IGN);
  EXPECT_EQ(::signal(SIGINT, SIG_DFL), SIG_DFL);
}

}  // namespace
}  // namespace penstock
